"""A user's own Mininet Topo class as a topology."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import TopologyError
from testbed.topologies.build import build

topo = pytest.importorskip("mininet.topo", reason="the Python package mininet is not installed")

CLASS = """
from mininet.topo import Topo

class MyTopo(Topo):
    def build(self, leaves=2, hosts: int = 2, **_options):
        root = self.addSwitch("s1")
        for leaf in range(leaves):
            switch = self.addSwitch(f"s{leaf + 2}")
            self.addLink(root, switch, bw=50, delay="2ms")
            for host in range(hosts):
                self.addLink(self.addHost(f"h{leaf * hosts + host + 1}", ip="10.0.0.9/8"), switch)

class Old(Topo):
    def __init__(self, spare=False):
        Topo.__init__(self)
        self.addLink(self.addHost("h10"), self.addSwitch("s1"))
        self.addLink(self.addHost("h9"), "s1", bw=0.5, delay=250)
        if spare:
            self.addLink("h9", "s1")

class Kept(Topo):
    def __init__(self, spare: int = 0, **options):
        super().__init__(k=3, **options)
        self.spare = spare

    def build(self, k, n: int = 1, **_options):
        switch = self.addSwitch("s1")
        for host in range(k):
            for _ in range(n):
                self.addLink(self.addHost(f"h{host + 1}"), switch, bw=10)

class Given(Topo):
    def build(self):
        self.addLink(self.addHost("h1", **self.NODE), self.addSwitch("s1"), **self.LINK)
        self.addLink(self.addHost("h2"), "s1")

    NODE, LINK = {}, {}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CLASS)
    return tmp_path / "mine.py"


@pytest.mark.usefixtures("file")
def test_hosts_come_first_and_links_have_their_own_rate_or_the_specs() -> None:
    found = build("./mine.py:MyTopo(leaves=3)", rate_bps=10**8, delay_s=0.001)
    assert [node.name for node in found.nodes] == [*(f"h{i}" for i in range(1, 7)), "s1", "s2", "s3", "s4"]
    between = [link for link in found.links if link.a >= 6]
    assert {(link.rate_bps, link.delay_s) for link in between} == {(50_000_000, 0.002)}
    assert {(link.rate_bps, link.delay_s) for link in found.links if link.a < 6} == {(10**8, 0.001)}
    assert [len(path.links) for path in found.paths(0, 5)] == [4]
    assert found.expression == "./mine.py:MyTopo(leaves=3)"


@pytest.mark.usefixtures("file")
def test_a_class_with_a_constructor_of_its_own() -> None:
    found = build("./mine.py:Old(spare=true)", rate_bps=10**8)
    assert [node.name for node in found.nodes] == ["h9", "h10", "s1"]
    assert [(link.rate_bps, link.delay_s) for link in found.links] == [(10**8, 0.0), (500_000, 0.00025), (10**8, 0.0)]
    assert [len(ports) for ports in found.ports] == [2, 1, 3]


@pytest.mark.usefixtures("file")
def test_a_constructor_that_passes_on_what_it_does_not_know() -> None:
    found = build("./mine.py:Kept(n=2)", rate_bps=10**8)
    assert [node.name for node in found.nodes] == ["h1", "h2", "h3", "s1"]
    assert [link.rate_bps for link in found.links] == [10_000_000] * 6
    assert [len(ports) for ports in found.ports] == [2, 2, 2, 6]
    with pytest.raises(TopologyError, match="Kept has no parameter 'm'"):
        build("./mine.py:Kept(m=2)", rate_bps=10**8)


MININETS = Path(topo.__file__).parent


@pytest.mark.parametrize(
    ("expression", "hosts", "switches", "links"),
    [
        ("topo.py:MinimalTopo", 2, 1, 2),
        ("topo.py:SingleSwitchTopo(k=5)", 5, 1, 5),
        ("topo.py:SingleSwitchReversedTopo(k=3)", 3, 1, 3),
        ("topo.py:LinearTopo(k=4)", 4, 4, 7),
        ("topo.py:LinearTopo(k=2,n=3)", 6, 2, 7),
        ("topolib.py:TreeTopo(depth=2,fanout=3)", 9, 4, 12),
        ("topolib.py:TorusTopo(x=3,y=3)", 9, 9, 27),
    ],
)
def test_mininets_own_classes(expression: str, hosts: int, switches: int, links: int) -> None:
    found = build(f"{MININETS}/{expression}", rate_bps=10**8)
    assert [node.kind for node in found.nodes] == ["host"] * hosts + ["switch"] * switches
    assert len(found.links) == links
    assert found.paths(0, 1)


def test_a_class_of_mininets_that_is_named_in_a_users_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from mininet.topo import LinearTopo\n")
    found = build(f"{tmp_path}/mine.py:LinearTopo(k=3,n=2)", rate_bps=10**8)
    assert len(found.hosts) == 6


def test_arguments_of_mininets_own_classes_are_checked() -> None:
    with pytest.raises(TopologyError, match="LinearTopo has no parameter 'm'"):
        build(f"{MININETS}/topo.py:LinearTopo(m=2)", rate_bps=10**8)
    with pytest.raises(TopologyError, match="TorusTopo needs a value for x and y"):
        build(f"{MININETS}/topolib.py:TorusTopo", rate_bps=10**8)
    with pytest.raises(TopologyError, match="use 3x3 or greater"):
        build(f"{MININETS}/topolib.py:TorusTopo(x=2,y=2)", rate_bps=10**8)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("LINK = {'loss': 1}", "./mine.py:Given: link h1 - s1 has loss=1, which no lab carries out"),
        (
            "LINK = {'max_queue_size': 9}",
            "./mine.py:Given: link h1 - s1 has max_queue_size=9, which no lab carries out",
        ),
        ("NODE = {'cpu': 0.5}", "./mine.py:Given: h1 has cpu=0.5, which no lab carries out"),
        ("LINK = {'bw': 0}", "./mine.py:Given: link h1 - s1 has bw=0"),
        ("LINK = {'bw': 'fast'}", "./mine.py:Given: link h1 - s1 has bw='fast'"),
        ("LINK = {'delay': 'long'}", "./mine.py:Given: link h1 - s1 has delay='long'"),
    ],
)
def test_what_no_lab_carries_out_is_refused(file: Path, options: str, problem: str) -> None:
    file.write_text(f"{CLASS}\n    {options}\n")
    with pytest.raises(TopologyError) as caught:
        build("./mine.py:Given", rate_bps=10**8)
    assert caught.value.problem == problem
    assert caught.value.fix


@pytest.mark.usefixtures("file")
def test_arguments_are_checked() -> None:
    with pytest.raises(TopologyError, match=r"MyTopo has no parameter 'leafs' \(did you mean 'leaves'\?\)"):
        build("./mine.py:MyTopo(leafs=2)", rate_bps=10**8)
    with pytest.raises(TopologyError, match="MyTopo: hosts is many"):
        build("./mine.py:MyTopo(hosts=many)", rate_bps=10**8)
