"""Basics that every package may import: errors, exit codes, units, and what a terminal has."""
