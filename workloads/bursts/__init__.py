"""Bursts that measure what links carry, by workers and before programs that are not ours."""
