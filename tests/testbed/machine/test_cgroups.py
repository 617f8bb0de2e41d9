"""Quotas of CPU time, limits of memory and of processes: in trees of files, and of processes that the kernel limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.machine import cgroups
from testbed.machine.cgroups import Limits, Quota
from tests.patience import PATIENCE_S
from tests.testbed.cgroup import group, quota

ALL = len(os.sched_getaffinity(0))
V1 = "{} 24 0:{} {} /sys/fs/cgroup/{} rw,nosuid shared:9 - cgroup cgroup rw,{}"
V2 = "41 31 0:38 {} /sys/fs/cgroup{} rw,relatime - cgroup2 cgroup2 rw,nsdelegate"


def tree(root: Path, own: list[str], mounts: list[str], files: dict[str, str]) -> Path:
    """A machine whose process lies in the groups ``own``, as /proc has them, with these files of groups."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("".join(f"{line}\n" for line in own))
    (root / "proc/self/mountinfo").write_text(
        "".join(f"{line}\n" for line in ["22 1 8:1 / / rw - ext4 /dev/x rw", *mounts])
    )
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def unified(root: Path, files: dict[str, str]) -> Limits:
    """Limits of a process in /a/b of version 2."""
    (root / "sys/fs/cgroup/a/b").mkdir(parents=True)
    return cgroups.limits(tree(root, ["0::/a/b"], [V2.format("/", "")], files))


def test_the_least_quota_of_all_groups_above_counts(tmp_path: Path) -> None:
    found = unified(
        tmp_path, {"a/cpu.max": "50000 100000\n", "a/b/cpu.max": "150000 100000\n", "cpu.max": "max 100000\n"}
    )
    top = tmp_path / "sys/fs/cgroup"
    assert found.quotas == (Quota(top / "a/b", 1.5), Quota(top / "a", 0.5))
    assert (found.quota_cores, found.cores, found.cpus, found.is_known) == (0.5, 0.5, ALL, True)
    assert found.as_json() == {"quota_cores": 0.5, "memory_bytes": None, "processes": None}


def test_a_quota_of_more_than_all_cpus_limits_nothing(tmp_path: Path) -> None:
    found = unified(tmp_path, {"a/cpu.max": f"{(ALL + 1) * 100000} 100000\n"})
    assert found.cores == ALL
    assert found.as_json()["quota_cores"] is None


def test_without_a_quota_all_cpus_are_to_use(tmp_path: Path) -> None:
    found = unified(tmp_path, {"a/b/cpu.max": "max 100000\n", "a/b/memory.max": "max\n", "a/b/pids.max": "max\n"})
    assert found == Limits(ALL)


def test_memory_and_processes_have_limits_too(tmp_path: Path) -> None:
    files = {
        **{"a/memory.max": f"{4 << 30}", "a/memory.current": f"{1 << 30}", "a/b/memory.max": f"{8 << 30}"},
        **{"a/b/memory.current": f"{7 << 30}", "a/b/memory.stat": f"anon 1\ninactive_file {5 << 30}\n"},
        **{"a/pids.max": "100\n", "a/b/pids.max": "max\n"},
    }
    found = unified(tmp_path, files)
    assert (found.memory_bytes, found.memory_left_bytes, found.processes) == (4 << 30, 3 << 30, 100)


def test_version_1_has_a_hierarchy_for_each_controller(tmp_path: Path) -> None:
    own = ["9:name=systemd:/", "3:cpu,cpuacct:/jobs/7", "2:memory:/jobs/7", "1:pids:/", "0::/"]
    mounts = [
        V1.format(32, 29, "/", "cpu\\054cpuacct", "cpu,cpuacct"),  # a comma, as the kernel writes odd characters
        V1.format(33, 30, "/", "memory", "memory"),
        V1.format(34, 31, "/", "pids", "pids"),
        V2.format("/", "/unified"),
    ]
    files = {
        **{"cpu,cpuacct/jobs/cpu.cfs_quota_us": "25000", "cpu,cpuacct/jobs/cpu.cfs_period_us": "100000"},
        **{"cpu,cpuacct/jobs/7/cpu.cfs_quota_us": "-1", "cpu,cpuacct/jobs/7/cpu.cfs_period_us": "100000"},
        **{"memory/jobs/7/memory.limit_in_bytes": f"{2 << 30}", "memory/memory.limit_in_bytes": "9223372036854771712"},
        **{"memory/jobs/7/memory.usage_in_bytes": f"{3 << 29}"},
        **{"memory/jobs/7/memory.stat": f"inactive_file 7\ntotal_inactive_file {1 << 29}\n", "pids/x": ""},
    }
    found = cgroups.limits(tree(tmp_path, own, mounts, files))
    assert found.quotas == (Quota(tmp_path / "sys/fs/cgroup/cpu,cpuacct/jobs", 0.25),)
    assert (found.memory_bytes, found.memory_left_bytes, found.processes) == (2 << 30, 1 << 30, None)


def test_a_container_sees_its_own_group_at_the_top(tmp_path: Path) -> None:
    files = {"cpu.max": "50000 100000"}
    own, mounts = ["0::/docker/abc"], [V2.format("/docker/abc", "")]
    assert cgroups.limits(tree(tmp_path / "host", own, mounts, files)).quota_cores == 0.5
    assert cgroups.limits(tree(tmp_path / "namespace", ["0::/"], [V2.format("/", "")], files)).quota_cores == 0.5


@pytest.mark.parametrize(
    ("own", "mounts"),
    [
        (["0::/a"], []),
        (["0::/../other"], [V2.format("/", "")]),
        (["0::/other"], [V2.format("/docker/abc", "")]),
        (["0::/dockers"], [V2.format("/docker", "")]),
        (["1:cpu:/", "0::/"], [V2.format("/", "")]),
    ],
)
def test_groups_that_cannot_be_seen_are_not_taken_for_none(tmp_path: Path, own: list[str], mounts: list[str]) -> None:
    found = cgroups.limits(tree(tmp_path, own, mounts, {"cpu.max": "50000 100000"}))
    assert (found.is_known, found.quotas) == (False, ())


def test_a_kernel_without_control_groups_has_no_quota(tmp_path: Path) -> None:
    assert cgroups.limits(tmp_path) == Limits(ALL)


def test_odd_files_limit_nothing_and_break_nothing(tmp_path: Path) -> None:
    files = {
        "a/b/cpu.max": "50000 0\n",
        "a/cpu.max": "x y z\n",
        "cpu.max": "",
        "a/memory.max": "lots",
        "a/pids.max": "-1",
    }
    (tmp_path / "sys/fs/cgroup/a/b/memory.max").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/a/b").mkdir(exist_ok=True)
    assert cgroups.limits(
        tree(tmp_path, ["0::/a/b", "nonsense", ""], [V2.format("/", ""), "short", "a - cgroup2"], files)
    ) == (Limits(ALL))


def test_a_file_is_read_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "MOST_BYTES", 1000)
    (tmp_path / "cpu.stat").write_text("x" * 5000 + "\nthrottled_usec 5\n")
    assert cgroups.throttled_s([tmp_path]) is None


def test_throttled_time_is_that_of_all_groups_with_a_quota(tmp_path: Path) -> None:
    for name, text in (
        ("a", "usage_usec 9\nthrottled_usec 1500000\n"),
        ("b", "nr_periods 3\nthrottled_time 500000000\n"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpu.stat").write_text(text)
    assert cgroups.throttled_s([tmp_path / "a", tmp_path / "b"]) == pytest.approx(2.0)
    assert cgroups.throttled_s([]) == 0
    assert cgroups.throttled_s([tmp_path / "a", tmp_path / "gone"]) is None


def test_of_another_process_the_groups_above_its_own_count(tmp_path: Path) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/cgroup").write_text("0::/docker/abc\n")
    files = {"docker/abc/cpu.max": "100000 100000", "docker/cpu.max": "150000 100000"}
    root = tree(tmp_path, ["0::/"], [V2.format("/", "")], files)
    assert cgroups.quotas_above(7, root) == (Quota(root / "sys/fs/cgroup/docker", 1.5),)
    assert cgroups.quotas_above(8, root) is None


SAY = """
import json, sys, time
from testbed.capacity import cache
from testbed.machine.cgroups import limits
from testbed.capacity.doctor import _machine
from testbed.machine.monitor import Counters
for place in sys.argv[1:]: open(place + "/cgroup.procs", "w").write("0")
here, counters = limits(), Counters()
before, begun_s, took_s = counters.read("")[3], time.monotonic(), 0.0
while took_s < PATIENCE_S and counters.read("")[3] - before < WANTED_S: took_s = time.monotonic() - begun_s
checks = {check.name: [check.ok, check.detail, check.fix] for check in _machine()}
print(json.dumps({**here.as_json(), "cores": here.cores, "cpus": here.cpus, "machine": cache.machine()["cores"],
    "left": here.memory_left_bytes, "checks": checks, "took_s": took_s, "throttled_s": counters.read("")[3] - before}))
"""


def said(*places: Path, wanted_s: float = 0.0) -> dict:
    """What a process in these groups says, once quotas have stopped it for so long."""
    program = f"PATIENCE_S, WANTED_S = {PATIENCE_S}, {wanted_s}\n{SAY}"
    words = [sys.executable, "-P", "-c", program, *map(str, places)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=2 * PATIENCE_S)
    return json.loads(done.stdout)


@pytest.mark.lab
def test_the_kernel_gives_half_a_core_and_doctor_says_so() -> None:
    with quota(0.5) as place:
        found = said(place)
    assert (found["quota_cores"], found["cores"], found["machine"], found["cpus"]) == (0.5, 0.5, 0.5, ALL)
    ok, detail, fix = found["checks"]["CPU cores"]
    assert (ok, detail) == (False, f"0.5 to use: {ALL} CPUs, and a quota of CPU time ({place})")
    assert fix.startswith("raise the quota (--cpus of a container, CPUQuota= of systemd, or in ")


@pytest.mark.lab
def test_the_kernel_counts_for_how_long_a_quota_stops_a_process() -> None:
    with quota(0.1) as place:
        found = said(place, wanted_s=0.3)
    assert found["throttled_s"] >= 0.3
    assert found["took_s"] > 0.25


@pytest.mark.lab
def test_the_kernel_limits_memory_and_cpus_and_doctor_says_so() -> None:
    above = cgroups._groups("memory", "self", cgroups.ROOT) or [Path()]
    name = "memory__limit_in_bytes" if (above[0] / "memory.limit_in_bytes").exists() else "memory__max"
    with group("memory", **{name: str(1 << 30)}) as place:
        found = said(place)
    assert found["memory_bytes"] == 1 << 30
    assert 0 < found["left"] < 1 << 30
    ok, detail, fix = found["checks"]["memory"]
    assert (ok, fix) == (False, "raise the limit, end what uses memory, or run fewer workers")
    assert detail.endswith(" GiB available under a limit of 1.0 GiB, 2 GiB wanted")


@pytest.mark.lab
@pytest.mark.skipif(ALL < 2, reason="needs two CPUs")
def test_a_cpuset_is_known_by_the_affinity() -> None:
    first = min(os.sched_getaffinity(0))
    above = cgroups._groups("cpuset", "self", cgroups.ROOT) or [Path()]
    mems = (above[0] / "cpuset.mems").read_text().strip() if (above[0] / "cpuset.mems").exists() else "0"
    with group("cpuset", cpuset__cpus=str(first), cpuset__mems=mems or "0") as place:
        assert said(place)["cpus"] == 1
