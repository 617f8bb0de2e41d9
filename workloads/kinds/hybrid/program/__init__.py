"""The program of one server for a model whose operators several servers hold (TopoOpt, section 3.2), without the
network.

:mod:`.steps` says which steps each server takes, which boundary tensors cross, which step is next, and how long a step
takes. :mod:`.layout` says where weights and gradients lie. :mod:`.server` computes, with PyTorch.
"""
