"""Network families: pure data, no I/O, nothing of ours imported but the error tree."""
