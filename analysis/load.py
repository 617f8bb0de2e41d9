"""A run directory as typed values. Nothing is computed here, and nothing is written."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pyarrow

from testbed.errors import OutputError

SCHEMA = 1
"""The newest schema of a run directory that this version reads."""
COLUMNS = ("rank", "iteration", "start_s", "ready_s", "sum_s", "end_s", "loss")
"""What a samples table must have."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Metrics:
    """The numbers of one trial; None where it did not get so far."""

    jct_s: float | None = None
    compute_s: float | None = None
    sync_s: float | None = None
    straggler_wait_s: float | None = None
    gst_median_s: float | None = None
    gst_uncertainty_s: float | None = None
    """By how much it may be off, where hosts have clocks of their own."""
    gst_p95_s: float | None = None
    gst_theory_s: float | None = None
    gst_ratio: float | None = None
    throughput_sps: float | None = None
    wire_bytes: float | None = None
    wire_bytes_theory: float | None = None
    algbw_bps: float | None = None
    busbw_bps: float | None = None


@dataclass(frozen=True)
class Accuracy:
    """How good the trained weights are, and whether they are those of single-process SGD; or, of a profile, how many
    elements of its sums were looked at, and how many were wrong."""

    test_accuracy: float | None = None
    test_loss: float | None = None
    weights_error: float | None = None
    weights_equal: bool | None = None
    reference: str | None = None
    checked_elements: int | None = None
    wrong_elements: int | None = None


@dataclass(frozen=True)
class Check:
    """One reason to believe a trial, or not to: ``value`` against ``limit``, both in ``unit``."""

    name: str
    ok: bool
    value: float | None = None
    limit: float | None = None
    unit: str = ""
    detail: str = ""
    asked: bool = False
    """The trial was to be like that: told, not judged."""


@dataclass(frozen=True)
class LinkCount:
    """What the kernel counted at the egress of one directed link, and what theory says it should be."""

    link: int
    source: str
    target: str
    rate_bps: float
    bytes: int
    drops: int
    theory_bytes: float | None


@dataclass(frozen=True)
class Event:
    """Something that was done to a trial; times in seconds from its start, None where that did not come."""

    kind: str
    what: str
    planned_s: float | None = None
    begun_s: float | None = None
    done_s: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class Recovery:
    """What a trial did when nodes had died: with iteration ``first`` ``world`` workers went on, ``recovered_s`` seconds
    later the next iteration was done. ``called_s`` is when it was noticed, in seconds from the trial's start."""

    without: list[str]
    first: int
    world: int
    scheme: str
    called_s: float
    recovered_s: float | None = None


@dataclass(frozen=True)
class Trial:
    """One trial. ``samples`` has a row for each (rank, iteration); None for a trial that left none."""

    id: str
    label: str
    topology: str
    scheme: str
    batch: int
    repeat: int
    iterations: int
    world: int
    done: bool
    error: str | None
    metrics: Metrics
    accuracy: Accuracy
    verdict: str | None
    checks: tuple[Check, ...]
    links: tuple[LinkCount, ...]
    events: tuple[Event, ...]
    recoveries: tuple[Recovery, ...]
    started: str
    duration_s: float | None
    samples: pd.DataFrame | None

    @property
    def means(self) -> str:
        """The scheme on the topology, where the label does not say that already; else nothing."""
        what = f"{self.scheme} on {self.topology}"
        return "" if self.label == what else what

    @property
    def valid(self) -> bool:
        """Whether it finished and every fidelity check passed."""
        return self.done and self.verdict == "VALID"

    @property
    def reasons(self) -> tuple[Check, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if not check.ok)


@dataclass(frozen=True)
class Run:
    """A run directory. ``labels`` names the arms in the spec's order; ``trials`` are by batch, repeat, then arm."""

    path: Path
    name: str
    spec: str
    resolved: dict[str, Any]
    environment: dict[str, Any]
    labels: tuple[str, ...]
    trials: tuple[Trial, ...]

    @property
    def batches(self) -> tuple[int, ...]:
        """The sub-minibatch sizes (samples per worker and iteration) that trials used, ascending."""
        return tuple(dict.fromkeys(trial.batch for trial in self.trials))

    @property
    def warmup(self) -> int:
        """Iterations at the start of each trial that its GST statistics leave out."""
        return int(self._workload.get("warmup") or 0)

    @property
    def planned(self) -> int | None:
        """How many trials the spec asks for; None where the resolved spec does not say."""
        command = self._workload.get("kind") == "command"
        arms, batches = self.resolved.get("arms"), [0] if command else self._workload.get("batch")
        if not isinstance(arms, list) or not isinstance(batches, list):
            return None
        return len(arms) * len(batches) * int(self.resolved.get("repeats") or 1)

    @property
    def finished(self) -> tuple[Trial, ...]:
        """The trials that ran to their end, VALID or not."""
        return tuple(trial for trial in self.trials if trial.done)

    def first_arm(self, trial: Trial) -> Trial | None:
        """The finished trial of the spec's first arm with the same batch and repeat: what ratios are relative to."""
        wanted = (self.labels[0], trial.batch, trial.repeat)
        return next((one for one in self.finished if (one.label, one.batch, one.repeat) == wanted), None)

    @property
    def played(self) -> tuple[str, float, float] | None:
        """The published model that was played back, its scale, and the links' rate before it; None if none was."""
        work = self._workload
        rate_bps = (self.resolved.get("links") or {}).get("rate_bps")
        if work.get("kind") != "profile" or rate_bps is None:
            return None
        return str(work.get("model")), float(work.get("scale") or 1), float(rate_bps)

    @property
    def _workload(self) -> dict[str, Any]:
        workload = self.resolved.get("workload")
        return workload if isinstance(workload, dict) else {}


def load(run_dir: Path) -> Run:
    """Read a run directory; trials that are not there yet (an interrupted run) are simply absent.

    Raises:
        OutputError: this is not a run directory, a newer version wrote it, or a file of it is damaged.
    """
    if not (run_dir / "resolved.json").is_file():
        raise OutputError(
            f"{run_dir}: not a run directory (it has no resolved.json)",
            fix="give the directory that testbed run wrote, such as runs/quickstart",
        )
    resolved = _json(run_dir / "resolved.json")
    trials = [_trial(run_dir, path) for path in sorted((run_dir / "trials").glob("*.json"))]
    trials.sort(key=lambda trial: trial.started)
    planned = [str(arm["label"]) for arm in resolved.get("arms") or () if "label" in arm]
    labels = tuple(dict.fromkeys(planned + [trial.label for trial in trials]))
    trials.sort(key=lambda trial: (trial.batch, trial.repeat, labels.index(trial.label)))
    spec = run_dir / "spec.yaml"
    return Run(
        path=run_dir,
        name=str(resolved.get("name") or run_dir.resolve().name),
        spec=spec.read_text(encoding="utf-8", errors="replace") if spec.is_file() else "",
        resolved=resolved,
        environment=_json(run_dir / "env.json"),
        labels=labels,
        trials=tuple(trials),
    )


def _damaged(path: Path, why: str) -> OutputError:
    """The error for a file of a run, with what to delete so that the run repeats it."""
    if path.name == "resolved.json":
        return OutputError(f"{path}: {why}", fix="restore it from a copy, or run the spec again into a new directory")
    samples = path.suffix == ".parquet"
    culprit = path.parent.parent / "trials" / f"{path.stem}.json" if samples else path
    run_dir = path.parent if path.name == "env.json" else path.parent.parent
    return OutputError(f"{path}: {why}", fix=f"rm -f {culprit}; testbed run --resume {run_dir}")


def _json(path: Path) -> dict[str, Any]:
    """A JSON object of a schema that we know."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _damaged(path, (error.strerror or str(error)).lower()) from None
    except ValueError as error:
        raise _damaged(path, f"damaged, not JSON ({error})") from None
    if not isinstance(value, dict):
        raise _damaged(path, "damaged, holds no JSON object")
    schema = value.get("schema")
    if not isinstance(schema, int):
        raise _damaged(path, f"damaged, its schema is {schema!r}")
    if schema > SCHEMA:
        raise OutputError(
            f"{path}: schema {schema}; this version of testbed reads up to {SCHEMA}",
            fix="update testbed to the version that wrote the run",
        )
    return value


def _trial(run_dir: Path, path: Path) -> Trial:
    raw = _json(path)
    try:
        done = raw["status"] == "done"
        fidelity = raw.get("fidelity") or {}
        return Trial(
            id=str(raw["id"]),
            label=str(raw["label"]),
            topology=str(raw["topology"]),
            scheme=str(raw["scheme"]),
            batch=int(raw["batch"]),
            repeat=int(raw.get("repeat") or 0),
            iterations=int(raw["iterations"]),
            world=int(raw["world"]),
            done=done,
            error=raw.get("error"),
            metrics=_known(Metrics, raw.get("metrics")),
            accuracy=_known(Accuracy, {**(raw.get("accuracy") or {}), **(raw.get("sums") or {})}),
            verdict=fidelity.get("verdict"),
            checks=tuple(_known(Check, check) for check in fidelity.get("checks") or ()),
            links=tuple(_link(link) for link in raw.get("links") or ()),
            events=tuple(_known(Event, event) for event in raw.get("events") or ()),
            recoveries=tuple(_known(Recovery, one) for one in (raw.get("failover") or {}).get("recoveries", ())),
            started=str(raw.get("started") or ""),
            duration_s=raw.get("duration_s"),
            samples=_samples(
                run_dir / "samples" / f"{path.stem}.parquet", needed=done and raw.get("kind") != "command"
            ),
        )
    except KeyError as error:
        raise _damaged(path, f"damaged, {error.args[0]!r} is missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"damaged ({error})") from None


def _known(kind: type[_T], raw: dict[str, Any] | None) -> _T:
    """The dataclass ``kind`` from those keys of ``raw`` that it has; a later version may write more."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # every caller passes a dataclass
    return kind(**{key: value for key, value in (raw or {}).items() if key in names})


def _link(raw: dict[str, Any]) -> LinkCount:
    return LinkCount(
        link=int(raw["link"]),
        source=str(raw["from"]),
        target=str(raw["to"]),
        rate_bps=float(raw["rate_bps"]),
        bytes=int(raw["bytes"]),
        drops=int(raw.get("drops") or 0),
        theory_bytes=raw.get("theory_bytes"),
    )


def _samples(path: Path, needed: bool) -> pd.DataFrame | None:
    if not path.exists() and not needed:
        return None
    try:
        samples = pd.read_parquet(path)
    except (OSError, pyarrow.ArrowException) as error:
        reason = "missing" if isinstance(error, FileNotFoundError) else f"damaged, not Parquet ({error})"
        raise _damaged(path, reason) from None
    lacking = [name for name in COLUMNS if name not in samples]
    if lacking:
        raise _damaged(path, f"damaged, the column {lacking[0]!r} is missing")
    return samples.sort_values(["iteration", "rank"], ignore_index=True)
