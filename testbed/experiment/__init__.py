"""An experiment: its trials, one after the other, and the run directory that they leave."""
