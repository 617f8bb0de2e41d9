"""Programs that run on a host beside its workers: the agent, and what it starts, measures and tells."""
