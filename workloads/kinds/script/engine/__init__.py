"""Moves the bytes of a script's calls, many at once, in one thread of each process."""
