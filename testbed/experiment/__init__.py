"""An experiment: its trials, their order and number, and the loop over them."""
