"""What the scheduler decides while a trial runs, pure."""
