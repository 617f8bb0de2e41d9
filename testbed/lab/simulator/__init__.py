"""The place ``simulator``: trials in simulated time."""
