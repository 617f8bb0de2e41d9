"""The network between hosts: what each host is to be like for a topology, racks, and what links carry."""
