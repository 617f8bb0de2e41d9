"""The keys of ``workload``, a module for each kind."""
