"""Perturbations: what a spec asks to happen to a trial, made exact.

``kinds`` has a class for each kind, and ``registry`` lists them. ``targets`` finds hosts, workers and links by name;
``stragglers`` draws every worker's and iteration's slowdown before the trial starts; ``schedule`` turns the rest into
``events`` at stated ``moments``. :mod:`testbed.experiment.perturbations` says whether they fit a trial, and
:mod:`testbed.control.conductor` carries events out while it runs; ``capacity`` says from its records what each link
could carry when, for bounds.
"""
