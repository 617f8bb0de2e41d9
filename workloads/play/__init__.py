"""Play of what moves between nodes, in simulated time, on a network whose connections share links fairly."""
