"""How one trial runs in a lab, and what is gathered of it."""
