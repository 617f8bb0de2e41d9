"""``testbed watch``: the report of a run in a browser, made anew as trials end.

``looking.py`` says what goes on in a run directory, ``render.py`` is the program that makes a page, and ``pages.py``
decides when it is made anew. ``server.py`` serves it on loopback.
"""
