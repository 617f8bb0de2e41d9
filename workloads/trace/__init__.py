"""Execution traces of others: what each rank of a job computes and sends, as a graph of nodes.

:mod:`.graph` has the nodes, :mod:`.chakra` and :mod:`.pytorch` read files of them, :mod:`.player` plays them as ranks
of a script.
"""
