"""The process itself: its use of the clock and the processor, its vital signs, and its end."""
