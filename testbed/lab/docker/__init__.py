"""The ``docker`` lab: a container per host, wired and shaped by the sandbox of the ``netns`` lab."""
