"""Engine that moves the bytes of a script's collectives: many at a time, whose sizes are known only when they come."""
