"""Code that runs on a host: the worker, training, compute, models, data sets and gradient synchronisation."""
