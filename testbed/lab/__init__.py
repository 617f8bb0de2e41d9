"""Labs: places where a topology exists and processes run, or where both are simulated."""

BUILT_IN = ("netns", "mininet", "docker", "baremetal", "machines", "simulator")
"""Names of the folders here that are labs, in the order in which people read of them; see :mod:`testbed.lab.choice`."""
IN_EVERY_DIGEST = ("docker",)
"""Labs whose key of settings, without a value, is in the digests of other labs' trials: the only ones that had settings
at first. Runs that began before others had some can go on."""
