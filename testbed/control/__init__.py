"""Controllers: they act on a trial while it runs, by what its processes say and which of them end.

``feed`` reads what processes say, once for all controllers, ``worker_lines`` checks it, and ``endings`` words how
processes ended; ``registry`` says what a controller is, finds those that kinds of trial declare, and has the thread
that asks them. Events (``conductor``), circuits (``patching``, ``reconfiguring``), failover
(:mod:`testbed.recovery.failover`) and the progress bar are controllers.
"""
