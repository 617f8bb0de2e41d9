"""Capacity of this machine: kept in the user's cache, and used to say before a run what to expect.

``model`` computes what a trial asks for and predicts from what was measured, ``cache`` keeps it, and ``advice`` words
it. ``doctor`` checks what else runs need. Nothing here runs a trial: :mod:`testbed.experiment.ladder` measures, and
:mod:`testbed.experiment.fit` chooses a scale (``scale: fit``).
"""
