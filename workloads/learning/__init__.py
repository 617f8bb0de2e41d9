"""What workers compute, how their weights change, and what these must equal."""
