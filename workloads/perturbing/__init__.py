"""Processes that perturb a trial: background traffic, and a core that is kept busy."""
