"""This machine: its processes, limits and settings, and what else keeps it busy."""
