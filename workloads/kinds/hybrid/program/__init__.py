"""The program of one server for a model whose operators several servers hold (TopoOpt, section 3.2), without the
network.

:mod:`.steps` says which steps each server takes and which boundary tensors cross, :mod:`.steps` which step is next,
:mod:`.layout` where weights and gradients lie, :mod:`.steps` how long a step takes. :mod:`.server` computes, with
PyTorch.
"""
