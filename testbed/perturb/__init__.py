"""Perturbations: what a spec asks to happen to a trial, made exact and carried out.

``kinds`` has a file for each kind, ``registry`` lists them, and ``check`` says whether they fit a trial. ``targets``
finds hosts, workers and links by name; ``stragglers`` draws every worker's and iteration's slowdown before the trial
starts; ``schedule`` turns the rest into ``events`` at stated ``moments``; ``conductor`` carries these out in the lab
while the trial runs, and records when each was due, begun and done; ``capacity`` says from these records what each link
could carry when, for bounds.
"""
