"""The lab for a user without any privilege, in a user namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

SCRIPT = Path(__file__).with_name("rootless.py")
AS_NOBODY = [
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
]
"""Nobody, who may do nothing but read a checkout or a Python that lies under /root."""


def test_all_works_without_privilege() -> None:
    prefix = AS_NOBODY if os.geteuid() == 0 else []
    done = subprocess.run(
        [*prefix, sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["user"] != 0
    assert seen["ping"] == seen["traffic_control"] == 0
    assert seen["rates"] == [100_000_000]
    assert {"cubic", "reno"} <= set(seen["congestion_controls"])
