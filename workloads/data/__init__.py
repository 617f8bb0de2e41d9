"""Data sets: loaded, generated, or text that ships with Python."""
