"""One trial: what it is, and how it runs in a lab."""
