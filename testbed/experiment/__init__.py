"""An experiment: its trials, their order and number, the loop over them, and how a run goes on."""
