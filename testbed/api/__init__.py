"""The interface for Python programs and notebooks. ``testbed`` exports it; see ``docs/start/python.md``."""
