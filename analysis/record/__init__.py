"""A trial's record: each field is declared here once, and what else there is of it is derived from that.

:mod:`.fields` says how a field is declared. :mod:`.trial` has the fields of a trial's JSON, :mod:`.metrics` and
:mod:`.happened` its larger parts, and :mod:`.tables` columns of tables. From these come the shape that readers hold a
file against, typed values and the record of a trial that has not got anywhere (:mod:`.fields`), the columns of
``results.csv`` (:mod:`.columns`), and the data dictionary (:mod:`testbed.analysis.dictionary`).
"""
