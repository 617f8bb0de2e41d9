"""``testbed find`` and ``testbed.find()``: what is found for a model or a file, and mistakes, word for word.

Set GOLDEN=write to write golden/find/NAME.txt anew, and read the difference before keeping it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import testbed as harness
from testbed.base.errors import SpecError

from ..conftest import Called

CLI = Callable[..., Called]
GOLDEN = Path(__file__).parents[1] / "golden" / "find"
JOB = """\
servers: 6
groups:
  - {members: all, transfer: 3 MiB}
  - {members: [0, 2, 4], gradient: 3 MiB}
mp:
  - {from: 0, to: all, bytes: 1 KiB}
  - {from: [1, 0], to: [0, 5], bytes: 1 KiB}
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


def test_a_models_arm_can_be_pasted_into_a_spec(testbed: CLI, tmp_path: Path) -> None:
    called = testbed("find", "dlrm", "--servers", "16", "--degree", "6", "--draw", str(tmp_path / "net.svg"))
    assert called.code == 0
    assert "AllReduce      64 GiB, 0.945 of all bytes" in called.out
    assert "bandwidth tax  1.041" in called.out
    assert (tmp_path / "net.svg").read_text().startswith("<svg")
    (arm,) = yaml.safe_load(next(line for line in called.out.splitlines() if line.startswith("  - {")))
    network = harness.topology(arm["topology"])
    assert harness.forest(arm["scheme"], network).facts["verified"]
    assert arm["topology"].startswith("patch_panel(servers=16,degree=6,rings=[1,3,7],routes=[")


def test_a_program_reads_the_same_twice(testbed: CLI) -> None:
    one, two = (testbed("find", "candle", "--degree", "6", "--json").out for _ in range(2))
    assert one == two
    told = json.loads(one)
    assert [(ring["group"], ring["members"]) for ring in told["rings"]] == [(2, 16), (2, 16), (0, 4), (1, 4)]
    assert (told["scheme"], told["routes_left_out"]) == (None, 0)


def test_a_strategy_is_given_or_searched_for_and_its_iteration_predicted(testbed: CLI, tmp_path: Path) -> None:
    path = tmp_path / "strategy.yaml"
    path.write_text("e0: [0]\ne1: [3]\ne2: [8]\ne3: [13]\nrest: all\n")
    called = testbed("find", "dlrm", "--degree", "6", "--strategy", str(path))
    assert called.code == 0
    assert "AllReduce      64 GiB, 0.945 of all bytes" in called.out
    assert "bandwidth tax  1.041" in called.out
    assert "strategy: {e0: [0], e1: [3], e2: [8], e3: [13], rest: all}" in called.out
    assert "prediction: 3.13 s an iteration, with circuits of 25 Gbit/s and servers of 10 TFLOP/s" in called.out
    assert "an arm for a spec, for which the same is found:" in called.out
    arm = next(line for line in called.out.splitlines() if line.startswith("  - {"))
    strategy = "{e0: [0], e1: [3], e2: [8], e3: [13], rest: all}"
    assert arm == f'  - {{topology: "topoopt(servers=16,degree=6)", strategy: {strategy}}}'
    work = "{kind: profile, model: dlrm, batch: 8192, iterations: 2, scale: 1000, compute: {pace: {8192: 1 s}}}"
    (tmp_path / "spec.yaml").write_text(f"links: {{rate: 25 Gbit/s}}\nworkload: {work}\narms:\n{arm}\n")
    network = testbed("find", "dlrm", "--degree", "6", "--json").out
    (trial,) = json.loads(testbed("plan", str(tmp_path / "spec.yaml"), "--json").out)["trials"]
    assert trial["topology"] == json.loads(network)["topology"]


def test_one_seed_finds_the_same_bytes(testbed: CLI) -> None:
    call = ("find", "candle_testbed", "--servers", "8", "--strategy", "search(steps=60,seed=5)")
    one, two = (testbed(*call, "--json").out for _ in range(2))
    assert one == two
    told = json.loads(one)["hybrid"]
    costs = told["search"]["costs_s"]
    assert costs[-1][1] == told["iteration_s"] < costs[0][1]
    again = harness.find("candle_testbed", 8, hybrid=harness.Hybrid(yaml.safe_load(told["strategy"])))
    assert again.facts["hybrid"]["iteration_s"] == told["iteration_s"]
    assert again.facts["topology"] == json.loads(one)["topology"]
    assert "best of 60 steps, at" in testbed(*call).out


def test_other_networks_are_compared_with(testbed: CLI) -> None:
    """Data parallelism: a star of four times the rate is as fast as all rings, and an expander has hops to pay for."""
    call = ("find", "bert_testbed", "--servers", "16", "--strategy", "data", "--rate", "100 Gbit/s", "--baselines")
    told = {one["name"]: one for one in json.loads(testbed(*call, "--json").out)["baselines"]}
    iteration_s = {name: one["iteration_s"] for name, one in told.items()}
    assert iteration_s["ideal"] == pytest.approx(iteration_s["TopoOpt"], rel=0.1)
    assert iteration_s["ideal"] < iteration_s["cost-equivalent"] < iteration_s["ideal / 2.8"] < iteration_s["expander"]
    assert iteration_s["ideal"] <= iteration_s["oversubscribed"]
    assert told["TopoOpt"]["dollars_per_server"] == told["cost-equivalent"]["dollars_per_server"] == 5136
    called = testbed(*call)
    assert "an arm for a spec:" in called.out
    assert "B' of the cost-equivalent network is 54.9 Gbit/s, below B" in called.out
    assert "expander(servers=16,degree=4)" in called.out
    assert "SiP-ML needs perturb: [{kind: reconfigure, every: 50 ms, dark: 25 us, discount: one}]" in called.out
    assert told["SiP-ML"]["dollars_per_server"] is told["SiP-ML"]["iteration_s"] is None


def test_a_network_that_there_is_not_is_named_and_searches_are_on_their_own_links(testbed: CLI) -> None:
    call = ("find", "candle_testbed", "--servers", "12", "--strategy", "search(steps=30)", "--rate", "25 Gbit/s")
    called = testbed(*call, "--baselines")
    assert "no oversubscribed: 12 servers are not k^3/4 with k a multiple of 4, as 16 and 128 are" in called.out
    assert "B' of the cost-equivalent network is 27.26 Gbit/s, above B" in called.out
    without = harness.find("dlrm", degree=2).baselines("10 Gbit/s")
    assert {one["iteration_s"] for one in without} == {None}
    assert [one["name"] for one in without if one["problem"]] == ["expander"]


@pytest.mark.parametrize("option", [("--cut", "4"), ("--select", "mp")])
def test_an_arm_says_all_that_was_asked_for(testbed: CLI, tmp_path: Path, option: tuple[str, str]) -> None:
    """With cut tables the same is found again; with other rings the arm has the network and the rings."""
    table = "e0.1" if option[0] == "--cut" else "e0"
    called = testbed("find", "dlrm_tiny", "--servers", "4", "--strategy", f"{{{table}: [0], rest: all}}", *option)
    arm = next(line for line in called.out.splitlines() if line.startswith("  - {"))
    work = "{kind: profile, model: dlrm_tiny, batch: 8, iterations: 2, compute: none}"
    (tmp_path / "spec.yaml").write_text(f"links: {{rate: 1 Gbit/s}}\nworkload: {work}\narms:\n{arm}\n")
    (planned,) = json.loads(testbed("plan", str(tmp_path / "spec.yaml"), "--json").out)["trials"]
    assert planned["scheme"].startswith("multi_ring(permutations=[")
    assert ("topoopt" in arm) == (option[0] == "--cut")


def test_tables_are_cut_by_columns() -> None:
    cut = harness.find("dlrm_shared", 8, hybrid=harness.Hybrid("search(steps=0)", cut=4, memory="30 GB"))
    assert "e15.3" in cut.facts["hybrid"]["strategy"]


def test_a_file_says_groups_and_transfers(job: Path) -> None:
    found = harness.find(job, degree=5)
    demand = found.found.job
    assert [(group.members, group.transfer_bytes) for group in demand.groups] == [
        ((0, 1, 2, 3, 4, 5), 3 * 2**20),
        ((0, 2, 4), 4 * 2**20),
    ]
    assert sorted(demand.pairs()) == [
        (0, 1, 1024),
        (0, 2, 1024),
        (0, 3, 1024),
        (0, 4, 1024),
        (0, 5, 2048),
        (1, 0, 1024),
        (1, 5, 1024),
    ]
    assert found.arm is None
    assert len(found.topology().hosts) == 6
    job.write_text("servers: 2\nt_mp: [[0, 5.5], [7, 0]]\n")
    assert harness.find("./job.yaml", degree=2).found.job.pairs() == [(0, 1, 6), (1, 0, 7)]


def test_expressions_that_would_be_too_long_lack_the_routes_and_say_so(testbed: CLI) -> None:
    called = testbed("find", "dlrm", "--servers", "256", "--degree", "4", "--select", "mp")
    assert "routes are left out here: with them the expression is longer than one may be" in called.out
    facts = harness.find("dlrm", 256, select="mp").facts
    assert facts["topology"] == "patch_panel(servers=256,degree=4,rings=[1,65],routing=coin_change)"
    assert facts["routes_left_out"] > 500


def test_arguments_of_python_that_cannot_be() -> None:
    with pytest.raises(SpecError, match="select is 'geometrc' \\(did you mean 'geometric'\\?\\)"):
        harness.find("dlrm", select="geometrc")
    with pytest.raises(SpecError, match="paths is 0\n  fix: give 1 or more"):
        harness.find("dlrm", paths=0)


FILES = {
    "key_unknown": ("groups:", "group:"),
    "servers_missing": ("servers: 6\n", ""),
    "servers_1": ("servers: 6", "servers: 1"),
    "member_unknown": ("[0, 2, 4]", "[0, 2, 6]"),
    "member_twice": ("[0, 2, 4]", "[0, 2, 2]"),
    "member_alone": ("[0, 2, 4]", "[2]"),
    "group_twice": ("[0, 2, 4]", "all"),
    "group_without_bytes": (", gradient: 3 MiB", ""),
    "transfer_without_unit": ("3 MiB}\n  - {members: [", "3}\n  - {members: ["),
    "transfer_0": ("transfer: 3 MiB", "transfer: 0 B"),
    "transfer_huge": ("transfer: 3 MiB", "transfer: 99999999999 GiB"),
    "mp_negative": ("{from: 0, to: all, bytes: 1 KiB}", "{from: 0, to: all, bytes: -1 KiB}"),
    "mp_to_itself": ("{from: 0, to: all,", "{from: 0, to: 0,"),
    "mp_no_list": (JOB[JOB.index("mp:") :], "mp: 7\n"),
    "mp_entry_no_table": ("  - {from: 0, to: all, bytes: 1 KiB}", "  - 7"),
    "mp_key_missing": (", to: all", ""),
    "mp_and_t_mp": ("servers: 6", "servers: 6\nt_mp: []"),
}
MATRICES = {
    "t_mp_negative": "[[0, -5], [7, 0]]",
    "t_mp_nan": "[[0, .nan], [7, 0]]",
    "t_mp_diagonal": "[[3, 5], [7, 0]]",
    "t_mp_of_words": "[[0, many], [7, 0]]",
    "t_mp_too_small": "[[0, 5]]",
    "t_mp_of_nothing": "[[0, 0], [0, 0]]",
}
CALLS = {
    "model_unknown": ["dlm"],
    "odd_with_degree_2": ["dlrm", "--servers", "15", "--degree", "2"],
    "degree_0": ["dlrm", "--degree", "0"],
    "degree_huge": ["dlrm", "--degree", "1000000"],
    "servers_huge": ["dlrm", "--servers", "1000000"],
    "candle_small": ["candle", "--servers", "7"],
    "no_such_file": ["./nothing.yaml"],
    "servers_of_a_file": ["job.yaml", "--servers", "7"],
    "strategy_of_a_file": ["job.yaml", "--strategy", "data"],
    "strategy_of_many": ["dlrm", "--servers", "1025", "--strategy", "data"],
    "strategy_missing": ["dlrm_shared"],
    "strategy_unknown": ["dlrm", "--strategy", "dat"],
    "strategy_no_such_file": ["dlrm", "--strategy", "./nothing.yaml"],
    "strategy_no_yaml": ["dlrm", "--strategy", "{e0: [0"],
    "strategy_operator_unknown": ["dlrm", "--strategy", "{e4: [0], rest: all}"],
    "strategy_operator_left_out": ["dlrm", "--strategy", "{e0: [0], dense: all}"],
    "strategy_server_twice": ["dlrm", "--strategy", "{e0: [3, 3], rest: all}"],
    "strategy_server_beyond": ["dlrm", "--strategy", "{e0: [16], rest: all}"],
    "strategy_no_holder": ["dlrm", "--strategy", "{e0: [], rest: all}"],
    "strategy_no_list": ["dlrm", "--strategy", "{e0: 3, rest: all}"],
    "strategy_does_not_fit": ["dlrm", "--strategy", "data"],
    "strategy_sends_nothing": ["candle", "--strategy", "{rest: [0]}"],
    "search_does_not_fit": ["dlrm", "--strategy", "search(steps=10)", "--memory", "10 GB"],
    "search_too_long": ["dlrm", "--strategy", "search(steps=1000001)"],
    "search_parameter_unknown": ["dlrm", "--strategy", "search(step=10)"],
    "cut_uneven": ["dlrm_shared", "--strategy", "data", "--cut", "3"],
    "model_without_tables": ["candle", "--strategy", "data", "--cut", "2"],
    "cut_without_strategy": ["dlrm", "--cut", "3"],
    "rate_without_strategy": ["dlrm", "--rate", "1 Gbit/s"],
    "pace_without_strategy": ["dlrm", "--pace", "fast"],
    "memory_without_strategy": ["dlrm", "--memory", "1 GB", "--baselines"],
    "pace_without_unit": ["candle", "--strategy", "data", "--pace", "10"],
}


def check(name: str, called: Called) -> None:
    said = f"{called.err}exit code {called.code}\n"
    assert "Traceback" not in said
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(said)
    assert said == golden.read_text()


@pytest.mark.parametrize("name", FILES)
def test_files_that_make_no_sense(name: str, job: Path, testbed: CLI) -> None:
    old, new = FILES[name]
    assert old in JOB
    job.write_text(JOB.replace(old, new, 1))
    check(name, testbed("find", "job.yaml"))


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_that_make_no_sense(name: str, job: Path, testbed: CLI) -> None:
    job.write_text(f"servers: 2\nt_mp: {MATRICES[name]}\n")
    check(name, testbed("find", "job.yaml"))


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_make_no_sense(name: str, job: Path, testbed: CLI) -> None:
    assert job.exists()
    check(name, testbed("find", *CALLS[name]))


def test_every_golden_text_belongs_to_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == FILES.keys() | MATRICES.keys() | CALLS.keys()
