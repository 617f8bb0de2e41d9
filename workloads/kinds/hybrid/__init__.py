"""Hybrid data and model parallelism (TopoOpt, sections 3.2 and 5): operators on the servers that a strategy names."""
