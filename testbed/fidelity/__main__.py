"""Print the page about all checks (:mod:`testbed.fidelity.page`)."""

from testbed.fidelity.page import page

print(page(), end="")
