"""This machine: what it can do, what is left on it, and what else keeps it busy."""
