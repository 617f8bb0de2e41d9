"""Orders of hosts: which host gets which rank, so that a collective costs little (PHub thesis, chapter 5).

All modules are pure. None of them is given a network, so the names of hosts do not matter.
"""
