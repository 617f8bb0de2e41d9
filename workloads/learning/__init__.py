"""Learning: gradients that workers compute, the changes that they make to weights, and the reference for these."""
