"""Numbers of cells together: medians, ratios, repeats, intervals, and times to a goal."""
