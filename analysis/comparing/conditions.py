"""Whether two sides were measured under the same conditions, and what differs where they were not.

What only one side knows is no difference: an older version of testbed, or a spec of another kind, has fewer names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.analysis.comparing.measured import ARM, Side, plain
from testbed.base.errors import IncomparableError, OutputError, UsageError
from testbed.base.units import rate_text, size_text, time_text

NEEDED = ("kernel", "cpu.model", "cpu.cores", "lab", "links.rate_bps", "schema")
"""Without these nobody can say whether two sides are alike."""
WRITTEN: Mapping[str, Callable[[float], str]] = {"_bps": rate_text, "_s": time_text, "_bytes": size_text}
"""Functions that write a condition's value, by the end of its name."""
OPTIONAL = re.compile(r"links\..+\..+")
"""Names that a side has only if its spec does: links of their own, and marking."""
Pairs = Sequence[tuple[str, str]]
"""(label in BASE, label in NEW) of the arms that are compared."""


@dataclass(frozen=True)
class Difference:
    """One condition that is not the same on both sides, its name as ``--allow`` takes it and its values as text."""

    name: str
    base: str
    new: str
    arm: str = ""
    """Label of the arm whose condition it is; empty if it is everybody's."""

    def sentence(self, base: str, new: str) -> str:
        """Say what differs, with the sides' names."""
        of = f" of arm {self.arm}" if self.arm else ""
        return f"{self.name}{of}: {self.base} in {base}, {self.new} in {new}"


def check(base: Side, new: Side, arms: Pairs, allowed: Collection[str]) -> list[Difference]:
    """The differences that are ``allowed``: a name such as ``kernel``, or the beginning of several, such as ``cpu``.

    Raises:
        IncomparableError: others were found; all are named, with both values.
        UsageError: nothing is called like one of those allowed.
        OutputError: a side does not say under which conditions it was measured.
    """
    for side in (base, new):
        lacking = [name for name in NEEDED if name not in side.conditions]
        if lacking:
            raise OutputError(
                f"{side.name}: damaged, does not say its {', '.join(lacking)}", fix="measure it again: testbed run SPEC"
            )
    known = {plain(name) for name in (*base.conditions, *new.conditions, *ARM)}
    for name in allowed:
        if not any(_covers(name, one) for one in known):
            raise UsageError(
                f"--allow {name}: there is no such condition",
                fix=f"choose from {', '.join(sorted({one.split('.')[0] for one in known}))}, or one within, such as "
                "links.rate",
            )
    found = list(differences(base, new, arms))
    refused = [one for one in found if not any(_covers(name, one.name) for name in allowed)]
    if refused:
        lines = [f"  {one.sentence(base.name, new.name)}" for one in refused]
        names = dict.fromkeys(one.name for one in refused)
        raise IncomparableError(
            "\n".join([f"the conditions of {base.name} and {new.name} differ:", *lines]),
            fix="measure both on the same machine with the same spec, or compare them all the same: "
            + " ".join(f"--allow {name}" for name in names),
        )
    return found


def differences(base: Side, new: Side, arms: Pairs) -> Iterator[Difference]:
    """Every condition that both sides know, or that is :data:`OPTIONAL`, and that is not the same; of arms, where the
    same label is compared."""
    both = base.conditions.keys() & new.conditions.keys()
    for name in sorted(both | set(filter(OPTIONAL.fullmatch, base.conditions.keys() ^ new.conditions.keys()))):
        before, after = base.conditions.get(name), new.conditions.get(name)
        if before != after:
            yield Difference(plain(name), *_texts(name, before, after))
    for label, other in arms:
        ours, theirs = base.arms.get(label, {}), new.arms.get(other, {})
        for name in ARM if label == other else ():
            if name in ours and name in theirs and ours[name] != theirs[name]:
                yield Difference(plain(name), *_texts(name, ours[name], theirs[name]), label)


def schemes(base: Side, new: Side, arms: Pairs) -> Iterator[Difference]:
    """Arms of the same label whose scheme is another one; that is what may be compared, and so no condition."""
    for label, other in arms:
        before, after = (side.arms.get(name, {}).get("scheme") for side, name in ((base, label), (new, other)))
        if label == other and before != after and None not in (before, after):
            yield Difference("scheme", _said(before), _said(after), label)


def _covers(allowed: str, name: str) -> bool:
    return name == allowed or name.startswith(f"{allowed}.")


def _texts(name: str, before: Any, after: Any) -> tuple[str, str]:
    """Both values as people write them, or as they are where these would look the same."""
    found = _written(name, before), _written(name, after)
    return found if found[0] != found[1] else (_said(before), _said(after))


def _written(name: str, value: Any) -> str:
    write = WRITTEN.get(name.removeprefix(plain(name)))
    return write(value) if write and isinstance(value, int | float) else _said(value)


def _said(value: Any) -> str:
    return "not set" if value is None else " ".join(str(value).split())
