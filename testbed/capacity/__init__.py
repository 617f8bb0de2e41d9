"""What this machine can carry: measured once, kept in the user's cache, and used to say before a run what to expect.

``load`` is what a trial asks for, ``ladder`` measures (``testbed doctor --capacity``), ``model`` predicts from what was
measured, ``cache`` keeps it, ``advice`` words it, and ``fit`` chooses a scale (``scale: fit``). Only ``ladder`` runs
anything.
"""
