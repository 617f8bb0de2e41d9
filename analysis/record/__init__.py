"""A trial's record: each field is declared here once, and what else there is of it is derived from that.

:mod:`.fields` says how a field is declared. :mod:`.trial` has the fields of a trial's JSON; its parts are in modules of
their own beside it (:mod:`.metrics`, :mod:`.network`, ...), and columns of tables in :mod:`.tables`. From these come
the shape that readers hold a file against and the record of a trial that has not got anywhere (:mod:`.fields`), typed
values (:mod:`.reading`), the columns of ``results.csv`` (:mod:`.columns`), and the data dictionary
(:mod:`testbed.analysis.dictionary`).
"""
