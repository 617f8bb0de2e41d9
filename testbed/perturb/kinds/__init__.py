"""Kinds of perturbations, a class each: its keys in a spec, what becomes of it, and what it declares about itself.

Nothing else knows a kind but :mod:`testbed.perturb.registry`, which lists them. ``docs/extend/perturbation.md`` says
how to add one.
"""
