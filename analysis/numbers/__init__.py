"""What numbers of cells say together: medians, ratios, repeats, intervals, and times to a goal."""
