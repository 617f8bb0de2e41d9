"""The exceptions that a scheme or topology in a file of one's own may raise."""

from testbed.base.errors import *  # noqa: F403
