"""Many runs in the order of time: a metric of each cell, and where it changed. It reports, and gates nothing."""
