"""The harness: specs, trials, labs, fidelity, run directories and the command line."""
