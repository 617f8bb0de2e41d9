"""Verdicts from checks: each number of a trial has its own, and how far off it can be at most.

A number is INVALID if a check that threatens it failed. It is UNWATCHED if none failed, but nobody saw whether
processes stood still or waited for a core meanwhile (checks that are ``needed``). There is one way to be VALID all the
same. A lower bound and a measurement bracket the truth: a GST of 1.01 times its bound is too long by at most 1 %,
whatever happened on the machine, for a slow machine makes it longer and never shorter. Such a number is *certified*,
and what failed about the machine, or was not seen of it, is told and not held against the number. That takes a bound
that can be trusted, so nothing certifies a trial whose links are not as asked, even by a little, or whose bytes are not
those of the forest: links that are 2 % too fast and a machine that is 2 % too slow would come to the same GST.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain
from typing import Any, Protocol

import numpy as np
import pandas as pd

from testbed.analysis import metrics
from testbed.analysis.verdicts import INVALID, NUMBERS, SIMULATED, UNWATCHED, VALID, joint_verdict
from testbed.base.check import GST, ITERATIONS, JCT, THROUGHPUT, WAITING, About, Check
from testbed.base.plugins import plugged
from testbed.evidence.bounds import Bounds
from testbed.fidelity import (
    aggregators,
    cpu,
    delay,
    drops,
    events,
    link_rate,
    lower_bound,
    nodes,
    own,
    pacing,
    quota,
    read_back,
    retransmissions,
    run_queue,
    timers,
    underlay,
    wire,
)
from testbed.fidelity.known_errors import known_errors, row_name
from testbed.fidelity.seen import Seen
from testbed.perturb.kinds.base import STEPS
from testbed.workloads.kinds import kinds
from testbed.workloads.sync.cost import goodput

KINDS = (
    *(link_rate, delay, cpu, quota, run_queue, timers, aggregators, pacing, wire, drops, retransmissions, read_back),
    *(events, lower_bound, nodes, underlay, own),
)
"""Modules of the checks: each has what its check sees and misses (``ABOUT``), and its ``checks`` of a trial, none where
it does not apply."""


OF_MODELS = (wire, events, lower_bound, own)
"""The checks that hold in simulated time, too; the others are of a machine."""


class CheckModule(Protocol):
    """A module, or an object like one, that an entry point ``testbed.checks`` names."""

    ABOUT: About

    def checks(self, seen: Seen) -> Iterable[Check]:
        """Make the checks of a finished trial; none where it does not apply."""


@cache
def modules() -> tuple[Any, ...]:
    """List the modules that come with testbed, and then those that installed packages add."""
    return (*KINDS, *plugged("checks").values())


def abouts() -> tuple[About, ...]:
    """List what a reader should know of each check."""
    found = [about for one in modules() for about in vars(one).values() if isinstance(about, About)]
    own = [kind.own_checks.abouts for kind in kinds().values() if kind.own_checks is not None]
    return (*found, *chain.from_iterable(own))


SOUND = (lower_bound.ABOUT.name, wire.ABOUT.name, read_back.ABOUT.name)
"""Names of the checks that must have been made, and have passed, for a bound to be trusted."""
FASTEST = 1.01
"""Most of what its rate allows that any burst may have reached for that. Bursts of one second over links of 50 to 500
Mbit/s came within 0.2 % of iperf3's rate."""


@dataclass(frozen=True)
class Error:
    """Error of a number: the share by which it is off at most, and the bound (s) that this is computed from. For
    exposed waiting, which can be zero, the share is of an iteration."""

    share: float
    bound_s: float


def judge(seen: Seen) -> dict[str, Any]:
    """Judge a trial: all its checks and the verdicts of its numbers, as its JSON holds them."""
    if seen.is_simulated:
        return _of_model(seen)
    checks = [check for one in modules() for check in one.checks(seen)]
    reported = NUMBERS if seen.samples is not None else (JCT,)
    errors = errors_of(seen) if _is_sound(seen, checks) else {}
    return verdicts(checks, reported, errors, seen.trial.spec.certify)


def _of_model(seen: Seen) -> dict[str, Any]:
    """Judge a trial in simulated time. Its links carry what theory says and its numbers respect their bounds, or the
    model is wrong. Nothing makes a number VALID. The error of GST is the worst one that is known of the scheme, alone
    or beside the same schemes. No error is known with flows of others, circuits that move or steps that jitter, and
    where the next forward pass decides what is sent or computed first."""
    checks = [check for one in OF_MODELS for check in one.checks(seen)]
    judged = verdicts(checks, NUMBERS, {}, 0.0)
    perturbations = seen.trial.network.perturbations
    is_disturbed = bool(seen.trial.background) or any(
        perturbation.moves_circuits or STEPS in perturbation.effects for perturbation in perturbations
    )
    of_schemes = seen.job.kind.simulation.is_of_schemes
    is_in_order = of_schemes and seen.job.work.overlap != "both" and seen.job.work.priority == "none"
    if is_in_order and not is_disturbed:  # as the trials that errors are known from
        others = [job.written_scheme for job in seen.trial.jobs if job.name != seen.job.name]
        judged["numbers"][GST]["error"] = known_errors().get(row_name(seen.job.written_scheme, others), {}).get("worst")
    for number in judged["numbers"].values():
        number["verdict"] = SIMULATED if number["verdict"] == VALID else number["verdict"]
    return judged | {"verdict": joint_verdict(number["verdict"] for number in judged["numbers"].values())}


def verdicts(
    checks: Sequence[Check], reported: Sequence[str], errors: Mapping[str, Error], certify: float
) -> dict[str, Any]:
    """Judge the numbers that a trial reports by its checks; errors of at most ``certify`` certify a number."""
    numbers: dict[str, dict[str, Any]] = {}
    for name in reported:
        error = errors.get(name)
        certified = error is not None and error.share <= certify
        failed = [check for check in checks if not check.ok and name in check.threatens]
        spoilt_by = [check.name for check in failed if not (certified and check.machine)]
        unwatched = [check.name for check in checks if check.needed and not check.watched and name in check.threatens]
        numbers[name] = {
            "verdict": INVALID if spoilt_by else UNWATCHED if unwatched and not certified else VALID,
            "error": None if error is None else error.share,
            "bound_s": None if error is None else error.bound_s,
            "certified": certified and not spoilt_by,
            "spoilt_by": spoilt_by,
            "excused": [check.name for check in failed if certified and check.machine],
            "unwatched": unwatched,
        }
    return {
        "verdict": joint_verdict(number["verdict"] for number in numbers.values()),
        "numbers": numbers,
        "checks": [asdict(check) for check in checks],
    }


def _is_sound(seen: Seen, checks: Sequence[Check]) -> bool:
    """Whether the bounds of a trial's numbers can be trusted."""
    looked = {check.name for check in checks if check.ok and check.value is not None}
    fastest = max(link_rate.shares(seen.rates, goodput(seen.trial.spec.links.mtu)), default=0.0)
    return seen.bounds is not None and looked.issuperset(SOUND) and fastest <= FASTEST


def errors_of(seen: Seen) -> dict[str, Error]:
    """Error of each number that has a bound; a median's or a sum's is that of the number itself."""
    if seen.bounds is None:
        return {}
    found: dict[str, Error] = {}
    warmup = seen.job.work.warmup
    gst_s = metrics.gst_s(seen.every, warmup) + seen.clocks_s
    if error := _median_error(gst_s, seen.bounds.gst_s):
        # A worker that was late lets the others send before GST begins.
        earlier = float((gst_s + _late_s(seen.every)).median() / gst_s.median() - 1)
        found[GST] = Error(max(error.share, earlier), error.bound_s)
    if seen.bounds.iteration_s is None or seen.bounds.jct_s is None:
        return found
    if error := _median_error(metrics.iterations_s(seen.every, warmup) + seen.clocks_s, seen.bounds.iteration_s):
        found[ITERATIONS] = error
    if seen.bounds.jct_s > 0:
        jct_s = metrics.jct_s(seen.every) + seen.clocks_s * seen.job.iterations
        over = jct_s / seen.bounds.jct_s - 1
        found[JCT] = Error(abs(over), seen.bounds.jct_s)
        found[THROUGHPUT] = Error(abs(over / (1 + over)), seen.bounds.jct_s)
    if error := _waiting_error(seen, seen.bounds):
        found[WAITING] = error
    return found


def _late_s(samples: pd.DataFrame) -> pd.Series[float]:
    """Seconds by which the last worker's gradient came later in each iteration than if all had kept their pace."""
    last_s = samples.assign(due_s=samples["ready_s"] - samples["overrun_s"]).groupby("iteration")
    return last_s["ready_s"].max() - last_s["due_s"].max()


def _waiting_error(seen: Seen, bounds: Bounds) -> Error | None:
    """Error of exposed waiting, a mean over iterations and workers.

    Waiting that is too long makes the iteration longer by as much, so it is too long by no more than iterations are. It
    is too short if workers overran their pace while they would have waited: by the difference between what the paces
    ask for and what was measured. To both is added the longest time by which a worker can have the sum before another.
    """
    warmup = seen.job.work.warmup
    if bounds.waits_s is None or bounds.lead_s is None or bounds.iteration_s is None:
        return None
    taken_s = metrics.iterations_s(seen.every, warmup) + seen.clocks_s
    least_s = float(bounds.iteration_s.reindex(taken_s.index).mean())
    if not least_s > 0:
        return None
    waited_s = float(np.nanmean(metrics.waits_s(seen.every, warmup)))
    asked_s = float(np.nanmean(bounds.waits_s.iloc[warmup:]))
    lacks_s = asked_s - waited_s + seen.clocks_s
    lead_s = float(bounds.lead_s.reindex(taken_s.index).mean())
    return Error(max(abs(float(taken_s.mean()) / least_s - 1), lacks_s / least_s) + lead_s / least_s, asked_s)


def _median_error(taken_s: pd.Series[float], bound_s: pd.Series[float]) -> Error | None:
    """Error of a median over iterations: it is at least the median of the bounds, whichever iteration either is of."""
    least_s = float(bound_s.reindex(taken_s.index).median())
    return Error(abs(float(taken_s.median()) / least_s - 1), least_s) if least_s > 0 else None


def reasons(fidelity: Mapping[str, Any]) -> str:
    """Say in one line why a trial is INVALID or UNWATCHED; empty for a VALID one."""
    return "; ".join(f"{check['name']}: {check['detail']}" for check in (*failed(fidelity), *missing(fidelity)))


def missing(fidelity: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """List the checks that were not made and leave a number UNWATCHED."""
    numbers = (fidelity.get("numbers") or {}).values()
    names = {name for number in numbers if number["verdict"] == UNWATCHED for name in number["unwatched"]}
    return (check for check in fidelity.get("checks", ()) if not check.get("watched", True) and check["name"] in names)


def failed(fidelity: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """List the checks that make a number INVALID; of an older record, which has one verdict, those that failed."""
    checks = fidelity.get("checks", ())
    numbers = fidelity.get("numbers")
    if numbers is None:
        return (check for check in checks if not check["ok"])
    spoilt_by = {name for number in numbers.values() for name in number["spoilt_by"]}
    return (check for check in checks if not check["ok"] and check["name"] in spoilt_by)


def told(fidelity: Mapping[str, Any]) -> str:
    """Say in one line what failed and makes no number INVALID, as the numbers that it threatens are certified."""
    held = {check["name"] for check in failed(fidelity)}
    others = [check for check in fidelity.get("checks", ()) if not check["ok"] and check["name"] not in held]
    return "; ".join(f"{check['name']}: {check['detail']}" for check in others)


def only_the_machine(fidelity: Mapping[str, Any]) -> bool:
    """Whether a trial is INVALID, and by nothing but findings about the machine."""
    found = list(failed(fidelity))
    return fidelity["verdict"] == INVALID and bool(found) and all(check.get("machine", False) for check in found)
