"""The ``mininet`` lab: Mininet's hosts, switches and links, in the sandbox of the ``netns`` lab."""
