"""One experiment over several machines: blocks of compared cells, each run whole on one of them."""
