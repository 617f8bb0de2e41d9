"""Plan of an experiment, without doing it: trials, predicted times, what would be built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from testbed.analysis.strikes import never, strikes_of
from testbed.base.columns import Layout, columns
from testbed.base.listing import counted, shortened
from testbed.base.units import rate_text, size_text, time_text
from testbed.capacity.advice import advise
from testbed.capacity.cache import known
from testbed.experiment.conditions import SHOWN, jobs_lines, met, predicted_jobs, warnings
from testbed.experiment.duration import SCRIPT_S, Estimate
from testbed.experiment.finding import settled
from testbed.experiment.own_links import own_text
from testbed.experiment.repeats import Planned, Selection
from testbed.lab.base import LinkSettings
from testbed.lab.place import Opening, Portion
from testbed.machine.kernel import sysctl
from testbed.spec import Source
from testbed.topologies.model import Topology
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.trial.network import lab_rate_bps, link_settings

FIRST_NODES = 6
"""The most nodes of a machine that are named."""
NO_MACHINES = "it is not known which nodes each machine has: name the machines, --inventory FILE"


def plan(source: Source, only: Selection | None = None, inventory: Path | None = None) -> dict[str, Any]:
    """Check everything and predict; nothing is touched.

    Args:
        only: selects cells, if not all are meant.
        inventory: an Ansible inventory, of a lab that takes one; its machines are not asked.

    Raises:
        SpecError: the experiment cannot be, or not in a lab that only plays trials.
        UsageError: ``only`` leaves no trial.
        MissingToolError: a lab that only plays trials lacks something.
    """
    source = settled(source)
    found = Planned(source, only=only)
    planned = found.trials
    spec = source.spec
    if spec.place.plays:  # it is opened at no cost
        from testbed.execution.place import place_of  # imports pandas, which takes longer than most plans

        with closing(place_of(spec.place.open(Opening(spec.lab_options)), spec.place.limits)) as place:
            found.require(place.require)
    advice = advise(planned, known())
    predicted = [predict(trial) for trial in planned]
    if spec.place.takes_inventory and inventory is not None:
        _place(predicted, planned, spec.place.portions(Opening(spec.lab_options, inventory=inventory)))
    firsts = [(each["trial"], strikes_of(each)) for each in predicted if not each["repeat"]]
    return {
        "name": spec.name,
        "lab": spec.lab,
        "repeats": spec.least_repeats,
        "most_repeats": spec.most_repeats,
        "sweep": source.grid.values,
        "written": _written(source, planned),
        "trials": predicted,
        "seed": spec.seed,
        "draws": spec.draws,
        "duration_s": Estimate().left_s(planned),
        "duration_known": all(trial.jct_theory_s is not None for trial in planned),
        "fitted_scale": source.fitted,
        "fitted_pace_s": {str(batch): pace_s for batch, pace_s in source.chosen.pace_s.items()},
        "capacity": advice.as_json(),
        "advice": advice.text,
        "warnings": [
            *never(firsts),
            *warnings(planned),
            *([NO_MACHINES] if spec.place.takes_inventory and inventory is None else []),
        ],
        "machine_congestion_control": sysctl("net.ipv4.tcp_congestion_control"),
    }


def _place(
    predicted: Sequence[dict[str, Any]],
    planned: Sequence[Trial],
    portions: Callable[[Topology, LinkSettings], Sequence[Portion]],
) -> None:
    """Add to each trial which nodes machines have: ``machine``, ``nodes`` and ``crossing_bps``. Raises SpecError as
    ``portions`` does."""
    known: dict[tuple[int, LinkSettings], list[dict[str, Any]]] = {}
    for each, trial in zip(predicted, planned, strict=True):
        topology, settings = trial.topology, link_settings(trial.spec)
        key = id(topology), settings
        if key not in known:  # repeats and arms share one
            known[key] = [asdict(portion) for portion in portions(topology, settings)]
        each["machines"] = known[key]


def _written(source: Source, planned: Sequence[Trial]) -> dict[str, list[str]]:
    """Return, by swept field, the values at which there is a trial, as the spec has them."""
    found: dict[str, dict[str, None]] = {}
    for axis in source.grid.axes:
        at = {trial.point[axis.name] for trial in planned if axis.name in trial.point}
        if texts := {str(value): None for value in axis.values if value.plain in at}:
            found.setdefault(axis.name, {}).update(texts)
    return {name: list(texts) for name, texts in found.items()}


def predict(trial: Trial) -> dict[str, Any]:
    """One trial's prediction: GST is at least the most loaded link's bytes over its goodput; JCT adds the pace.

    Of programs that synchronise by themselves, only what would be built is known.
    """
    network, topology, job = trial.network, trial.topology, trial.jobs[0]
    program, known, alone = job.workload.program, job.is_synchronised, not trial.is_shared
    plays = trial.spec.place.plays
    return {
        "trial": trial.id,
        "label": trial.label,
        "topology": network.arm.topology,
        "scheme": ", ".join(network.arm.schemes),
        "batch": trial.batch,
        "repeat": trial.repeat,
        "point": dict(trial.point),
        "at": trial.at,
        "iterations": trial.iterations,
        "world": sum(one.world for one in trial.jobs),
        "command": list(program.words) if program else [],
        "scale": job.work.scale if known else None,
        "perturb": [one.title for one in network.perturbations],
        "buckets": len(job.gradient.buckets),
        "gradient_bytes": job.gradient_bytes if known and alone else None,
        "goodput": network.goodput,
        "gst_theory_s": job.gst_theory_s if known and alone else None,
        "jct_theory_s": trial.jct_theory_s,
        "wire_bytes_per_iteration": job.cost.wire_bytes if known and alone else None,
        **(_iteration(job) if alone else {}),
        "builds": {
            **({} if plays else {"namespaces": len(topology.nodes)}),
            "hosts": topology.host_count,
            "switches": len(topology.switches),
            "links": len(topology.links),
            **({} if plays else {"processes": len(trial.processes)}),
            "rate_bps": lab_rate_bps(trial.spec),
            **({"own_links": own_text(own, trial.spec.workload.scale)} if (own := trial.spec.links.own) else {}),
        },
        "meets": met(trial),
        "strikes": list(map(asdict, trial.strikes(trial.jct_theory_s))),
        **({"to_be_found": {one.probe: one.stand_in for one in trial.findings.values()}} if trial.findings else {}),
        **({"jobs": predicted_jobs(trial.jobs)} if not alone else {}),
    }


def _guess(trial: Mapping[str, Any]) -> str:
    """Say how long a trial is assumed to compute whose duration is not known."""
    if not trial["command"]:
        return "computing a gradient takes half a second"
    return f"a script trains for {SCRIPT_S:g} s" if trial["scheme"] else "a command takes a minute"


def _iteration(job: Job) -> dict[str, float]:
    """Return what the job's kind predicts of an iteration, if it does."""
    return {"iteration_predicted_s": predicted} if (predicted := job.iteration_predicted_s) is not None else {}


def text(found: Mapping[str, Any], lay_out: Layout = columns) -> str:
    """A plan for people; of trials that are repeated the first."""
    first = "messages" if "messages" in found["trials"][0]["meets"] else "namespaces"
    header = ("trial", "workers", first, "links", "gradient", "wire", "least GST", "least JCT")
    rows = [_row(trial) for trial in found["trials"] if not trial["repeat"]]
    about = time_text(round(found["duration_s"]))
    guesses = {_guess(trial): None for trial in found["trials"]}
    known = "" if found["duration_known"] else f", if {' and '.join(guesses)}"
    may_grow = found["most_repeats"] > found["repeats"]
    many = f"{'at least ' if may_grow else ''}{counted(len(found['trials']), 'trial')}"
    cells = (
        f" ({counted(len(rows), 'cell')}, {found['repeats']} repeats of each; the table has the first)"
        if found["repeats"] > 1
        else ""
    )
    lines = [f"{found['name']}: {many}{cells} in lab {found['lab']}, {_rates(found)}, about {about}{known}"]
    if may_grow:
        most = len(rows) * found["most_repeats"]
        at_most = time_text(round(found["duration_s"] * found["most_repeats"] / found["repeats"]))
        lines.append(f"repeated until intervals are narrow enough: at most {counted(most, 'trial')}, about {at_most}")
    values = found["written"].items()
    several = [f"{name} ({len(texts)})" for name, texts in values if len(texts) > 1]
    fixed = [f"{name}={text}" for name, (text, *others) in values if not others]
    lines += [f"swept: {', '.join(several)}"] if several else []
    lines += [f"at {', '.join(fixed)}"] if fixed else []
    lines += [found["advice"]] if found["advice"] else []
    lines += ["", lay_out(header, rows, spare=(first, "links", "gradient")), ""]
    for trial in found["trials"]:
        if trial.get("jobs") and not trial["repeat"]:
            lines += jobs_lines(trial, lay_out)
    lines += _portions_lines(found, lay_out)
    lines += _met(found)
    return "\n".join(lines + [f"\nwarning: {one}" for one in found["warnings"]])


def _portions_lines(found: Mapping[str, Any], lay_out: Layout) -> Iterator[str]:
    """Yield a table of machines, if these are known, for each way in which trials' nodes are on them."""
    ways: dict[tuple[Any, ...], list[str]] = {}
    for trial in found["trials"]:
        if "machines" in trial and not trial["repeat"]:
            way = tuple((its["machine"], tuple(its["nodes"]), its["crossing_bps"]) for its in trial["machines"])
            ways.setdefault(way, []).append(trial["trial"])
    for way, trials in ways.items():
        yield "nodes on machines" + (f" ({shortened(trials, SHOWN)})" if len(ways) > 1 else "")
        rows = [
            (machine, str(len(nodes)), shortened(nodes, FIRST_NODES), rate_text(crossing_bps))
            for machine, nodes, crossing_bps in way
        ]
        yield from (lay_out(("machine", "nodes", "names", "links to others"), rows, left=3), "")


def _met(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about what trials meet: what is the same for all, and then, by its values, what is not."""
    firsts = [trial for trial in found["trials"] if not trial["repeat"]]
    yield "all trials meet"
    differing = []
    for name, write in MET.items():
        values: dict[str, list[str]] = {}
        for trial in firsts:
            values.setdefault(write(trial, found), []).append(trial["trial"])
        if len(values) == 1:
            (text,) = values
            yield from [f"  {name:<19} {text}"] if text else []
        else:
            differing += [f"  {name:<19} {text or 'none'} ({shortened(ids, SHOWN)})" for text, ids in values.items()]
    if differing:
        yield from ("some trials meet", *differing)


def _warmup(trial: Mapping[str, Any], _: Mapping[str, Any]) -> str:
    warmup = trial["meets"]["warmup"]
    return "" if warmup is None else f"{warmup} of {counted(trial['iterations'], 'iteration')}"


def _overlap(trial: Mapping[str, Any], _: Mapping[str, Any]) -> str:
    if trial["buckets"] < 2:
        return ""
    return f"gradients leave in {trial['buckets']} parts while they are computed: GST can be below the least GST"


def _draws(trial: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    if not trial["strikes"]:
        return ""
    same = "the same in all arms with as many workers" if found["draws"] == "same" else "other ones for each arm"
    return f"{same}, and the same in all repeats (seed {found['seed']})"


def _control(trial: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    control, default = trial["meets"].get("congestion_control"), found["machine_congestion_control"]
    if control is None:
        return ""
    return str(control) if default in (None, control) else f"{control} (this machine's default is {default})"


def _size(trial: Mapping[str, Any], key: str) -> str:
    size_bytes = trial["meets"].get(key)
    return "" if size_bytes is None else size_text(size_bytes)


def _pace(_: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    paces = [f"{time_text(pace_s)} for a batch of {batch}" for batch, pace_s in found["fitted_pace_s"].items()]
    return f"{', '.join(paces)}, fitted to this machine" if paces else ""


def _to_be_found(trial: Mapping[str, Any], _: Mapping[str, Any]) -> str:
    return "; ".join(
        f"a part of the plan, by what hosts measure ({probe}); {stand_in} stands for it here"
        for probe, stand_in in trial.get("to_be_found", {}).items()
    )


def _iteration_text(trial: Mapping[str, Any], _: Mapping[str, Any]) -> str:
    predicted_s = trial.get("iteration_predicted_s")
    return "" if predicted_s is None else f"{time_text(predicted_s, measured=True)}, as predicted"


MET: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], str]] = {
    "warm-up": _warmup,
    "overlap": _overlap,
    "to be found": _to_be_found,
    "an iteration of": _iteration_text,
    "perturbations": lambda trial, _: "; ".join(trial["meets"]["perturbations"]),
    "draws": _draws,
    "strikes": lambda trial, _: "; ".join(map(str, strikes_of(trial))),
    "queue": lambda trial, _: _size(trial, "queue_bytes"),
    "congestion control": _control,
    "MTU": lambda trial, _: f"{trial['meets']['mtu']} B" if "mtu" in trial["meets"] else "",
    "chunk": lambda trial, _: _size(trial, "chunk_bytes"),
    "memory": lambda trial, _: (
        f"at most {text} for the messages of an iteration" if (text := _size(trial, "memory_bytes")) else ""
    ),
    "pace": _pace,
}
"""Conditions of a trial that a plan tells besides its network and scheme, by what they are called."""


def _rates(found: Mapping[str, Any]) -> str:
    """``links at 200 Mbit/s``, or from what to what they are swept, and those that have values of their own."""
    text = _range([trial["builds"]["rate_bps"] for trial in found["trials"]], rate_text)
    scales = [trial["scale"] or 1 for trial in found["trials"]]
    if max(scales) > 1:
        whole = _range([trial["builds"]["rate_bps"] * (trial["scale"] or 1) for trial in found["trials"]], rate_text)
        chosen = ", fitted to this machine" if found["fitted_scale"] else ""
        scale = _range(scales, "{:g}".format)
        text += f" (scale {scale}{chosen}: {whole}, and gradients as much larger, take the same time)"
    own = list(dict.fromkeys(trial["builds"].get("own_links", "") for trial in found["trials"]))
    others = f" but {own[0]}" if own[0] else ""
    return f"links at {text}{others}{' and other values' if len(own) > 1 else ''}"


def _range(values: Sequence[float], write: Callable[[float], str]) -> str:
    """From the least to the largest, or the one that there is."""
    return " to ".join(dict.fromkeys(map(write, (min(values), max(values)))))


def _row(trial: Mapping[str, Any]) -> list[str]:
    jct_s = trial["jct_theory_s"]
    return [
        trial["trial"],
        str(trial["world"]),
        str(trial["meets"]["messages"] if "messages" in trial["meets"] else trial["builds"]["namespaces"]),
        str(trial["builds"]["links"]),
        *(
            "-" if trial[key] is None else size_text(trial[key])
            for key in ("gradient_bytes", "wire_bytes_per_iteration")
        ),
        "-" if trial["gst_theory_s"] is None else time_text(trial["gst_theory_s"], measured=True),
        "-" if jct_s is None else time_text(jct_s, measured=True),
    ]
