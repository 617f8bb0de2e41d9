"""ProbeEmbed (PHub thesis, section 4.2.1): from distances that hosts probe to groups of hosts that are near each other.

All modules but :mod:`.echo` are pure. None of them is given a network, so the names of hosts do not matter.
"""
