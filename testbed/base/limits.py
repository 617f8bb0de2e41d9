"""The most of what a spec may ask for. Readers of run directories hold what others wrote against the same numbers."""

MOST_JOBS = 100
"""The most jobs of an arm, copies included: all are planned and verified before the first runs."""
MOST_ARMS = 200
"""The most arms of a spec: all are built and verified before the first runs."""
