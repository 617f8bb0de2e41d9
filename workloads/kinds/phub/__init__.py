"""Parameter servers with many NICs, PHub and PBox (Luo, thesis, 2020, chapters 2 and 3): plans, keys and costs.

Nothing here runs, and no scheme makes such a plan: this is the pure part, for processes to follow.
"""
