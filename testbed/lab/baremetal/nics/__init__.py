"""Training NICs: what is to be done to them, what is done, how it is undone, and what the kernel has of them."""
