"""The schemes of MLfabric, a file each."""
