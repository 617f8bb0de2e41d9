"""Two runs, or a run and a baseline: what of them is compared, under which conditions, and what is to be said of it."""
