"""What an experiment would do, without doing it: trials, predicted times, what would be built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.columns import columns
from testbed.jobs import inner_nodes
from testbed.progress import expected_s
from testbed.spec import Source
from testbed.trial import Trial
from testbed.trials import lab_rate_bps, trials
from testbed.units import rate_text, size_text, time_text
from workloads.sync.cost import goodput


def plan(source: Source) -> dict[str, Any]:
    """Check everything and predict; nothing is touched.

    Raises:
        SpecError: the experiment cannot be.
    """
    planned = trials(source)
    return {
        "name": source.spec.name,
        "lab": source.spec.lab,
        "trials": [predict(trial) for trial in planned],
        "duration_s": sum(expected_s(trial) for trial in planned),
        "duration_known": all(trial.jct_theory_s is not None for trial in planned),
    }


def predict(trial: Trial) -> dict[str, Any]:
    """One trial's prediction: GST is at least the most loaded link's bytes over its goodput; JCT adds the pace.

    Of a command, which synchronises by itself, only what would be built is known.
    """
    network = trial.network
    topology = network.topology
    return {
        "trial": trial.id,
        "label": trial.label,
        "topology": network.arm.topology,
        "scheme": network.arm.scheme,
        "batch": trial.batch,
        "iterations": trial.iterations,
        "world": network.world,
        "command": list(trial.command),
        "scale": None if trial.command else trial.work.scale,
        "perturb": [one.title for one in trial.perturbations],
        "buckets": len(network.gradient.buckets),
        "gradient_bytes": None if trial.command else 4 * network.floats,
        "goodput": goodput(trial.spec.links.mtu),
        "gst_theory_s": None if trial.command else trial.gst_theory_s,
        "jct_theory_s": trial.jct_theory_s,
        "wire_bytes_per_iteration": None if trial.command else network.cost.wire_bytes,
        "builds": {
            "namespaces": len(topology.nodes),
            "hosts": topology.host_count,
            "switches": len(topology.switches),
            "links": len(topology.links),
            "processes": network.world if trial.command else len(inner_nodes(network.forest)),
            "rate_bps": lab_rate_bps(trial.spec),
        },
    }


def text(found: Mapping[str, Any]) -> str:
    """A plan for people."""
    header = ("trial", "workers", "namespaces", "links", "gradient", "wire", "least GST", "least JCT")
    rows = [_row(trial) for trial in found["trials"]]
    about = time_text(round(found["duration_s"]))
    guess = "a command takes a minute" if found["trials"][0]["command"] else "computing a gradient takes half a second"
    known = "" if found["duration_known"] else f", if {guess}"
    first = found["trials"][0]
    rate = rate_text(first["builds"]["rate_bps"])
    if (first["scale"] or 1) > 1:
        whole = rate_text(first["builds"]["rate_bps"] * first["scale"])
        rate += f" (scale {first['scale']:g}: {whole}, and gradients as much larger, take the same time)"
    return "\n".join(
        [
            f"{found['name']}: {len(rows)} trials in lab {found['lab']}, links at {rate}, about {about}{known}",
            "",
            columns(header, rows),
        ]
    )


def _row(trial: Mapping[str, Any]) -> list[str]:
    jct_s = trial["jct_theory_s"]
    return [
        trial["trial"],
        str(trial["world"]),
        str(trial["builds"]["namespaces"]),
        str(trial["builds"]["links"]),
        *(
            "-" if trial[key] is None else size_text(trial[key])
            for key in ("gradient_bytes", "wire_bytes_per_iteration")
        ),
        "-" if trial["gst_theory_s"] is None else time_text(trial["gst_theory_s"], measured=True),
        "-" if jct_s is None else time_text(jct_s, measured=True),
    ]
