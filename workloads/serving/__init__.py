"""Parts that all processes with weights, and their workers, have in common, whichever kind of trial they belong to."""
