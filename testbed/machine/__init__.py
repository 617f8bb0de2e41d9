"""What this machine can do, what is left on it, and what else keeps it busy."""
