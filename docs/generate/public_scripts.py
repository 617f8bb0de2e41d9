"""The page of public scripts, from ``benchmarks/public_scripts.yaml``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from docs.generate.benchmarks import FOLDER
from docs.generate.markdown import table

INTRODUCTION = """\
# Public scripts

Training scripts of public repositories, changed only as the table says, on {hosts} hosts: without a scheme (plain
PyTorch), and under `gloo`, `ring`, `bml` and `switchml`. In each arm the loss that each rank gives to
each `backward()` was compared with that under plain PyTorch. *Same* means that no loss differs by more than 0.0001 of
it. {same} of the {run} scripts that were run have the same losses in all arms. Of the others, {expected} end
as expected in each arm: they check their results themselves, or are refused.

*Needed* says what a script needed on machines without a GPU and without a network. Commands are short here:
`benchmarks/public_scripts.yaml` has the whole ones, the changed lines and the commits. `benchmarks/public_scripts.py`
runs them. Rows of it that have not run yet: {left}.

"""
ARMS = ("gloo", "ring", "bml", "switchml")
_DOTTED = re.compile(r"\w+(?:\.\w+){2,}")
"""A name of Python, which as code wraps in a narrow column."""


def page() -> str:
    rows = yaml.safe_load((FOLDER / "public_scripts.yaml").read_text())
    run = [row for row in rows if "seen" in row]
    hosts = " or ".join(sorted({str(row.get("hosts", 4)) for row in run}))
    same = sum(all(row["seen"].get(arm) == "same" for arm in ARMS) for row in run)
    expected = sum("expected" in row and all(row["expected"] in row["seen"][arm] for arm in ARMS) for row in run)
    heads = ("repository", "script", "needed", "backward passes", *ARMS)
    left = len(rows) - len(run)
    introduction = INTRODUCTION.format(hosts=hosts, same=same, expected=expected, run=len(run), left=left)
    return introduction + table(heads, map(_row, run))


def _row(row: Mapping[str, Any]) -> Sequence[str]:
    seen = {arm: _short(outcome) for arm, outcome in row["seen"].items()}
    launched = " ".join(row["command"].split())
    plain = seen.pop("plain", "").removesuffix(" losses")
    each = (seen.get(arm, "not run") for arm in ARMS)
    place = "/".join(filter(None, (row["repository"], row.get("folder"))))
    return (f"`{place}`", f"`{_script(launched)}`", row.get("needed", "nothing"), plain, *each)


def _script(command: str) -> str:
    """The script, and the options by which scripts of one name differ."""
    name = re.search(r"\S+\.py|-m (\S+)", command)
    assert name is not None, command
    more = re.findall(r"--(?:stage|collective|deepspeed) \S+", command)
    return " ".join([name[1] or name[0], *more])


def _short(outcome: str) -> str:
    return _DOTTED.sub(r"`\g<0>`", " ".join(outcome.replace("|", "/").split())[:200])
