"""The controller's end of the agents: connections, clocks, what hosts say, and what they are told to run."""
