"""Lists and ranges in a spec: which are swept, which keep their meaning, and which cells come of them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import SpecError
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.spec.grid import MOST_CELLS, MOST_TRIALS, Grid
from testbed.spec.model import Until

SPEC = """\
name: small
links: {rate: 200 Mbit/s}
workload: {model: lenet5, dataset: digits, batch: [2], iterations: 3, compute: none}
arms:
  - {label: PS, topology: star(hosts=3), scheme: ps}
  - {label: ring, topology: star(hosts=3), scheme: ring}
"""


def grid(*overrides: str, folder: Path = Path()) -> Grid:
    return read(SPEC, "spec.yaml", folder, overrides).grid


def points(*overrides: str) -> list[tuple[str, dict]]:
    return [(cell.arm.title, dict(cell.point)) for cell in grid(*overrides).cells]


def test_nothing_is_swept_in_a_plain_spec() -> None:
    plain = grid()
    assert (plain.axes, plain.values) == ((), {})
    assert points() == [("PS", {}), ("ring", {})]
    assert all(cell.spec is plain.spec for cell in plain.cells)


@pytest.mark.parametrize(
    ("override", "name", "values"),
    [
        ("links.rate=[100 Mbit/s, 0.2 Gbit/s]", "links.rate", [100_000_000, 200_000_000]),
        ("links.rate=50..200 step 50 Mbit/s", "links.rate", [50_000_000, 100_000_000, 150_000_000, 200_000_000]),
        ("links.rate=[1 Mbit/s, 2..3 Mbit/s]", "links.rate", [1_000_000, 2_000_000, 3_000_000]),
        ("links.rate=[100 Mbit/s]", "links.rate", [100_000_000]),
        ("links.loss=0..2 %", "links.loss", [0.0, 0.01, 0.02]),
        ("links.congestion_control=[reno, null]", "links.congestion_control", ["reno", None]),
        ("workload.chunk=[32 KiB, 1 MiB]", "workload.chunk", [32_768, 1_048_576]),
        ("workload.iterations=2..8 step 3", "workload.iterations", [2, 5, 8]),
        ("workload.learning_rate=[0.1, 0.01]", "workload.learning_rate", [0.1, 0.01]),
        ("workload.model=[lenet5, resnet8]", "workload.model", ["lenet5", "resnet8"]),
        ("workload.compute=[none, real]", "workload.compute", ["none", "real"]),
        ("seed=1..3", "seed", [1, 2, 3]),
        ("timeout=[30 s, 1 min]", "timeout", [30.0, 60.0]),
    ],
)
def test_a_list_where_one_value_is_expected_is_swept(override: str, name: str, values: list[object]) -> None:
    found = grid(override)
    assert found.values == {name: values}
    assert [(cell.arm.title, cell.point[name]) for cell in found.cells] == [
        (arm, value) for value in values for arm in ("PS", "ring")
    ]


def test_the_point_is_in_the_spec_of_its_cells() -> None:
    rates = [cell.spec.links.rate_bps for cell in grid("links.rate=[1 Mbit/s, 2 Mbit/s]").cells]
    assert rates == [10**6, 10**6, 2 * 10**6, 2 * 10**6]
    paced = grid("workload.compute={mode: paced, pace: {2: [1 s, 2 s]}}")
    assert [cell.spec.workload.compute.pace_s for cell in paced.cells] == [{2: 1.0}] * 2 + [{2: 2.0}] * 2
    assert paced.cells[0].at == "pace.2=1 s"


@pytest.mark.parametrize(
    "override",
    [
        "workload.batch=[2, 4]",
        "perturb=[{kind: down, links: [h0, h1], at: 1 s, until: 2 s}]",
        "arms.0.topology=star(hosts=3,ina=[s0])",
        "arms.0.topology=patch_panel(servers=4,degree=2,rings=[1])",
        "arms=[{topology: star(hosts=9), scheme: 'multi_ring(strides=[1,2])'}]",
        "perturb=[{kind: circuits, rings: [1]}]",
        "arms.0.perturb=[C1, N2]",
    ],
)
def test_what_is_a_list_by_nature_keeps_its_meaning(override: str) -> None:
    assert grid(override).axes == ()


def test_a_range_of_batches_is_short_for_their_list() -> None:
    found = grid("workload.batch=2..16 x2")
    assert found.axes == ()
    assert found.spec.workload.batch == [2, 4, 8, 16]
    assert [cell.batch for cell in found.cells] == [2, 2, 4, 4, 8, 8, 16, 16]
    assert grid("workload.batch=[1, 8..9]").spec.workload.batch == [1, 8, 9]


def test_perturbations_are_swept_inside_the_groups() -> None:
    found = grid("perturb={kind: rate, links: h0, share: [10 %, 40 %], at: [1 s, iteration 2]}")
    assert found.values == {"perturb.0.share": [0.1, 0.4], "perturb.0.at": ["1 s", "iteration 2"]}
    assert len(found.cells) == 8
    own = points("arms.1.perturb=[{kind: rate, links: h0, share: [10 %, 40 %]}]")
    assert own == [("PS", {}), ("ring", {"arm.perturb.0.share": 0.1}), ("ring", {"arm.perturb.0.share": 0.4})]


def test_arguments_of_expressions_are_swept() -> None:
    found = grid("arms.0.topology=star(hosts=[2, 4..6])", "arms.0.scheme=ps(servers=1..2)")
    assert [(cell.arm.topology, cell.arm.scheme) for cell in found.cells] == [
        *((f"star(hosts={hosts})", f"ps(servers={servers})") for hosts, servers in product((2, 4, 5, 6), (1, 2))),
        ("star(hosts=3)", "ring"),
    ]
    assert found.cells[0].at == "hosts=2, servers=1"


def test_words_and_truth_values_are_swept_too() -> None:
    found = grid("arms.0.scheme=ps(place=[chunk,tensor])", "arms.1.topology=fat_tree(k=4,routing=[ecmp,single])")
    assert found.values == {"scheme.place": ["chunk", "tensor"], "topology.routing": ["ecmp", "single"]}


def test_a_whole_expression_may_be_a_list() -> None:
    found = points("arms.0.topology=[star(hosts=3), 'bcube(n=2,k=2)']")
    assert [point for _, point in found] == [{"topology": "star(hosts=3)"}, {"topology": "bcube(n=2,k=2)"}, {}]


def test_how_many_switches_aggregate_is_a_range() -> None:
    found = grid("arms.0.topology=star(hosts=3,ina=0..1)")
    assert found.values == {"topology.ina": [0, 1]}


def test_arms_that_sweep_the_same_meet_at_equal_values() -> None:
    found = points("arms.0.topology=star(hosts=2..3)", "arms.1.topology=star(hosts=3..4)")
    assert found == [
        *(("PS", {"topology.hosts": hosts}) for hosts in (2, 3)),
        *(("ring", {"topology.hosts": hosts}) for hosts in (3, 4)),
    ]


def test_an_arm_without_a_label_is_called_as_it_is_written(tmp_path: Path) -> None:
    arms = "arms=[{topology: 'star(hosts=[2, 4])', scheme: ring}, {topology: 'star(hosts=2..4 step 2)', scheme: ps}]"
    assert {cell.arm.title for cell in grid(arms, folder=tmp_path).cells} == {
        "ring on star(hosts=[2,4])",
        "ps on star(hosts=2..4 step 2)",
    }


def test_an_arms_own_rate_is_in_its_title_and_in_the_spec_of_its_cells() -> None:
    arms = "arms=[{topology: star(hosts=3), scheme: ps, rate: 1 Gbit/s}, {topology: star(hosts=3), scheme: ps}]"
    assert [(cell.arm.title, cell.spec.links.rate_bps) for cell in grid(arms).cells] == [
        ("ps on star(hosts=3) at 1 Gbit/s", 10**9),
        ("ps on star(hosts=3)", 200_000_000),
    ]


def test_an_arms_rate_is_swept() -> None:
    star = "topology: star(hosts=3), scheme: ps"
    arms = f"arms=[{{{star}, rate: [1 Gbit/s, 50 Mbit/s]}}, {{{star}}}]"
    cells = grid(arms).cells
    assert [cell.spec.links.rate_bps for cell in cells] == [10**9, 50_000_000, 200_000_000]
    assert [dict(cell.point) for cell in cells] == [{"arm.rate": 10**9}, {"arm.rate": 50_000_000}, {}]
    assert len({cell.arm.title for cell in cells}) == 2


def test_an_arm_with_a_rate_of_its_own_does_not_sweep_that_of_links() -> None:
    with pytest.raises(SpecError) as refused:
        grid("arms.1.rate=1 Gbit/s", "links.rate=[100 Mbit/s, 200 Mbit/s]")
    assert refused.value.problem == "--set: arms.1.rate: links.rate is swept, which this arm does not take"
    assert refused.value.fix == "remove one of them"


def test_what_all_arms_have_is_not_what_the_first_one_has() -> None:
    assert grid("arms.0.rate=1 Gbit/s").spec.links.rate_bps == 200_000_000


def test_an_arm_that_is_written_on_several_lines_is_called_on_one(tmp_path: Path) -> None:
    arms = r'arms=[{topology: "star(\n\thosts=2..3\n)\n", scheme: ring}]'
    assert {cell.arm.title for cell in grid(arms, folder=tmp_path).cells} == {"ring on star( hosts=2..3 )"}


def test_a_users_own_parameters_say_what_they_take(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from testbed.workloads.sync.schemes.ring import ring\n"
        "def scheme(topology, tensor_sizes, depth: int = 1, groups: tuple[int, ...] = (), free=None):\n"
        "    return ring(topology, tensor_sizes)\n"
    )
    found = grid("arms.0.scheme=./mine.py:scheme(depth=[1,2],groups=[3,4],free=[5,6])", folder=tmp_path)
    assert found.values == {"scheme.depth": [1, 2]}
    assert [cell.arm.scheme for cell in found.cells][:2] == [
        f"./mine.py:scheme(depth={depth},groups=[3,4],free=[5,6])" for depth in (1, 2)
    ]


def test_conditions_leave_points_out() -> None:
    found = points(
        "links.rate=[50 Mbit/s, 100 Mbit/s]",
        "arms.0.scheme=ps(servers=1..3)",
        "arms.0.topology=star(hosts=2..3)",
        "where=[servers <= hosts, rate > 50 Mbit/s or servers == 1, label != 'ring' or rate < 100 Mbit/s]",
    )
    assert found == [
        *(("PS", {"links.rate": 50_000_000, "topology.hosts": h, "scheme.servers": 1}) for h in (2, 3)),
        ("ring", {"links.rate": 50_000_000}),
        *(
            ("PS", {"links.rate": 100_000_000, "topology.hosts": hosts, "scheme.servers": servers})
            for hosts, servers in ((2, 1), (2, 2), (3, 1), (3, 2), (3, 3))
        ),
    ]


def test_conditions_may_be_about_batches_and_labels_alone() -> None:
    found = grid("workload.batch=[2, 4]", "where=label == 'ring' or batch > 2")
    assert [(cell.arm.title, cell.batch) for cell in found.cells] == [("ring", 2), ("PS", 4), ("ring", 4)]


def test_a_point_that_is_left_out_may_be_impossible() -> None:
    impossible = ["links.mtu=[1500, 9000]", "links.queue=[2 kB, 1 MiB]"]
    with pytest.raises(SpecError) as error:
        grid(*impossible)
    assert str(error.value) == (
        "--set: links: a queue of 2,000 B has no room for a packet of 9,000 B (at mtu=9000, queue=2 kB)\n"
        "  fix: give a queue of 9000 B or more; or leave such points out with where"
    ).replace("--set", "spec.yaml")
    assert len(grid(*impossible, "where=queue >= mtu").cells) == 6


values_of = st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True)


@given(values_of, values_of, values_of, st.integers(1, 60))
def test_the_grid_is_every_combination_that_the_conditions_leave(
    rates: list[int], seeds: list[int], hosts: list[int], limit: int
) -> None:
    hosts = [one + 1 for one in hosts]
    text = [f"links.rate=[{', '.join(f'{one} Mbit/s' for one in rates)}]", f"seed={seeds}"]
    text += [f"arms.{arm}.topology=star(hosts={hosts})".replace(" ", "") for arm in (0, 1)]
    expected = [
        (rate * 10**6, seed, label, count)
        for rate, seed, label, count in product(rates, seeds, ("PS", "ring"), hosts)
        if count + seed <= limit
    ]
    if not expected:
        with pytest.raises(SpecError, match="no point of the grid is left"):
            grid(*text, f"where=hosts + seed <= {limit}")
        return
    found = grid(*text, f"where=hosts + seed <= {limit}")
    assert [
        (c.point["links.rate"], c.point["seed"], c.arm.title, c.point["topology.hosts"]) for c in found.cells
    ] == expected
    assert all(c.spec.links.rate_bps == c.point["links.rate"] and c.spec.seed == c.point["seed"] for c in found.cells)
    assert all(c.arm.topology == f"star(hosts={c.point['topology.hosts']})" for c in found.cells)


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (["links.rate=[100 Mbit/s, 200]"], "--set: links.rate: 200 has no unit"),
        (["links.rate=[]"], "--set: links.rate: an empty list"),
        (["links.rate=[1 Gbit/s, 1000 Mbit/s]"], "--set: links.rate: 1 Gbit/s and 1000 Mbit/s are the same value"),
        (["links.rate=[[1 Mbit/s]]"], "--set: links.rate: ['1 Mbit/s'] is not a rate"),
        (["links.mtu=500..600 step 50"], "--set: links.mtu: 500 is impossible"),
        (["links.mtu=9..1"], "--set: links.mtu: the range '9..1' begins above its end"),
        (
            ["workload.model=[lenet5, lenet]"],
            "spec.yaml: workload.model: unknown model 'lenet'; there is bert_tiny, candle_tiny, dlrm_tiny, lenet5, "
            "resnet8 (at model=lenet)",
        ),
        (["workload.compute=[none, pased]"], "--set: workload.compute.mode: 'pased' is not one of: real, paced, none"),
        (["name=[a, b]"], "--set: name: [a, b] is not text"),
        (["repeats=[1, 2]"], "--set: repeats: [1, 2] is not a whole number"),
        (["lab=[netns, mininet]"], "--set or --backend: lab: ['netns', 'mininet'] is not one of: netns, "),
        (["arms.0.topology=star(hosts=[2,2])"], "--set: arms.0.topology: hosts: 2 and 2 are the same value"),
        (["arms.0.topology=star(hosts=[2,[3]])"], "--set: arms.0.topology: hosts: cannot read '[3]'"),
        (["arms.0.topology=star(hosts=4..2)"], "--set: arms.0.topology: the range '4..2' begins above its end"),
        (["arms.0.topology=star(hosts=[0,2])"], "spec.yaml: arms.0: star: hosts is 0 (at hosts=0)"),
        (
            ["links.rate=[9 kbit/s, 1 Mbit/s]"],
            "spec.yaml: links.rate: 9 kbit/s cannot be emulated; the kernel's HTB does 10 kbit/s to 34 Gbit/s (at ",
        ),
        (["where=hosts > 3"], "--set: where.0: 'hosts > 3': no field 'hosts' is swept"),
        (["where=[batch > 3]"], "--set: where: no point of the grid is left"),
        (["where=[7]"], "--set: where.0: 7 is not text"),
        (["repeats={until: 3}"], "--set: repeats.until: 3 is not a share of a whole"),
        (["repeats={until: 3 %, least: 9, most: 4}"], "--set: repeats: at least 9 repeats are more than at most 4"),
        (["repeats={untl: 3 %}"], "--set: repeats.untl: unknown key"),
    ],
)
def test_mistakes_name_the_value_and_its_place(overrides: list[str], problem: str) -> None:
    with pytest.raises(SpecError) as error:
        trials(read(SPEC, "spec.yaml", Path(), overrides))
    assert str(error.value).startswith(problem)
    assert "fix: " in str(error.value)


def test_arms_are_a_list_all_the_same() -> None:
    with pytest.raises(SpecError, match=r"arms: .* is not a list"):
        grid("arms={topology: star(hosts=3), scheme: ring}")


def test_failover_is_for_one_arm_at_one_point_at_least() -> None:
    rina = ["arms.1.scheme=[ring, rina]", "failover=[5 s, 6 s]", "where=label == 'PS' or failover < 6 s"]
    assert len(trials(read(SPEC, "spec.yaml", Path(), rina))) == 4
    with pytest.raises(SpecError, match=r"^spec.yaml: failover: no arm has a scheme that goes on"):
        trials(read(SPEC, "spec.yaml", Path(), ["failover=[5 s, 6 s]"]))


def test_a_mistake_at_many_points_is_told_once() -> None:
    with pytest.raises(SpecError) as error:
        trials(read(SPEC, "spec.yaml", Path(), ["seed=1..9", "arms.0.topology=star(hosts=[0,2])"]))
    assert str(error.value).count("star: hosts is 0") == 1


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (
            ["seed=1..1000", "links.mtu=1000..1100"],
            "202,000 combinations of arms, batches and swept fields; at most 20,000",
        ),
        (["seed=1..400", "repeats=20"], "16,000 trials (800 cells, 20 repeats); at most 10,000 are allowed"),
        (["links.rate=[1..1000 Mbit/s, 1..300 kbit/s]"], "2,600 different networks; at most 1,000 are allowed"),
    ],
)
def test_what_is_too_much_is_refused_with_the_count(overrides: list[str], problem: str) -> None:
    with pytest.raises(SpecError) as error:
        trials(read(SPEC, "spec.yaml", Path(), overrides))
    assert problem in str(error.value)
    assert "fix: give fewer values" in str(error.value)
    assert MOST_CELLS > MOST_TRIALS


def test_repeats_until_have_a_least_and_a_most() -> None:
    found = grid("repeats={until: 3 %}").spec
    assert found.repeats == Until(until="3 %", least=3, most=20)
    assert (found.least_repeats, found.most_repeats) == (3, 20)
    assert (grid("repeats=5").spec.least_repeats, grid("repeats=5").spec.most_repeats) == (5, 5)
