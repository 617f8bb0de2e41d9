"""The directory that a run leaves: who writes into it, how it is read, and how a run goes on with it."""
