"""Processes on nodes: started, enclosed, and what they ask of the lab."""
