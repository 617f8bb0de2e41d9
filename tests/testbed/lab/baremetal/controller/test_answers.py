"""Hosts that say what no agent, and no module of ours, says."""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import HostError, LabError
from testbed.execution import supervise
from testbed.lab.baremetal.controller import answers
from testbed.lab.baremetal.controller import fleet as fleets
from testbed.lab.baremetal.controller.connection import ANSWER_TIMEOUT_S, Connection, Lost
from testbed.lab.baremetal.controller.fleet import MOST_EVENTS, Fleet
from testbed.lab.baremetal.networks import measuring
from testbed.lab.baremetal.on_hosts.host_requests import HostRequests
from testbed.lab.baremetal.on_hosts.processes import LONGEST_LINE_BYTES
from testbed.lab.baremetal.preparing.inventory import Host
from testbed.lab.baremetal.preparing.playbook import PLAYBOOKS
from testbed.lab.measurements import Passed, Stream
from testbed.topologies.build import build
from tests.patience import PATIENCE_S, until

MAC = "02:00:00:00:00:01"
SAID = ("qdiscs", "classes", "addresses", "routes", "links")
HELLO = '{"id": 0, "result": {"kernel": "6", "python": "3", "cores": 2, "root": true, "pid": 7}}'
Connect = Callable[[str], Connection]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """A connection to a host that runs a script in place of everything: it is what is called for ssh."""
    made: list[Connection] = []
    events: list[object] = []

    def begin(script: str) -> Connection:
        ssh = tmp_path / "ssh"
        ssh.write_text(f"#!/bin/sh\n{script}\ncat > /dev/null\n")
        ssh.chmod(0o755)
        host = Host("node1", (), None, "/home", {"ansible_ssh_executable": str(ssh), "ansible_user": "root"})
        made.append(
            Connection(host, "code", answers.HOSTS, ["work", "owner"], tmp_path, lambda _, event: events.append(event))
        )
        return made[-1]

    yield begin
    for one in made:
        one.close()
    assert all(isinstance(one, Lost) for one in events)


ODD = {
    "too long a line": (f"head -c {LONGEST_LINE_BYTES + 10} /dev/zero", "a line of more than 4,194,304 bytes"),
    "too long a greeting": ("yes welcome | head -c 2000000", "bytes that are no agent's"),
    "deep": (f'printf \'{{"id": 0, "result": {"[" * 5000}\\n\'', "which no agent says"),
    "half a line": ("printf '{\"id\": 0\\n'", "which no agent says"),
    "no text": ("printf '{\\377\\376}\\n'", "which no agent says"),
    "another form": ("echo '{\"hello\": 1}'", "which no agent says"),
    "an id that is no number": ('echo \'{"id": [], "result": 1}\'', "which no agent says"),
    "an id that is too long a number": (f'echo \'{{"id": {"9" * 5000}, "result": 1}}\'', "which no agent says"),
    "an id that was never asked for": ('echo \'{"id": 77, "result": 1}\'', "it answers a request 77"),
    "a result of another kind": ('echo \'{"id": 0, "result": [1]}\'', "it answers 'hello' [1], which is wrong"),
    "a fix that is no text": ('echo \'{"id": 0, "problem": 1, "fix": 2}\'', "which no agent says"),
    "a file's piece that is no text": ('echo \'{"grown": "a", "data": 7}\'', "which no agent says"),
    "a moment that is no number": (
        'echo \'{"exit": 0, "status": 0, "started_s": NaN, "ended_s": 1}\'',
        "which no agent says",
    ),
    "errors without end": ("yes | head -c 40000000 >&2; exit 3", "is lost ("),
}


@pytest.mark.parametrize("name", ODD)
def test_what_no_agent_says_ends_the_connection_with_the_hosts_name(connect: Connect, name: str) -> None:
    script, said = ODD[name]
    connection = connect(f"read line; {script}")
    with pytest.raises(LabError) as caught:
        connection.ask(HostRequests.hello(), PATIENCE_S)
    assert caught.value.problem.startswith("node1: ")
    assert said in caught.value.problem
    assert caught.value.fix
    until(lambda: connection.lost is not None)
    with pytest.raises(LabError, match="node1: "):
        connection.ask(HostRequests.time())


def test_a_greeting_is_passed_over_though_its_line_does_not_end(connect: Connect) -> None:
    connection = connect(f"printf 'welcome \\377\\000\\nand '; read line; echo; echo '{HELLO}'")
    assert connection.ask(HostRequests.hello(), PATIENCE_S)["pid"] == 7


def test_what_a_host_says_moves_no_cursor(connect: Connect) -> None:
    connection = connect('read line; printf \'{"id": 0, "problem": "a\\\\u001b[2Jb", "fix": null}\\n\'')
    with pytest.raises(LabError) as caught:
        connection.ask(HostRequests.hello(), PATIENCE_S)
    assert caught.value.problem == "node1: a\\x1b[2Jb"


METERED: dict[str, Any] = {
    "at_s": 5.0,
    "took_s": 0.001,
    "nics": [[[1, 2], [3, 4]]],
    "streams": [["10.0.0.1", "10.0.0.2", [10000, 40000], 5, 6]],
}
RESULTS: list[tuple[str, Any, bool]] = [
    ("time", 1.5, True),
    ("time", "soon", False),
    ("time", 1e300, False),
    ("put", None, True),
    ("put", {}, False),
    ("counters", [[[1, 2, 3], [4, 5, 6]]], True),
    ("counters", [[[1, 2, 3], [4, 5]]], False),
    ("counters", [[[1, 2, 3], [4, 5, 10**30]]], False),
    ("traffic", METERED, True),
    ("traffic", METERED | {"at_s": "soon"}, False),
    ("traffic", METERED | {"took_s": -1.0}, False),
    ("traffic", METERED | {"took_s": float("nan")}, False),
    ("traffic", METERED | {"nics": [[[1, 2]]]}, False),
    ("traffic", METERED | {"nics": [[[1, 2], [3, -4]]]}, False),
    ("traffic", METERED | {"streams": [["10.0.0.1", "10.0.0.2" * 9, [1, 2], 3, 4]]}, False),
    ("traffic", METERED | {"streams": [["10.0.0.1", "10.0.0.2", [1, 70000], 3, 4]]}, False),
    ("traffic", METERED | {"streams": METERED["streams"] * 10_001}, False),
    ("stopped", ["h0", "a/h3.daemon"], True),
    ("stopped", ["../h0"], False),
    ("stopped", [0], False),
    ("cpu_s", {"h0": 1.5}, True),
    ("cpu_s", {"../h0": 1.5}, False),
    ("cpu_s", {"h0": "long"}, False),
    ("verify", {"differs": None, "shapes": [[{"rate_bps": 1}, {"rate_bps": 1}]]}, True),
    ("verify", {"differs": None, "shapes": None}, False),
    ("verify", {"differs": "the MTU", "shapes": None}, True),
    ("said", {"indices": [[1, 2]], "said": dict.fromkeys(SAID, "AA==")}, True),
    ("said", {"indices": [[1, 2]], "said": {"qdiscs": "AA=="}}, False),
    ("echo", [0], False),
    ("ping", [-1.0], False),
    ("ping", [float("inf")], False),
    ("execute", [0, "out", "err"], True),
    ("execute", [0, "out"], False),
]


@pytest.mark.parametrize(("do", "value", "fits"), RESULTS)
def test_results_are_of_the_kind_that_was_asked_for(do: str, value: Any, fits: bool) -> None:
    if fits:
        answers.HOSTS.result(do, value)
        return
    with pytest.raises(HostError, match=f"it answers '{do}'"):
        answers.HOSTS.result(do, value)


@pytest.mark.parametrize(
    "mac", [None, 7, "", "{{ lookup('pipe', 'id') }}", f"{MAC}\n", "02:00:00:00:00", f"{MAC} {{{{ x }}}}"]
)
def test_a_mac_address_that_is_none_reaches_no_playbook(mac: object) -> None:
    """In the plan for another host, Ansible would resolve a template in it, on the controller."""
    fine = {"mac": MAC, "mtu": "1500", "speed": None}
    assert answers.facts({"nics": {"eth1": fine}, "kernel": "6"}, ["eth1"])["nics"]["eth1"]["mac"] == MAC
    with pytest.raises(HostError, match="Ansible's look at it says"):
        answers.facts({"nics": {"eth1": {**fine, "mac": mac}}}, ["eth1"])


def test_a_host_that_says_nothing_of_a_nic_is_refused() -> None:
    with pytest.raises(HostError, match="says nothing of eth1"):
        answers.facts({"nics": {}}, ["eth1"])
    for said in ({}, {"nics": []}, {"nics": {"eth1": None}}):
        with pytest.raises(HostError, match="Ansible's look at it says"):
            answers.facts(said, ["eth1"])


def test_what_is_left_is_told_as_text() -> None:
    one = {"what": "directory \x1b[31mx", "owner": "", "token": "t", "since": "now"}
    assert answers.left([one]) == [{**one, "what": "directory \\x1b[31mx"}]
    for said in (None, [1], [{"what": []}], {"left": 1}):
        with pytest.raises(HostError, match="the list of what is left there is"):
            answers.left(said)


def test_bursts_that_were_not_asked_for_are_refused() -> None:
    assert answers.bursts(['{"burst": 1, "rate_bps": 5.0}'], 2) == [(1, 5.0)]
    for line in ("{}", "[" * 100_000, '{"burst": 2, "rate_bps": 5.0}', '{"burst": -1, "rate_bps": 5.0}', "\ufffd"):
        with pytest.raises(HostError, match="burst"):
            answers.bursts([line], 2)


class Said(Connection):
    """A connection over which a test says what it likes."""

    def __init__(self, name: str) -> None:
        from testbed.lab.baremetal.controller.connection import Clock

        self.name, self.clock = name, Clock()


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Of two hosts; the first one's ``a.jsonl`` is followed."""
    found = Fleet([Said("node1"), Said("node2")])
    found.follow(0, "1/a.jsonl", tmp_path / "a.jsonl")
    found.follow(0, "1/log", tmp_path / "log")
    return found


def tell(fleet: Fleet, node: int = 0, **fields: Any) -> None:
    event = answers.message(json.dumps(fields).encode())
    assert not isinstance(event, answers.Result | answers.Refusal)
    fleet.on_event(fleet.connections[node], event)


def tell_many(fleet: Fleet) -> None:
    """More than a busy machine's seconds allow for."""
    for _ in range(2 * MOST_EVENTS):
        tell(fleet, ended=1, status=0)


def grown(name: str, data: bytes) -> dict[str, str]:
    return {"grown": name, "data": base64.b64encode(data).decode()}


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "1/../1/log", "1/other", ""])
def test_a_host_names_no_file_here(fleet: Fleet, tmp_path: Path, name: str) -> None:
    tell(fleet, **grown("1/log", b"x"))
    with pytest.raises(HostError, match="which nobody follows"):
        tell(fleet, **grown(name, b"x"))
    with pytest.raises(HostError, match="which nobody follows"):
        tell(fleet, 1, **grown("1/log", b"x"))
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("log", b"x")]


def test_samples_that_are_none_are_left_to_their_reader(fleet: Fleet, tmp_path: Path) -> None:
    fleet.connections[0].clock.add(1.0, 1.0, 1.0)
    lines = [b"[1]", b'"a"', b"\xff", b"[" * 50_000, b'{"time": 1' + b"0" * 400 + b"}", b'{"time": 1.0}']
    tell(fleet, **grown("1/a.jsonl", b"\n".join(lines) + b"\n"))
    assert (tmp_path / "a.jsonl").read_bytes() == b"\n".join(lines) + b"\n"


def test_a_line_without_end_is_not_kept(fleet: Fleet) -> None:
    for _ in range(4):
        tell(fleet, **grown("1/a.jsonl", b"x" * 2**20))
    with pytest.raises(HostError, match=r"a\.jsonl has a line of more than"):
        tell(fleet, **grown("1/a.jsonl", b"x"))


def test_a_host_does_not_fill_the_disk_here(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fleets.MOST_TOLD_BYTES > supervise.LARGEST_LOG_BYTES
    monkeypatch.setattr(fleets, "MOST_TOLD_BYTES", 10)
    for _ in range(2):  # a file that is followed anew begins anew
        fleet.follow(0, "1/log", tmp_path / "log")
        tell(fleet, **grown("1/log", b"12345"))
        tell(fleet, **grown("1/log", b"67890"))
    with pytest.raises(HostError, match="more than 10 bytes of its file '1/log'"):
        tell(fleet, **grown("1/log", b"1"))
    assert (tmp_path / "log").read_bytes() == b"1234567890"


def test_a_host_speaks_for_itself_alone_and_not_for_ever(fleet: Fleet) -> None:
    ended = {"status": 0, "started_s": 1.0, "ended_s": 2.0}
    with pytest.raises(HostError, match="before it said what its clock is"):
        tell(fleet, exit="h0", **ended)
    fleet.connections[0].clock.add(1.0, 1.0, 1.0)
    for process, node in (("h0", 0), ("h1", 1), ("h1.daemon", 1)):
        fleet.expect(process, node)
    for process in ("h1", "h1.daemon", "h2"):
        with pytest.raises(HostError, match=f"the end of {process}, which does not run there"):
            tell(fleet, exit=process, **ended)
    tell(fleet, exit="h0", **ended)
    assert [(one.process, one.node) for one in fleet.exits()] == [("h0", 0)]
    with pytest.raises(HostError, match="the end of h0, which does not run there"):  # twice
        tell(fleet, exit="h0", **ended)
    with pytest.raises(HostError, match="more than can have happened"):
        tell_many(fleet)


def test_a_host_tells_of_its_own_workers_whether_they_stand_still(fleet: Fleet) -> None:
    look = [1.0, [["h0", 0.0, 0.0, 0.0, True]]]
    with pytest.raises(HostError, match="before it said what its clock is"):
        tell(fleet, looks=[look])
    fleet.connections[0].clock.add(1.0, 1.0, 1.0)
    for process, node in (("h0", 0), ("h1", 1)):
        fleet.expect(process, node)
    tell(fleet, looks=[look, [2.0, [["h0", 0.5, 0.0, 0.1, True]]]])
    seen = fleet.process_logs[0].of["h0"]
    assert seen.inside([(1.0, 2.0)], seen.stopped_s).tolist() == [0.5]
    with pytest.raises(HostError, match="it tells of h1, which does not run there"):
        tell(fleet, looks=[[3.0, [["h1", 0.0, 0.0, 0.0, True]]]])
    for odd in ([["h0", float("nan"), 0.0, 0.0, True]], [["h0", "x", 0.0, 0.0, True]], [["h0", 0.0, 0.0]], "h0"):
        with pytest.raises(HostError):
            tell(fleet, looks=[[3.0, odd]])
    with pytest.raises(HostError):
        tell(fleet, looks=[look] * 101)


def metered(nics: int = 1, **more: Any) -> dict[str, Any]:
    counted = [[[10 * nic + 1, 2], [10 * nic + 3, 4]] for nic in range(nics)]
    return answers.HOSTS.result("traffic", METERED | {"nics": counted} | more)


def test_a_hosts_counts_are_of_its_own_nics_at_its_own_time(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    star = build("star(hosts=2)", rate_bps=10**8)
    fleet.logical = {"10.0.0.1": "plan1"}
    said = [metered(), metered(at_s=3605.0)]
    monkeypatch.setattr(fleet, "ask", lambda _: said)
    here, there = measuring.traffic(fleet, star, range(10, 20))
    assert here.links == (Passed(0, 1, 2), Passed(1, 3, 4))
    assert there.links == (Passed(2, 1, 2), Passed(3, 3, 4))
    assert here.streams == (Stream("plan1", "10.0.0.2", (10000, 40000), 5, 6),)
    assert (here.at_s, there.at_s, there.took_s) == (5.0, 3605.0, 0.001)
    said[1] = metered(nics=2)
    with pytest.raises(LabError, match="node2: it says 2 counts of NICs, asked was for 1"):
        measuring.traffic(fleet, star, range(10, 20))


def test_paths_outside_of_a_folder_are_found() -> None:
    path = PLAYBOOKS / "filter_plugins/testbed_outside.py"
    spec = importlib.util.spec_from_file_location("testbed_outside", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = before
    fine = ["/a/work/t/1/logs/h0.log", "/a/work//t/x", "/a/work/t/../u/x", "/a/work/..x"]
    bad = ["/a/work/../../etc/x", "/etc/x", "a/work/x", "/a/work", "/a/work/", "/a/work/x\x1b", 7, "/a/workx", ""]
    assert module.outside(fine, "/a/work") == []
    assert module.outside([*fine, *bad], "/a/work") == [repr(str(one)) for one in bad]


def test_a_host_that_says_nothing_is_given_up_unless_it_has_something_long_to_do(connect: Connect) -> None:
    connection = connect(":")
    connection.begin(HostRequests.hello(), ANSWER_TIMEOUT_S + 1)
    until(lambda: time.monotonic() - connection._heard_s > 0.2)
    connection.give_up(0.1)
    assert connection.lost is None
    connection = connect(":")
    with pytest.raises(LabError, match=r"no answer for 0\.2 s"):
        connection.exchange(0.2)
    connection.give_up(100.0)
    assert connection.lost is None
    connection.give_up(0.1)
    until(lambda: connection.lost is not None)
    with pytest.raises(LabError, match=r"node1: it has said nothing for 0\.1 s"):
        connection.ask(HostRequests.time())
