"""Comparisons of trials that ran: the closing table, the gate, merged runs, a paper's claims."""
