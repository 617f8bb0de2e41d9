"""The part of the lab that runs on a machine: an agent, and the nodes of a network that are there."""
