"""The program of one server for a model whose operators several servers hold (TopoOpt, section 3.2), without the
network.

:mod:`.cut` says which steps each server takes and which boundary tensors cross, :mod:`.agenda` which step is next,
:mod:`.layout` where weights and gradients lie, :mod:`.pace` how long a step takes. :mod:`.server` computes, with
PyTorch.
"""
