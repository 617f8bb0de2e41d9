"""What the commands that run nothing print."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click import Context
from typer.main import get_command

from testbed.cli import app

from ..conftest import PROFILE, SPEC, Called

CLI = Callable[..., Called]
GROUP: Any = get_command(app)


def test_help_imports_nothing_slow() -> None:
    """A person does not notice a tenth of a second; pydantic alone would take two, PyTorch twenty."""
    script = "import sys\nfrom testbed.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script, "--help"], capture_output=True, text=True, check=True)
    text, _, modules = done.stdout.rstrip().rpartition("\n")
    assert not {"numpy", "pandas", "plotly", "pydantic", "sklearn", "torch", "yaml"} & set(modules.split())
    for name in ("run", "plan", "topo", "forest", "schemes", "models", "up", "exec", "report", "doctor"):
        assert f"\n  {name} " in text


@pytest.mark.parametrize("words", [["--help"], ["hosts", "--help"]])
def test_summaries_of_commands_are_whole(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        app(words)
    summaries = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    assert summaries
    assert [line for line in summaries if not line.endswith(".") or line.endswith("...")] == []


def test_every_option_says_what_it_does() -> None:
    top = GROUP.commands
    commands = [*top.values(), *top["hosts"].commands.values()]
    assert [f"{one.name} {it.name}" for one in commands for it in one.params if not it.help] == []


def test_the_harness_does_without_torch() -> None:
    """Workers and the referee need it; in the process that a user waits for it would be most of the start. SciPy's
    statistics are for comparisons, and its solver for one claim."""
    modules = (
        "testbed.experiment.run, testbed.comparison.gate, testbed.comparison.reproduction, testbed.analysis.report"
    )
    script = f"import sys, {modules}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "numpy" in imported
    assert not {"torch", "sklearn", "scipy.stats", "scipy.optimize"} & imported


def test_planning_does_without_pandas() -> None:
    script = "import sys, testbed.api.plan\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert "pydantic" in modules
    assert not {"pandas", "pyarrow", "torch"} & modules


def test_a_worker_that_plays_a_profile_back_does_without_torch() -> None:
    script = "import sys\nfrom workloads import worker\nworker.prepare(torch=False)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert "testbed.workloads.learning.replay" in modules
    assert not {"torch", "pandas", "pydantic"} & modules


def test_plan_predicts_and_touches_nothing(testbed: CLI, spec_file: Path) -> None:
    called = testbed("plan", "spec.yaml", "--json")
    assert called.code == 0
    found = json.loads(called.out)
    assert [trial["trial"] for trial in found["trials"]] == ["PS-b2", "ring-b2"]
    first = found["trials"][0]
    early_bytes = 25_000 + 1024 / first["goodput"] + 66  # a bucket of 1 ms, and the last packet
    assert first["gst_theory_s"] == pytest.approx((4 / 3 * 13_098_536 / first["goodput"] - early_bytes) * 8 / 200e6)
    assert first["jct_theory_s"] == pytest.approx(3 * first["gst_theory_s"])
    assert first["builds"] == {
        "namespaces": 4,
        "hosts": 3,
        "switches": 1,
        "links": 3,
        "processes": 3,
        "rate_bps": 200_000_000,
    }
    assert [path.name for path in spec_file.parent.iterdir()] == ["spec.yaml"]
    text = testbed("plan", "spec.yaml").out
    assert text.startswith("small: 2 trials in lab netns, links at 200 Mbit/s, about ")
    assert "ring-b2" in text


def test_topo_describes_and_draws(testbed: CLI, tmp_path: Path) -> None:
    found = json.loads(testbed("topo", "bcube(n=3,k=2)", "--json").out)
    assert (found["hosts"], found["switches"], found["links"]) == (9, 6, 18)
    called = testbed("topo", "star(hosts=3)", "--draw", "net.svg")
    assert called.code == 0
    assert "\nlink rates         1 Gbit/s\nbisection          1 Gbit/s\n" in called.out
    assert (tmp_path / "net.svg").read_text().startswith("<svg")


def test_topo_reads_and_writes_files_of_other_tools(testbed: CLI, tmp_path: Path) -> None:
    for form, name in (("graphml", "net.graphml"), ("clab", "net.clab.yml"), ("infragraph", "net.json")):
        called = testbed("topo", "bcube(n=2,k=2)", "--rate", "200 Mbit/s", "--as", form)
        assert called.code == 0
        (tmp_path / name).write_text(called.out)
        found = json.loads(testbed("topo", name, "--json").out)
        assert (found["hosts"], found["switches"], found["link_rates_bps"]) == (4, 4, [200_000_000])
    text = testbed("topo", "net.json").out
    assert "\nof the file:\n  left out: the insides of devices (cpu, nic, port, xpu)" in text


def test_a_spec_takes_the_network_of_a_file_beside_it_and_overrules_its_links(testbed: CLI, spec_file: Path) -> None:
    folder = spec_file.parent / "nets"
    folder.mkdir()
    (folder / "net.gml").write_text(
        "graph [ node [id 0 label a] node [id 1 label b] node [id 2 label c]"
        ' edge [source 0 target 1 LinkSpeed 20 LinkSpeedUnits "M"] edge [source 1 target 2] ]'
    )
    slow = SPEC.replace("star(hosts=3)", "nets/net.gml(hosts=all)")
    spec_file.write_text(slow)
    before = json.loads(testbed("plan", "spec.yaml", "--json").out)["trials"]
    spec_file.write_text(slow.replace("rate: 200 Mbit/s", "rate: 200 Mbit/s, a-b: {rate: 200 Mbit/s}"))
    after = json.loads(testbed("plan", "spec.yaml", "--json").out)["trials"]
    assert [one["topology"] for one in before] == ["nets/net.gml(hosts=all)"] * len(before)
    times = [(one["gst_theory_s"], other["gst_theory_s"]) for one, other in zip(before, after, strict=True)]
    assert all(slower > 5 * faster for slower, faster in times)


def test_forest_lists_each_class_so_that_others_can_check_it(testbed: CLI) -> None:
    found = json.loads(testbed("forest", "bml", "bcube(n=3,k=2)", "--rate", "200 Mbit/s", "--json").out)
    assert found["verified"] is True
    classes = found["forest"]["classes"]
    assert len(classes) == 18  # k * N
    for one in classes:
        assert one["share"] == classes[0]["share"]
        assert set(one["reduce"]) == set(one["broadcast"]) == {f"h{i}" for i in range(9)}
        assert list(one["reduce"].values()).count(None) == 1
    wire_bytes = 2 * 8 / (2 * 9) * 13_098_536 * 1514 / 1448
    early_bytes = 25_000 + 65_536 * 1514 / 1448  # a bucket of 1 ms, and the last packet
    assert found["cost"]["bound_s"] == pytest.approx((wire_bytes - early_bytes) * 8 / 200e6)
    text = testbed("forest", "bml", "bcube(n=3,k=2)").out
    assert "verified     yes" in text
    assert "h0 -> s0.0" in text


def test_forest_says_for_whom_workers_wait(testbed: CLI) -> None:
    text = testbed("forest", "ssp(staleness=2)", "star(hosts=5)", "--bytes", "12500000").out
    assert "workers wait for the slowest one when more than 2 iterations ahead of it" in text
    assert "0.206 s for an update alone, there and back; 0.418 s for one of each worker, set by 2 of 10" in text
    assert "workers wait for nobody" in testbed("forest", "async_ps", "star(hosts=5)").out
    assert "updates" not in testbed("forest", "ps", "star(hosts=5)").out


def test_forest_draws_its_trees(testbed: CLI, tmp_path: Path) -> None:
    assert testbed("forest", "bml", "bcube(n=3,k=2)", "--draw", "bml.svg", "--class", "17").code == 0
    assert "class 17 of 18" in (tmp_path / "bml.svg").read_text()
    assert testbed("forest", "two_level(groups=[[0,2],[1,3]])", "star(hosts=4)", "--draw", "two.svg").code == 0
    assert "class 3 of 4" in (tmp_path / "two.svg").read_text()
    refused = testbed("forest", "ring", "star(hosts=12)", "--draw", "ring.svg")
    assert refused.code == 2
    assert "fix: choose one with --class, 0 to 11" in refused.err
    assert not (tmp_path / "ring.svg").exists()
    assert "fix: add --draw FILE.svg" in testbed("forest", "ring", "star(hosts=3)", "--class", "1").err


def test_forest_prints_the_schedule_of_a_node(testbed: CLI) -> None:
    asked = ("forest", "two_level(groups=[[0,1],[2,3]])", "star(hosts=4)", "--schedule", "h0")
    told = [one for one in json.loads(testbed(*asked, "--json").out) if one["klass"] == 2]
    first = told[0]["number"]
    assert [(one["what"], one["nodes"], one["after"]) for one in told] == [
        ("Fetch", [], []),
        ("ReceiveFrom", ["h1"], [first]),
        ("SendTo", ["h2"], [first + 1]),
        ("ReceiveFrom", ["h2"], [first + 2]),
        ("SendTo", ["h1"], [first + 3]),
        ("Deliver", [], [first + 3]),
    ]
    rows = testbed(*asked).out.splitlines()
    assert rows[0].split() == ["action", "class", "what", "nodes", "after"]
    assert len(rows) == 1 + 18


def test_a_node_that_only_passes_chunks_on_has_no_schedule(testbed: CLI) -> None:
    assert testbed("forest", "ring", "star(hosts=3)", "--schedule", "s0").out == (
        "nothing: it passes on what others send each other\n"
    )


def test_forest_says_why_a_forest_is_wrong(testbed: CLI, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\nfrom testbed.workloads.sync.forest import ABSENT as A, ROOT as R, Forest\n"
        "def mine(topology, tensor_sizes):\n"
        "    names = tuple(node.name for node in topology.nodes)\n"
        "    tree, short = np.array([[R, 0, 0, A]], np.int32), np.array([[R, 0, A, A]], np.int32)\n"
        "    return Forest('mine', names, (0, 1, 2), np.array([1]), tree, short)\n"
    )
    called = testbed("forest", "./mine.py:mine", "star(hosts=3)", "--json")
    assert called.code == 2
    found = json.loads(called.out)
    assert (found["verified"], found["cost"]) == (False, None)
    assert "h2" in found["problem"]


def test_theory_lists_claims_and_shows_them(testbed: CLI) -> None:
    listed = testbed("theory").out
    assert listed.splitlines()[1].startswith("bml.fig5\t")
    shown = testbed("theory", "rina.bom").out
    assert shown.startswith("rina.bom: Rina section I and III-C")
    assert "10 of 13\t1/2" in shown
    assert shown.endswith("The order is that of rina.fig11.\n")
    found = json.loads(testbed("theory", "rina", "--json").out)
    assert list(found) == ["rina.steps", "rina.chain", "rina.bom", "rina.fig11"]
    assert found["rina.steps"]["rows"][0] == [
        "spine_leaf(racks=2,hosts_per_rack=4,spines=1)",
        "8",
        "2",
        "14",
        "14",
        "3",
    ]


def test_what_a_users_file_prints_does_not_end_up_in_the_json(testbed: CLI, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from testbed.workloads.sync.schemes.ring import ring\nprint('loaded')\n"
        "def mine(topology, tensor_sizes):\n    print('called')\n    return ring(topology, tensor_sizes)\n"
    )
    called = testbed("forest", "./mine.py:mine", "star(hosts=3)", "--json")
    assert json.loads(called.out)["verified"] is True
    assert called.err == "loaded\ncalled\n"


def test_schemes_are_listed(testbed: CLI) -> None:
    found = json.loads(testbed("schemes", "--json").out)
    assert {"ps", "ring", "bml", "two_level"} <= {one["name"] for one in found}
    assert json.loads(testbed("schemes", "ring", "--json").out) == [one for one in found if one["name"] == "ring"]
    text = testbed("schemes").out
    assert all(one["name"] in text and one["doc"].replace("``", "") in text for one in found)
    assert "`" not in text


def test_doctor_says_what_is_there(testbed: CLI) -> None:
    found = json.loads(testbed("doctor", "--json").out)
    assert found
    assert all({"name", "ok", "detail", "fix", "needed"} == one.keys() for one in found)
    text = testbed("doctor").out
    assert all(one["name"] in text for one in found)


def test_models_are_listed_with_their_sizes(testbed: Callable[..., Called]) -> None:
    called = testbed("models")
    assert "\t\t" not in called.out  # a cell without a value has a dash
    assert called.code == 0
    vgg19 = next(line for line in called.out.splitlines() if line.startswith("vgg19\t"))
    assert "143,667,240" in vgg19
    assert "548.0" in vgg19
    assert "32: 268 ms" in vgg19
    found = {one["name"]: one for one in json.loads(testbed("models", "--json").out)}
    assert found["lenet5"]["datasets"] == ["digits"]
    assert found["vgg19"]["datasets"] == []
    assert found["resnet50"]["parameters"] == 25_557_032


def test_a_forest_is_shown_for_a_published_model(testbed: Callable[..., Called]) -> None:
    called = testbed("forest", "ps(place=tensor)", "star(hosts=4)", "--model", "vgg19", "--json")
    assert called.code == 0
    assert json.loads(called.out)["verified"]


def test_a_plan_says_what_scale_does(testbed: Callable[..., Called], spec_file: Path) -> None:
    spec_file.write_text(PROFILE)
    assert "links at 200 Mbit/s (scale 200: 40 Gbit/s, and gradients" in testbed("plan", "spec.yaml").out
    (trial,) = json.loads(testbed("plan", "spec.yaml", "--json").out)["trials"]
    assert trial["gradient_bytes"] == 4 * round(143_667_240 / 200)
    assert trial["builds"]["rate_bps"] == 200_000_000
    whole = json.loads(testbed("plan", "spec.yaml", "--set", "workload.scale=100", "--json").out)["trials"][0]
    # The bound leaves out the last packet, of 1 KiB.
    difference_s = (1024 * 1514 / 1448 + 66) * 8 * (1 / 200e6 - 1 / 400e6)
    assert whole["gst_theory_s"] == pytest.approx(trial["gst_theory_s"] + difference_s, rel=1e-4)
    assert whole["jct_theory_s"] == pytest.approx(3 * (0.268 + whole["gst_theory_s"]), rel=1e-4)


def test_a_plan_of_a_sweep_has_a_header_for_all_points(testbed: CLI, spec_file: Path) -> None:
    text = PROFILE.replace("40 Gbit/s", "[40 Gbit/s, 80 Gbit/s]")
    spec_file.write_text(text)
    one_scale = testbed("plan", "spec.yaml").out
    assert "links at 200 Mbit/s to 400 Mbit/s (scale 200: 40 Gbit/s to 80 Gbit/s, and gradients as" in one_scale
    spec_file.write_text(text.replace("scale: 200", "scale: [200, 400]") + "repeats: 2\n")
    several = testbed("plan", "spec.yaml").out
    assert several.startswith("played: 8 trials (4 cells, 2 repeats of each; the table has the first) in lab netns, ")
    assert "links at 100 Mbit/s to 400 Mbit/s (scale 200 to 400: 40 Gbit/s to 80 Gbit/s, and gradients as" in several


def test_optional_arguments_have_one_pair_of_brackets() -> None:
    shown = {name: one.get_usage(Context(one, info_name=name)) for name, one in GROUP.commands.items()}
    assert [name for name, usage in shown.items() if "[[" in usage] == []
    assert shown["reproduce"].split() == ["Usage:", "reproduce", "[OPTIONS]", "[PAPER]", "[CLAIM]"]


def test_repeated_arguments_have_dots_once() -> None:
    shown = {name: one.get_usage(Context(one, info_name=name)) for name, one in GROUP.commands.items()}
    assert [name for name, usage in shown.items() if usage.count("...") > 1 or "-- " in usage] == []
    assert all("..." in shown[name] for name in ("run", "report", "merge", "exec"))


def test_an_error_is_json_for_programs_as_well_and_not_if_json_is_a_nodes_affair(testbed: CLI) -> None:
    called = testbed("topo", "star(hosts=0)", "--json")
    told = json.loads(called.out)["error"]
    assert told["type"] == "TopologyError"
    assert called.err == f"error: {told['problem']}\n  fix: {told['fix']}\n"
    assert testbed("topo", "star(hosts=0)").out == ""
    assert testbed("exec", "h0", "--", "ls", "--json").out == ""
