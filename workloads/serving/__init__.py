"""Common parts of processes that hold weights, and of their workers, for all kinds of trial."""
