"""Claims from the command line: which there are, what runs for them, what is kept, and how they are told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.analysis.papers import PAPERS, bml, bml_theory, durations
from testbed.analysis.papers.bml import LENET5, VGG19, t_f_s
from testbed.analysis.papers.claim import Claim, Experiment, Finding, Paper, Row, Runs, within
from testbed.analysis.papers.durations import DURATIONS_S
from testbed.analysis.papers.evidence import GST, gst_s, measure
from testbed.analysis.papers.page import render
from testbed.analysis.recorded import Run
from testbed.base import exits
from testbed.base.errors import MissingToolError
from testbed.comparison import reproduction
from testbed.comparison.reproduction import (
    Decided,
    as_began,
    as_json,
    exit_code,
    expected_s,
    folder,
    scales,
    source,
)
from testbed.experiment.duration import COMMAND_S, Estimate
from testbed.experiment.expand import trials
from testbed.experiment.finding import settled
from testbed.experiment.fit import enlarged
from testbed.run_directory.directory import RunDirectory
from testbed.spec.jobs import singly
from testbed.spec.workload.profile import Profile
from tests.shipped import EXPERIMENTS as FOLDER
from tests.shipped import GUESSING, LARGE, MLFABRIC, PLAYED, STEPS_OF_A_GUESS
from tests.short_plays import short_plays

from ..capacity.made_up import known
from ..conftest import Called
from ..runner import STEAL
from ..sweeps import records

CLI = Callable[..., Called]
CLAIMS = [claim for paper in PAPERS.values() for claim in paper.claims]
EXPERIMENTS = list(dict.fromkeys(one for claim in CLAIMS for one in claim.experiments))
TINY = """\
name: tiny
links: {rate: 10 Gbit/s}
workload: {kind: profile, model: lenet5, batch: 1, scale: 100, iterations: 4, compute: none}
arms:
  - {label: ring, topology: star(hosts=2), scheme: ring}
retries: 0
quiet: 0 s
"""


guessing = pytest.mark.xdist_group(GUESSING)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.spec)
def test_every_experiment_can_be_read_in_both_modes(experiment: Experiment) -> None:
    assert source(experiment, True).spec.arms
    if experiment.settings(False) is not None:
        assert source(experiment, False).spec.arms


def with_quick_mode() -> Iterator[object]:
    """Experiments whose quick modes are planned: here the first of each paper, and all when rehearsed."""
    seen = set()
    for experiment in EXPERIMENTS:
        folder = Path(experiment.spec).parent
        if experiment.settings(False) is not None and FOLDER / experiment.spec not in LARGE:
            marks = () if folder not in seen else pytest.mark.rehearse
            yield pytest.param(experiment, marks=marks, id=experiment.spec)
            seen.add(folder)


@guessing
@pytest.mark.parametrize("experiment", list(with_quick_mode()))
def test_the_quick_mode_takes_as_long_as_a_list_of_claims_says(experiment: Experiment) -> None:
    """``benchmarks/durations.py`` plans all of them, in the full mode, too."""
    told_s, _ = DURATIONS_S[experiment.spec]
    planned = trials(settled(source(experiment, False), most_steps=STEPS_OF_A_GUESS))
    assert Estimate(PLAYED).left_s(planned) == pytest.approx(told_s, rel=0.05), f"mend {durations.__file__}"


def test_all_have_a_full_duration_and_those_with_a_quick_mode_a_quick_one() -> None:
    for experiment in EXPERIMENTS:
        told_s, full_s = DURATIONS_S[experiment.spec]
        assert full_s > 0
        assert (told_s is None) == (experiment.settings(False) is None)


def test_no_other_experiment_has_a_duration() -> None:
    assert {one.spec for one in EXPERIMENTS} == DURATIONS_S.keys()


def test_a_list_of_claims_computes_no_duration(testbed: CLI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduction, "load_spec", None)
    called = testbed("reproduce", "--list")
    assert called.code == exits.OK
    assert re.search(r"^bml\.gst\s+sections 2 and 3\.2\s+47 s\s+2 min 13 s$", called.out, re.M)
    assert re.search(r"^topoopt\s+all of it\s+14 min 25 s\s+4 h 18 min$", called.out, re.M)


@pytest.mark.parametrize("paper", PAPERS.values(), ids=lambda paper: paper.name)
def test_quick_is_quick(paper: Paper) -> None:
    """MLfabric's, PLink's, TopoOpt's and PHub's claims are many, and have a quarter of an hour. Collectives' have more:
    each of seven trials runs a program of which nobody knows how long it takes, and which counts as a minute."""
    longer_s = {"mlfabric": 870, "collectives": 900 + 7 * COMMAND_S} | dict.fromkeys(("plink", "topoopt", "phub"), 900)
    most_s = longer_s.get(paper.name, 600)
    quick_s, full_s = (expected_s(paper.claims, full) for full in (False, True))
    assert quick_s < most_s
    assert most_s < full_s or quick_s == full_s == 0


def test_a_scale_that_this_machine_does_not_carry_is_larger_and_kept_and_told(tmp_path: Path) -> None:
    claim = next(claim for claim in CLAIMS if claim.name == "bml.vgg19")
    asked = source(VGG19.experiment, False)
    assert enlarged(asked, known()) is asked
    larger = enlarged(asked, known(limit=1.2))
    path = folder(tmp_path, VGG19.experiment, False)
    assert scales([claim], tmp_path, False) == {}
    RunDirectory.create(path, larger).close()
    assert larger.fitted is not None
    assert larger.fitted > 200
    assert as_began(path, asked).fitted == larger.fitted  # whatever is known of the machine by then
    text = scales([claim], tmp_path, False)["bml/vgg19.yaml"]
    assert text.startswith(
        f"Its scale was {larger.fitted:g}, and not 200 as written: this machine would not have carried"
    )
    folders = {"bml/vgg19.yaml": path.name}
    assert text in render(PAPERS["bml"], [(claim, claim.decide({}))], "quick", folders, {"bml/vgg19.yaml": text})


def test_claims_have_names_places_and_an_end() -> None:
    names = [claim.name for claim in CLAIMS]
    assert len(set(names)) == len(names)
    for paper in PAPERS.values():
        assert all(claim.name.startswith(f"{paper.names[0]}.") and claim.where for claim in paper.claims)
        assert all("section" in claim.where for claim in paper.claims)


def test_the_pace_in_the_spec_is_what_the_claim_derives() -> None:
    """From the reductions that the paper gives, in seconds: T_F as a run of the spec has it."""
    for job in (LENET5, VGG19):
        spec = source(job.experiment, False).spec
        assert isinstance(spec.workload, Profile)
        work = spec.workload
        unit_s = t_f_s(_empty(job.experiment))
        assert work.compute.pace_s == pytest.approx({b: unit_s * job.pace_t_f(b) for b in job.batches}, rel=1e-3)


def in_one_process(claim: Claim) -> object:
    """MLfabric's claims have a theory that takes seconds, once a process: all transfers of an ideal network."""
    marks = [pytest.mark.xdist_group(MLFABRIC)] if claim.name.startswith("mlf.") else []
    return pytest.param(claim, marks=marks, id=claim.name)


@pytest.fixture(scope="module")
def _short() -> Iterator[None]:
    """Figure 5's large networks have hundreds of servers, whose forests take 8 s less of a core than those of 1,024."""
    sizes = (bml_theory.SIZES[0], (128, "bcube(n=8,k=2)", "fat_tree(k=8)"))
    with short_plays(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(bml, "SIZES", sizes)
        yield


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("claim", [in_one_process(claim) for claim in CLAIMS if claim.experiments])
def test_labels_and_batches_are_those_of_the_specs(claim: Claim) -> None:
    """A claim that looked for an arm or a batch that its spec does not have could never be decided."""
    found = claim.decide({one.spec: _empty(one) for one in claim.experiments})
    missing = {doubt for row in found.rows if row.ours for doubt in row.ours.doubts}
    arms = [arm for one in claim.experiments for arm in source(one, False).spec.arms]
    labels = {arm.title for arm in arms} | {f"{arm.title}: {job.name}" for arm in arms for job in singly(arm.jobs)}
    not_run = ": was not run"
    assert {doubt.removesuffix(not_run) for doubt in missing if doubt.endswith(not_run)} <= labels
    assert missing
    for row in found.rows:
        batch = row.name.rpartition("batch ")[2]
        assert not batch.isdecimal() or int(batch) in _batches(claim.experiments[0])


def _batches(experiment: Experiment) -> list[int]:
    work = source(experiment, False).spec.workload
    assert isinstance(work, Profile)
    return work.batch


def _empty(experiment: Experiment) -> Run:
    """A run of it that was cut off before its first trial."""
    spec = source(experiment, False).spec
    return Run(
        path=Path(),
        name="",
        spec="",
        resolved={"workload": spec.workload.model_dump(), "links": {"rate_bps": spec.links.rate_bps}},
        environment={},
        labels=(),
        trials=(),
    )


def ring(runs: Runs) -> Finding:
    row = Row("GST of a ring", "s", (0.0, 1.0), None, measure(runs.get("tiny.yaml"), ["ring"], gst_s, number=GST))
    return Finding((row,), (within("it is quick", row, 0, 1),))


TINY_EXPERIMENT = Experiment("tiny.yaml", (), ("repeats=2",), GST)
TINY_CLAIM = Claim("tiny.ring", "A ring is quick.", "section 1", ring, (TINY_EXPERIMENT,))
TINY_PAPER = Paper("tiny", "Tiny (nobody, 2026)", (TINY_CLAIM,))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A paper of one claim, whose experiment takes a second."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    monkeypatch.setattr(reproduction, "EXPERIMENTS", tmp_path)
    monkeypatch.setitem(PAPERS, "tiny", TINY_PAPER)
    return tmp_path


def judged(folder: Path, verdict: str, *failed: dict) -> None:
    """Have the trial be VALID or INVALID."""
    path = folder / "out" / "tiny-quick" / "trials" / "ring-b1.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"fidelity": {"verdict": verdict, "checks": failed}}))


@pytest.mark.usefixtures("ideal")
def test_a_claim_is_run_decided_and_not_run_again(testbed: CLI, tiny: Path) -> None:
    first = testbed("reproduce", "tiny", "--out", "out")
    assert first.err == ""
    assert "[1/1] ring-b1" in first.out
    assert "<h1>Tiny (nobody, 2026)</h1>" in (tiny / "out" / "tiny.html").read_text()
    judged(tiny, "VALID")  # whatever this machine was like
    again = testbed("reproduce", "tiny", "ring", "--out", "out")
    assert again.code == 0
    assert "ring-b1" not in again.out
    assert "holds: it is quick" in again.out
    told = json.loads(testbed("reproduce", "tiny", "--out", "out", "--json").out)["claims"][0]
    assert told["numbers"][0]["here"] > 0
    assert (told["verdict"], told["numbers"][0]["samples_of"], len(told["numbers"][0]["samples"])) == (
        "holds",
        "iterations",
        3,
    )
    judged(tiny, "INVALID", STEAL | {"name": "bytes on the wire", "machine": False})
    assert "ring-b1" not in testbed("reproduce", "tiny", "--out", "out").out  # whatever it measured stays
    judged(tiny, "INVALID", STEAL)
    again = testbed("reproduce", "tiny", "--out", "out", "--quiet", "0", "--retries", "0")
    assert "[1/1] ring-b1" in again.out  # the machine may do better now
    (record,) = records(tiny / "out" / "tiny-quick").values()
    assert [one["reasons"] for one in record["attempts"]] == [["CPU steal: 20.0% taken"]]
    (tiny / "tiny.yaml").write_text(TINY.replace("10 Gbit/s", "5 Gbit/s"))
    changed = testbed("reproduce", "tiny", "--out", "out")
    assert (changed.code, changed.err) == (
        2,
        "error: out/tiny-quick was run with other settings than tiny.yaml has now\n"
        "  fix: name another --out, or remove out/tiny-quick\n",
    )


def test_a_paper_in_another_lab_than_its_specs(testbed: CLI, tiny: Path) -> None:
    done = testbed("reproduce", "tiny", "--full", "--backend", "simulator")
    assert (done.code, done.err) == (0, "")
    assert "1 of 1 SIMULATED" in done.out  # a repeat would be the same
    page = tiny / "runs" / "reproduce-tiny-simulator" / "tiny.html"
    assert "testbed reproduce tiny, lab simulator, full mode" in page.read_text()
    (tiny / "tiny.yaml").write_text(TINY + "perturb: [{kind: kill, nodes: [h0], at: 1 s}]\n")
    refused = testbed("reproduce", "tiny", "--backend", "simulator", "--out", "out")
    assert refused.code == exits.UNDECIDED
    assert "tiny.yaml is left out: tiny.yaml: perturb: kill: nothing is killed" in refused.out
    assert "it was not run" in refused.out
    wrong = testbed("reproduce", "tiny", "--backend", "bogus")
    assert (wrong.code, wrong.err.splitlines()[0]) == (2, "error: there is no lab 'bogus'")
    both = testbed("reproduce", "tiny", "--list", "--backend", "simulator")
    assert (both.code, both.err) == (
        2,
        "error: --list is of specs as they are written\n  fix: leave out --backend\n",
    )


def test_models_are_decided_without_a_run(testbed: CLI, tmp_path: Path) -> None:
    called = testbed("reproduce", "rina", "rina.fig11", "--out", "out")
    assert called.code == exits.OK
    assert "rina.fig11: holds" in called.out
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["rina.fig11.html"]
    failing = testbed("reproduce", "bml", "price", "--out", "out", "--json")
    assert failing.code == exits.TRIAL_FAILED
    assert json.loads(failing.out)["claims"][0]["verdict"] == "fails"


def test_a_claim_may_be_named_alone(testbed: CLI) -> None:
    assert testbed("reproduce", "rina.bom", "--out", "out").code == 0


@guessing
def test_the_list(testbed: CLI) -> None:
    listed = testbed("reproduce", "--list")
    assert listed.code == 0
    assert all(claim.name in listed.out for claim in CLAIMS)
    rina = json.loads(testbed("reproduce", "rina", "--list", "--json").out)
    assert [one["name"] for one in rina] == [claim.name for claim in PAPERS["rina"].claims]
    assert all(one["full_s"] >= one["quick_s"] for one in rina)


def test_the_list_of_one_claim(testbed: CLI) -> None:
    for words in (("bml", "bml.gst"), ("bml", "gst"), ("bml.gst",)):
        header, row = testbed("reproduce", *words, "--list").out.splitlines()
        assert (header.split()[0], row.split()[0]) == ("claim", "bml.gst")
        assert [one["name"] for one in json.loads(testbed("reproduce", *words, "--list", "--json").out)] == ["bml.gst"]
    unknown = testbed("reproduce", "bml", "gts", "--list")
    assert (unknown.code, unknown.err[:36]) == (2, "error: bml has no claim 'gts' (did y")
    assert testbed("reproduce", "bml", "--list").out.splitlines()[-1].startswith("bml\t")


@pytest.mark.parametrize(
    "words", ["mlfabric mlf.lag", "mlfabric lag", "mlf.lag", "mlfabric.lag", "mlfabric mlfabric.lag"]
)
def test_claims_may_have_a_shorter_name_than_their_paper(testbed: CLI, words: str) -> None:
    (row,) = json.loads(testbed("reproduce", *words.split(), "--list", "--json").out)
    assert row["name"] == "mlf.lag"


def test_the_full_mode_may_compute_more() -> None:
    claim = replace(TINY_CLAIM, decide_full=lambda _: Finding((), (), ("all of it",)))
    assert [reproduction.decide([claim], {}, full)[0].finding.notes for full in (False, True)] == [(), ("all of it",)]


def test_a_directory_of_something_else_is_left_alone(testbed: CLI, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "resolved.json").write_text("{}")
    refused = testbed("reproduce", "rina.bom", "--out", "out")
    assert (refused.code, refused.err) == (
        2,
        "error: out: is not empty, and testbed reproduce did not make it\n  fix: name a new directory with --out\n",
    )
    assert [path.name for path in out.iterdir()] == ["resolved.json"]


@pytest.mark.parametrize("own", ["rina.bom.html", ".rina.bom.html.tmp", "bml.html", "rina-figure10-full"])
def test_what_a_reproduction_left_may_be_gone_on_with(own: str, testbed: CLI, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / own).touch()
    (tmp_path / "out" / "notes.txt").touch()
    assert testbed("reproduce", "rina.bom", "--out", "out").code == 0


def test_exit_codes() -> None:
    def decided(claim: Claim) -> Decided:
        return Decided(claim, claim.decide({}))

    holds, fails, open_ = (
        decided(next(claim for claim in CLAIMS if claim.name == name)) for name in ("rina.bom", "bml.price", "bml.gst")
    )
    assert exit_code([holds], all_ran=True) == exits.OK
    assert exit_code([holds, open_], all_ran=True) == exits.OK
    assert exit_code([holds, fails], all_ran=True) == exits.TRIAL_FAILED
    assert exit_code([holds], all_ran=False) == exits.TRIAL_FAILED
    assert exit_code([open_], all_ran=True) == exits.UNDECIDED


def test_json_has_no_infinity() -> None:
    """What a program reads is numbers or null."""
    for name in ("rina.fig12", "bml.gst"):
        claim = next(claim for claim in CLAIMS if claim.name == name)
        written = json.dumps(as_json(Decided(claim, claim.decide({}))), allow_nan=False)
        assert json.loads(written)["claim"] == name


def test_specs_that_are_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reproduction, "EXPERIMENTS", tmp_path)
    with pytest.raises(MissingToolError, match="install testbed from its source tree"):
        source(replace(EXPERIMENTS[0]), False)
