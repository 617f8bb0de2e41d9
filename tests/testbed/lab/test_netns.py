"""The lab on the real kernel: what is built, what runs in it, what is read back."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from testbed.base.errors import LabError, MissingToolError
from testbed.lab.base import LinkChange, LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.lab.netns.sandbox import Sandbox
from testbed.lab.programs import Launch, Program
from testbed.lab.requests import Call
from testbed.machine.processes import children_by_inner_pid
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from tests.patience import until

from .conftest import Idle

pytestmark = pytest.mark.lab

RATE_BPS = 100_000_000
RECEIVE = Path(__file__).with_name("receive.py")
SEND = Path(__file__).with_name("send.py")


@pytest.fixture
def lab(idle: Idle) -> Iterator[NetnsLab]:
    with idle.taken("netns, every address", lambda: NetnsLab(every_address=True)) as lab:
        yield lab


def up(lab: NetnsLab, expression: str, settings: LinkSettings | None = None, rate_bps: int = RATE_BPS) -> Topology:
    topology = build(expression, rate_bps=rate_bps)
    lab.up(topology, settings or LinkSettings(), permutations(topology.hosts, 2))
    return topology


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(
    "expression",
    [
        "star(hosts=4)",
        "bcube(n=3,k=2)",
        "fat_tree(k=4)",
        "fat_tree(k=4,routing=ecmp)",
        "fat_tree(k=4,routing=by_destination)",
        "fat_tree(k=4,oversubscription=2)",
        "dragonfly(a=2,g=3,h=1)",
        "expander(servers=8,degree=3)",
        "cloud(rows=2,sizes=[3,1,2,2])",
        "spine_leaf(racks=3,hosts_per_rack=2,spines=2)",
    ],
)
def test_every_host_reaches_every_host(lab: NetnsLab, expression: str) -> None:
    topology = up(lab, expression)
    names = [topology.nodes[host].name for host in topology.hosts]
    script = "for name; do ping -q -c 1 -W 2 $name >/dev/null || echo $name; done"
    for host in (0, 1, topology.host_count - 1):
        unreached = lab.execute(host, ["sh", "-c", script, "sh", *names], 60)
        assert (unreached.status, unreached.stdout) == (0, "")


def carried_bps(lab: NetnsLab, seconds: float) -> float:
    """Bits per second of TCP payload from h0 to h1 over the steady part of a burst."""
    address = lab.execute(1, ["hostname", "-I"], 5).stdout.split()[0]
    found: list[str] = []
    receive = [sys.executable, str(RECEIVE), address]
    thread = threading.Thread(target=lambda: found.append(lab.execute(1, receive, 30).stdout))
    thread.start()
    sent = lab.execute(0, [sys.executable, str(SEND), address, str(seconds)], 30)
    thread.join()
    assert sent.status == 0, sent.stderr
    return float(json.loads(found[0]))


def carries(lab: NetnsLab, bps: float, least: float, most: float) -> None:
    """A link never carries more than ``most`` of this payload, and ``least`` where the machine did not stand still."""

    def enough() -> bool:
        share = carried_bps(lab, 1.0) / bps
        assert share < most
        return share > least

    until(enough)


def test_a_rate_changes_while_the_link_is_in_use(lab: NetnsLab) -> None:
    topology = up(lab, "star(hosts=2)", rate_bps=100_000_000)
    out = topology.ports[0][0]
    for rate_bps in (20_000_000, 80_000_000):
        lab.adjust([LinkChange(out, rate_bps=rate_bps)])
        lab.verify()
        carries(lab, rate_bps * 1448 / 1514, 0.7, 1.03)  # benchmarks look closer
    shapes = {shape["rate_bps"]: shape["directed_links"] for shape in lab.describe()["shapes"]}
    assert shapes == {80_000_000: 1, 100_000_000: 3}


def test_a_blocked_link_drops_all_one_way_and_opens_again(lab: NetnsLab) -> None:
    topology = up(lab, "star(hosts=3)")
    out = topology.ports[0][0]
    lab.adjust([LinkChange(out, blocked=True)])
    lab.verify()
    ping = ["ping", "-q", "-c", "1", "-W", "1"]
    assert lab.execute(1, [*ping, "h0"], 10).status == 1
    assert lab.execute(1, [*ping, "h2"], 10).status == 0
    dropped = {count.directed_link: count.drops for count in lab.counters()}
    assert dropped[out] > 0
    lab.adjust([LinkChange(out, blocked=False)])
    lab.verify()
    assert lab.execute(1, [*ping, "h0"], 10).status == 0


def test_a_shorter_queue_is_read_back(lab: NetnsLab) -> None:
    topology = up(lab, "star(hosts=2)")
    lab.adjust([LinkChange(topology.ports[0][0], queue_bytes=30_000)])
    lab.verify()
    assert {shape["queue_bytes"]: shape["directed_links"] for shape in lab.describe()["shapes"]}[30_000] == 1


def test_somebody_elses_change_is_found(lab: NetnsLab) -> None:
    topology = up(lab, "star(hosts=2)")
    lab.adjust([LinkChange(topology.ports[0][0], rate_bps=50_000_000)])
    tc = "tc class change dev eth0 parent 1: classid 1:1 htb rate 60mbit burst 8k cburst 8k quantum 60000"
    assert lab.execute(0, tc.split(), 10).status == 0
    with pytest.raises(
        LabError, match="h0:eth0 -> s0:eth0: rate \\(bit/s\\): asked for 50000000, the kernel has 60000000"
    ):
        lab.verify()


def test_links_without_shapers_cannot_be_changed(lab: NetnsLab) -> None:
    topology = up(lab, "star(hosts=2)", LinkSettings(shaped=False))
    with pytest.raises(LabError, match="links without shapers cannot be changed"):
        lab.adjust([LinkChange(topology.ports[0][0], rate_bps=10**7)])


def test_a_program_beside_the_workers_has_its_environment_and_takes_signals(lab: NetnsLab, tmp_path: Path) -> None:
    lab.share(tmp_path)
    up(lab, "star(hosts=2)")
    program = Program(("sh", "-c", "echo $COLOUR $(pwd) $(hostname); sleep 60"), {"COLOUR": "blue"}, str(tmp_path))
    here, there = (lab.start(host, program, str(tmp_path / f"{host}.log")) for host in (0, 1))
    until(lambda: (tmp_path / "0.log").read_text().endswith("\n"))
    assert (tmp_path / "0.log").read_text() == f"blue {tmp_path} h0\n"
    lab.signal("h0", signal.SIGKILL)
    assert here.wait() == -signal.SIGKILL
    there.signal(signal.SIGTERM)
    assert there.wait() == -signal.SIGTERM


@pytest.mark.parametrize(("rate_bps", "mtu"), [(50_000_000, 1500), (200_000_000, 1500), (200_000_000, 9000)])
def test_links_carry_their_rate_and_no_more(lab: NetnsLab, rate_bps: int, mtu: int) -> None:
    up(lab, "star(hosts=2)", LinkSettings(mtu=mtu), rate_bps)
    goodput_bps = rate_bps * (mtu - 52) / (mtu + 14)
    # The shaper bounds it from above, always; how close it comes from below is the machine's doing.
    carries(lab, goodput_bps, 0.8, 1.01)


def test_packets_are_handed_down_as_large_as_fast_links_allow(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)", rate_bps=2_000_000_000)
    if lab.describe()["large_packet_bytes"] == 65_536:
        pytest.skip("kernels before 6.3 have no larger packets")
    carried_bps(lab, 0.3)
    told = lab.execute(0, ["cat", "/proc/net/dev"], 5).stdout
    sent_bytes, packets = next(map(int, line.split()[9:11]) for line in told.splitlines() if "eth0" in line)
    assert 65_536 < sent_bytes / packets < 200_000
    counted = lab.counters()[0]
    assert counted.bytes / counted.packets == pytest.approx(1514, rel=0.05)  # on the wire they are cut


def test_packets_are_smaller_on_slow_links(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)", rate_bps=4_000_000)
    lab.verify()
    assert lab.describe()["large_packet_bytes"] == 16_384
    carried_bps(lab, 0.3)
    told = lab.execute(0, ["cat", "/proc/net/dev"], 5).stdout
    sent_bytes, packets = next(map(int, line.split()[9:11]) for line in told.splitlines() if "eth0" in line)
    assert sent_bytes / packets < 16_500


def test_a_connection_keeps_little_in_its_hosts_queue_where_queues_are_small(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)", LinkSettings(small_queue_bytes=8192, full_packet_bytes=4096), 100_000_000)
    lab.verify()
    told = lab.describe()
    assert told["large_packet_bytes"] == 8192
    assert told["sysctls"]["ipv4/tcp_limit_output_bytes"] == {"8192": 3}
    assert told["sysctls"]["ipv4/tcp_min_tso_segs"] == {"3": 3}  # segments of 1,448 bytes
    carries(lab, 100_000_000 * 1448 / 1514, 0.8, 1.01)
    table = lab.execute(0, ["cat", "/proc/net/dev"], 5).stdout
    sent_bytes, packets = next(map(int, line.split()[9:11]) for line in table.splitlines() if "eth0" in line)
    assert 1514 < sent_bytes / packets < 8192


def test_unshaped_links_are_far_faster(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)", LinkSettings(shaped=False), 1_000_000)
    assert carried_bps(lab, 0.3) > 100_000_000
    counters = lab.counters()
    assert counters[0].bytes > 1_000_000
    assert lab.describe()["shapes"] == []


def test_counters_count_what_leaves(lab: NetnsLab) -> None:
    up(lab, "star(hosts=3)")
    assert [c.directed_link for c in lab.counters()] == list(range(6))
    assert {(c.bytes, c.packets, c.drops) for c in lab.counters()} == {(0, 0, 0)}
    lab.execute(0, ["ping", "-q", "-c", "5", "-i", "0.01", "-s", "1000", "h2"], 10)
    by_link = {c.directed_link: c for c in lab.counters()}
    frame_bytes = 14 + 20 + 8 + 1000
    # h0 -> s0, s0 -> h2 and back; h1 hears nothing: no ARP, no flooding.
    for directed in (0, 5, 4, 1):
        assert (by_link[directed].packets, by_link[directed].bytes) == (5, 5 * frame_bytes)
    assert by_link[2].packets == by_link[3].packets == 0


def test_a_full_queue_drops_and_is_counted(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)", LinkSettings(queue_bytes=3000), 1_000_000)
    lab.execute(0, ["ping", "-q", "-f", "-c", "200", "-l", "200", "-s", "1400", "h1"], 20)
    assert lab.counters()[0].drops > 100


@pytest.mark.parametrize(
    ("node", "command", "problem"),
    [
        ("h0", "tc class change dev eth0 classid 1:1 htb rate 90mbit burst 12k", "h0:eth0 -> s0:eth0: rate (bit/s)"),
        ("s0", "tc class change dev eth1 classid 1:1 htb rate 100mbit burst 90k", "s0:eth1 -> h1:eth0: burst (bytes)"),
        (
            "s0",
            "tc qdisc replace dev eth0 parent 1:1 handle 10: bfifo limit 99999",
            "s0:eth0 -> h0:eth0: queue (bytes)",
        ),
        ("s0", "tc qdisc del dev eth0 root", "s0:eth0 -> h0:eth0: shaper: asked for htb"),
        (  # all the same, but what is not classified, which is everything, goes past the class
            "h0",
            "tc qdisc del dev eth0 root; tc qdisc add dev eth0 root handle 1: htb default 9;"
            "tc class add dev eth0 parent 1: classid 1:1 htb rate 100mbit burst 12500 quantum 60000;"
            "tc qdisc add dev eth0 parent 1:1 handle 10: bfifo limit 67108864",
            "h0:eth0 -> s0:eth0: class of all traffic: asked for 1, the kernel has 9",
        ),
        ("h1", "ip link set eth0 mtu 1400", "h1:eth0 -> s0:eth1: mtu: asked for 1500, the kernel has 1400"),
        ("h1", "ip link set eth0 gso_max_size 60000", "h1:eth0 -> s0:eth1: large packets (bytes): asked for 65536"),
        (
            "h1",
            "ip addr add 10.9.9.9/32 dev eth0; ip addr del $(hostname -I | cut -d' ' -f1)/29 dev eth0",
            "h1:eth0: addr",
        ),
        ("h0", "ip route add 10.9.0.1/32 dev eth0 proto static", "h0: routes: asked for none but its own"),
        (
            "h0",
            "ip neigh replace 10.0.0.2 dev eth0 lladdr 02:00:00:00:99:99 nud permanent",
            "h0:eth0: neighbour 10.0.0.2",
        ),
        ("s0", "tc qdisc del dev eth0 ingress", "s0:eth0: switch's table"),
        ("h0", "echo 1 > /proc/sys/net/ipv4/ip_forward", "h0: sysctl ipv4/ip_forward: asked for 0, the kernel has 1"),
    ],
)
def test_a_change_is_seen(lab: NetnsLab, node: str, command: str, problem: str) -> None:
    topology = up(lab, "star(hosts=3)")
    lab.verify()
    changed = lab.execute(topology.index[node], ["sh", "-c", command], 10)
    assert changed.status == 0, changed.stderr
    with pytest.raises(LabError) as caught:
        lab.verify()
    assert caught.value.problem.startswith(problem)


def test_a_cut_link_is_seen(lab: NetnsLab) -> None:
    topology = up(lab, "bcube(n=2,k=2)")
    lab.execute(topology.index["h3"], ["ip", "link", "del", "eth1"], 5)
    with pytest.raises(LabError, match=r"state: asked for up, the kernel has down or gone"):
        lab.verify()


def test_what_was_read_back_is_told(lab: NetnsLab) -> None:
    up(lab, "bcube(n=3,k=2)", LinkSettings(mtu=9000))
    told = json.loads(json.dumps(lab.describe()))
    assert told["nodes"] == {"host": 9, "bridge": 6}
    assert [(s["directed_links"], s["rate_bps"]) for s in told["shapes"]] == [(36, RATE_BPS)]
    assert (told["impairments"], told["impaired_by"]) == ([], None)
    assert told["mtu"] == 9000
    assert told["large_packet_bytes"] == 65_536
    assert told["sysctls"]["ipv4/tcp_no_metrics_save"] == {"1": 15}
    assert set(told["congestion_controls"]) == set(lab.congestion_controls()) >= {"reno"}


def test_commands_run_on_their_node(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)")
    done = lab.execute(1, ["sh", "-c", "hostname; echo oops >&2; exit 3"], 5)
    assert (done.status, done.stdout, done.stderr) == (3, "h1\n", "oops\n")
    assert lab.execute(0, ["sh", "-c", "kill -TERM $$"], 5).status == -signal.SIGTERM
    missing = lab.execute(0, ["no-such-program"], 5)
    assert missing.status == 127
    assert "h0: " in missing.stderr
    with pytest.raises(LabError, match=r"`sleep 100` did not end within 0.2 s"):
        lab.execute(0, ["sleep", "100"], 0.2)
    assert "sleep" not in lab.execute(0, ["ps", "-eo", "comm"], 5).stdout


def test_much_output_is_kept(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)")
    assert len(lab.execute(0, ["head", "-c", "3000000", "/dev/zero"], 10).stdout) == 3_000_000


def test_attached_commands_use_the_files_given(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        cat = lab.attach(0, ["cat"], (theirs.fileno(), theirs.fileno(), theirs.fileno()))
        ours.sendall(b"through the lab")
        assert ours.recv(100) == b"through the lab"
        cat.signal(signal.SIGINT)
        assert cat.wait() == -signal.SIGINT


def test_an_attached_command_controls_a_fresh_terminal(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)")
    master, slave = os.openpty()
    cat = lab.attach(1, ["cat"], (slave, slave, slave))
    os.close(slave)
    os.write(master, b"here\n")
    seen = b""
    while seen.count(b"here") < 2:  # once from the terminal, once from the command, which runs by then
        seen += os.read(master, 100)
    os.write(master, b"\x03")  # Ctrl-C, which only a controlling terminal turns into a signal
    assert cat.wait() == -signal.SIGINT
    os.close(master)


def test_nobody_needs_to_wait_for_a_command(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)")
    null = os.open(os.devnull, os.O_RDWR)
    for _ in range(20):
        lab.attach(0, ["true"], (null, null, null))
    os.close(null)
    assert lab.execute(0, ["true"], 5).status == 0
    open_files = lab.execute(0, ["sh", "-c", "ls /proc/1/fd | wc -l"], 5)
    assert int(open_files.stdout) < 30


def test_a_closed_lab_says_so() -> None:
    lab = NetnsLab()
    up(lab, "star(hosts=2)")
    lab.close()
    lab.close()
    with pytest.raises(LabError, match="the lab's process ended"):
        lab.counters()


def test_workers_report_how_they_ended(lab: NetnsLab, tmp_path: Path) -> None:
    up(lab, "star(hosts=2)")
    lab.launch([Launch("h1", 1, str(tmp_path / "none.json"), str(tmp_path / "h1.log"))])
    exits = until(lab.exits)
    assert [(exit.node, exit.status) for exit in exits] == [(1, 1)]
    assert 0 < exits[0].started_s < exits[0].ended_s < time.monotonic()
    assert lab.exits() == []
    assert "none.json" in (tmp_path / "h1.log").read_text()


def test_a_node_whose_first_process_is_gone_starts_nothing_and_says_so(lab: NetnsLab, tmp_path: Path) -> None:
    lab.share(tmp_path)
    up(lab, "star(hosts=2)")
    worker = Launch("h1", 1, str(tmp_path / "none.json"), str(tmp_path / "h1.log"))
    lab.launch([worker])
    until(lab.exits)
    (sandbox,) = children(lab.launcher_pid)
    (first,) = children(sandbox)
    os.kill(first, signal.SIGKILL)
    until(lambda: first not in children(sandbox))
    with pytest.raises(LabError, match="no process can start on h1: "):
        lab.launch([worker])


def test_a_process_that_the_kernels_list_of_children_missed_is_looked_up_again(
    lab: NetnsLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(lab, "star(hosts=2)")
    lists: list[dict[int, int]] = []

    def incomplete(first: int) -> dict[int, int]:
        lists.append({} if not lists else children_by_inner_pid(first))
        return lists[-1]

    monkeypatch.setattr("testbed.lab.netns.lab.children_by_inner_pid", incomplete)
    sleeping = Program(("sleep", "600"), {}, str(tmp_path))
    lab.launch([Launch("h0", 0, "", str(tmp_path / "h0.log"), sleeping)])
    assert [lab._pids(), lab._pids(), len(lists)] == [{}, {}, 1]  # not again at once

    def looked_up() -> int | None:
        lab._sought_s -= 1.5
        return lab._pids().get("h0")

    assert until(looked_up) in lists[-1].values()  # the kernel's own list may miss it for a moment
    looks = len(lists)
    assert looked_up()
    assert len(lists) == looks  # all are known
    lab.kill()


def test_down_ends_everything_and_up_works_again(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)")
    null = os.open(os.devnull, os.O_RDWR)
    sleeper = lab.attach(0, ["sh", "-c", "setsid sleep 1000 & sleep 1000"], (null, null, null))
    os.close(null)
    lab.down()
    assert sleeper.wait() == -signal.SIGKILL
    with pytest.raises(LabError, match="no network is up"):
        lab.counters()
    up(lab, "bcube(n=2,k=2)")
    assert lab.execute(0, ["ping", "-q", "-c", "1", "-W", "2", "h3"], 5).status == 0
    assert "sleep" not in lab.execute(0, ["ps", "-eo", "comm"], 5).stdout


def test_two_labs_do_not_see_each_other(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)")
    with NetnsLab(every_address=True) as other:
        up(other, "star(hosts=2)", rate_bps=2 * RATE_BPS)
        for one in (lab, other):
            assert one.execute(0, ["ping", "-q", "-c", "1", "-W", "2", "h1"], 5).status == 0
        other.execute(0, ["ip", "link", "set", "eth0", "down"], 5)
        assert lab.execute(0, ["ping", "-q", "-c", "1", "-W", "2", "h1"], 5).status == 0
    lab.verify()


def test_nothing_of_the_machine_changes(lab: NetnsLab) -> None:
    before = (socket.if_nameindex(), Path("/proc/self/mountinfo").read_text(), Path("/etc/hosts").read_text())
    up(lab, "bcube(n=3,k=2)")
    assert "h8" in lab.execute(0, ["cat", "/etc/hosts"], 5).stdout
    assert (socket.if_nameindex(), Path("/proc/self/mountinfo").read_text(), Path("/etc/hosts").read_text()) == before


def test_what_cannot_be_asked_of_the_sandbox_is_named_and_ends_nothing(lab: NetnsLab) -> None:
    with pytest.raises(LabError, match="there is no request 'serve'"):
        lab._sandbox.ask(Call("serve", {}))
    assert lab._sandbox.ask(Sandbox.has_qdisc("htb")) is True


def test_marking_needs_a_queue_that_marks(lab: NetnsLab) -> None:
    """A kernel without it says so before anything is built; with it, what was asked for is read back."""
    topology, settings = build("star(hosts=2)", rate_bps=RATE_BPS), LinkSettings(mark_at_bytes=100_000)
    if lab._sandbox.ask(Sandbox.has_qdisc("red")):
        lab.require(topology, settings)
        lab.up(topology, settings, permutations(topology.hosts, 2))
        lab.verify()
        assert {one["mark_at_bytes"] for one in lab.describe()["shapes"]} == {100_000}
        assert lab.describe()["sysctls"]["ipv4/tcp_ecn"] == {"1": 3}
        lab.adjust(
            [LinkChange(0, rate_bps=RATE_BPS // 2), LinkChange(1, queue_bytes=200_000), LinkChange(2, blocked=True)]
        )
        lab.verify()
        return
    with pytest.raises(MissingToolError, match="marks packets by ECN needs the kernel module sch_red") as caught:
        lab.require(topology, settings)
    assert caught.value.fix == "modprobe sch_red as root, or a kernel built with CONFIG_NET_SCH_RED"
