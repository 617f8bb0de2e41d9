"""Controllers: what acts on a trial while it runs, by what its processes say and which of them end.

``feed`` reads what processes say, once for all controllers; ``controller`` is what a controller is, and the thread that
asks them; ``registry`` finds those that kinds of trial declare. Events (:mod:`testbed.perturb.conductor`), circuits
(:mod:`testbed.perturb.patching`), failover (:mod:`testbed.recovery.failover`) and the progress bar are controllers.
"""
