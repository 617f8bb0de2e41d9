"""Links that are not like all others: whose word counts, and that theory, plan and identity follow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import SpecError
from testbed.experiment.expand import trials
from testbed.experiment.own_links import with_own
from testbed.experiment.planning import plan, text
from testbed.spec import read
from testbed.spec.links import Links
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.trial.model import Trial

from ..conftest import PROFILE, SPEC

MBIT = 10**6


def planned(*overrides: str, spec: str = SPEC) -> list[Trial]:
    return trials(read(spec, "spec.yaml", Path(), overrides))


def made(expression: str, own: Mapping[str, Any], scale: float = 1.0) -> Topology:
    links = Links.model_validate({"rate": "1000 Mbit/s", **own})
    return with_own(build(expression, rate_bps=round(1000 * MBIT / scale)), links, scale)


def rates(topology: Topology) -> list[float]:
    """In Mbit/s, by link."""
    return [link.rate_bps / MBIT for link in topology.links]


RACKS = "spine_leaf(racks=2,hosts_per_rack=2,spines=1)"
"""Links 0 to 3 are those of hosts, two to a rack; 4 and 5 lead to the spine."""


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"h0": 100}, [100, 1000, 1000, 1000, 2000, 2000]),
        ({"h0:eth0": 100}, [100, 1000, 1000, 1000, 2000, 2000]),
        ({"leaf0-h0": 100}, [100, 1000, 1000, 1000, 2000, 2000]),
        ({"leaf1": 100}, [1000, 1000, 100, 100, 2000, 100]),
        ({"rack 1": 100}, [1000, 1000, 100, 100, 2000, 2000]),
        ({"level 1": 100}, [100, 100, 100, 100, 2000, 2000]),
        ({"level 2": 100}, [1000, 1000, 1000, 1000, 100, 100]),
        (
            {"level 1": 10, "rack 0": 20, "h0": 30, "h1": 30, "h1:eth0": 40, "h1-leaf0": 50},
            [30, 50, 10, 10, 2000, 2000],
        ),
        ({"h0": 1, "leaf0": 2, "h0:eth0": 3, "h1:eth0": 3}, [3, 3, 1000, 1000, 2, 2000]),
        ({"h0": 5, "leaf0": 5}, [5, 5, 1000, 1000, 5, 2000]),
    ],
)
def test_the_narrowest_name_decides(own: dict[str, int], expected: list[float]) -> None:
    asked = {name: {"rate": f"{rate} Mbit/s"} for name, rate in own.items()}
    assert rates(made(RACKS, asked)) == expected
    assert rates(made(RACKS, dict(reversed(asked.items())))) == expected


def test_rate_and_delay_are_decided_separately_and_only_rates_are_scaled() -> None:
    found = made("star(hosts=2)", {"h0": {"rate": "100 Mbit/s", "delay": "1 ms"}, "h0-s0": {"delay": "5 ms"}}, 10)
    assert [(link.rate_bps, link.delay_s) for link in found.links] == [(10 * MBIT, 0.005), (100 * MBIT, 0.0)]


def test_circuits_keep_what_their_links_have() -> None:
    found = made("patch_panel(servers=4,degree=2)", {"h0:eth1": {"rate": "100 Mbit/s"}})
    slow = [link for link, rate in enumerate(rates(found)) if rate == 100]
    assert slow == [found.ports[0][1] // 2]
    assert found.circuits == build("patch_panel(servers=4,degree=2)", rate_bps=1).circuits


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (("h0", "s0"), "links.h0 and links.s0 do not agree on the link h0-s0 of star(hosts=2)"),
        (("h0-s0", "s0-h0"), "links.h0-s0 and links.s0-h0 do not agree on the link h0-s0 of star(hosts=2)"),
    ],
)
def test_two_names_of_the_same_rank_must_agree(own: tuple[str, str], said: str) -> None:
    asked = {own[0]: {"rate": "1 Mbit/s"}, own[1]: {"rate": "2 Mbit/s"}}
    with pytest.raises(SpecError) as caught:
        made("star(hosts=2)", asked)
    assert caught.value.problem == said
    assert rates(made("star(hosts=2)", {own[0]: {"rate": "1 Mbit/s"}, own[1]: {"delay": "2 ms"}}))[0] == 1


def test_the_bound_of_a_ring_follows_its_slowest_link() -> None:
    """The slow host's link carries as much as the others, and takes ten times as long."""
    slow = "links.h0.rate=20 Mbit/s"
    alike, unlike, all_slow = (planned(*one)[1] for one in ((), (slow,), ("links.rate=20 Mbit/s",)))
    assert unlike.job.cost.round_s() == pytest.approx(10 * alike.job.cost.round_s())
    assert unlike.job.gst_theory_s == pytest.approx(all_slow.job.gst_theory_s)
    assert unlike.topology.links[1] == alike.topology.links[1]


def test_a_plan_says_which_links_differ(tmp_path: Path) -> None:
    found = plan(read(SPEC, "spec.yaml", tmp_path, ["links.h0.rate=20 Mbit/s", "links.rack 0.delay=5 ms"]))
    first = text(found).splitlines()[0]
    assert "links at 200 Mbit/s but h0: 20 Mbit/s; rack 0: delay 5 ms, about" in first
    assert found["trials"][0]["gst_theory_s"] == planned("links.h0.rate=20 Mbit/s")[0].job.gst_theory_s


def test_the_rates_of_some_links_are_swept() -> None:
    found = planned("links.h0.rate=[100 Mbit/s, 50 Mbit/s]", "where=rate < 100 Mbit/s or label == 'ring'")
    assert [(trial.label, trial.topology.links[0].rate_bps // MBIT) for trial in found] == [
        ("ring", 100),
        ("PS", 50),
        ("ring", 50),
    ]
    assert dict(found[0].point) == {"links.h0.rate": 100 * MBIT}
    whole = planned("links.h0-s0.delay=[1 ms, 2 ms]", "links.delay=3 ms", "where=links['h0-s0'].delay > 1 ms")
    assert {trial.topology.links[0].delay_s for trial in whole} == {0.002}


def test_what_differs_is_part_of_a_trials_identity_and_nothing_else_is() -> None:
    plain, slow, late = (planned(*one)[0] for one in ((), ("links.h0.rate=20 Mbit/s",), ("links.h0.delay=1 ms",)))
    assert len({plain.identity, slow.identity, late.identity}) == 3
    assert planned("links.h0.rate=20000 kbit/s")[0].identity == slow.identity
    assert list(plain.spec.model_dump()["links"]) == [
        *("rate_bps", "delay_s", "jitter_s", "loss", "reorder", "queue_bytes", "mtu", "congestion_control")
    ]
    assert planned("links.ecn=false")[0].identity == plain.identity
    assert planned("links.ecn=true")[0].identity != plain.identity


def test_a_profiles_scale_divides_them_and_a_lab_limits_each() -> None:
    (trial,) = planned("links.h0.rate=20 Gbit/s", spec=PROFILE)
    assert [link.rate_bps // MBIT for link in trial.topology.links[:2]] == [100, 200]
    with pytest.raises(SpecError, match=r"^spec.yaml: links.h0.rate: 5 kbit/s cannot be emulated"):
        planned("links.h0.rate=1 Mbit/s", spec=PROFILE)


def test_marking_is_part_of_the_links_settings() -> None:
    assert planned()[0].network.settings_met[0].mark_at_bytes is None
    assert planned("links.ecn=true")[0].network.settings_met[0].mark_at_bytes == 100_000
    asked = planned("links.ecn={mark_at: 30 kB}", "links.congestion_control=dctcp")[0]
    assert asked.network.settings_met[0].mark_at_bytes == 30_000
    assert asked.network.settings_met[0].datagram_bytes is not None  # TCP slows down, so links are measured without it
