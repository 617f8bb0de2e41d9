"""Labs: places where a topology exists and processes run."""
