"""The directory that a run leaves: who writes into it, and how it is read."""
