"""What the kernel has of a network, read back, held against what was asked for, and counted."""
