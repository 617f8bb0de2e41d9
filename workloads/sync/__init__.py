"""Gradient synchronisation: forests, their verifier and cost model, and the engine that runs them."""
