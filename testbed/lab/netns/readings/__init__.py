"""Readings of what the kernel has of a network: held against what was asked for, and counted."""
