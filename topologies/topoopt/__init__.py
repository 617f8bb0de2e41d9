"""TopologyFinder: circuits and routes for a training job's AllReduce groups and model-parallel transfers (TopoOpt).

Pure functions of the number of servers n, the interfaces of each d, the AllReduce groups and T_MP. :mod:`.finder` is
Algorithm 1; the other modules are its steps, and Algorithms 2 to 5.
"""
