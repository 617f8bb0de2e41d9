"""Evidence that verdicts are made from: measurements around a trial, least times, sums and weights."""
