"""The lab for a user without any privilege, in a user namespace of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import testbed

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
    assert seen["impaired_by"] in ("netem", "delay line")
    took_ms = [float(ms) for ms in re.findall(r"time=([\d.]+) ms", seen["delayed"])]
    assert 20 < min(took_ms) < 60, "a busy machine adds to some of them"
    assert "reno" in seen["congestion_controls"]


def test_a_limit_of_no_namespaces_is_named(tmp_path: Path) -> None:
    """In a user namespace that allows no others, without the privilege that its first process has."""
    unprivileged = "setpriv --no-new-privs --inh-caps=-all --bounding-set=-all"
    script = f'echo 0 > /proc/sys/user/max_user_namespaces; exec {unprivileged} "$@"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", sys.executable, "-m", "testbed", "doctor"],
        env={**os.environ, "PYTHONPATH": str(Path(testbed.__file__).parents[1])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "the kernel does not let us make namespaces: the limit user.max_user_namespaces is reached\n" in done.stdout
    assert "fix: run as root, or allow namespaces to users: sysctl -w user.max_user_namespaces=10000" in done.stdout
    assert done.stderr == ""
