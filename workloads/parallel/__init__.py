"""Hybrid data and model parallelism (TopoOpt, sections 3.2 and 5.1): the servers that hold each part of a model.

Pure functions: nothing runs. :mod:`.operators` and :mod:`.models` say what a model is made of, :mod:`.strategy` who
holds it and what that sends, :mod:`.prediction` how long an iteration takes, and :mod:`.search` looks for strategies
and networks that take less.
"""
