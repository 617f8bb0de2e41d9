"""Public training scripts, unchanged, in each arm: are their losses those of plain PyTorch?

    python benchmarks/public_scripts.py CHECKOUTS --python VENV/bin/python
    python benchmarks/public_scripts.py CHECKOUTS --python VENV/bin/python --only nanoGPT --write

CHECKOUTS has a git clone of each repository, in a folder with the repository's name. VENV has the packages that the
scripts import. ``benchmarks/public_scripts.yaml`` lists the scripts: the command, and what each needed, such as small
data that this benchmark makes where a script would download some. ``--write`` records the outcomes there; the page of
public scripts is made from it.

Each row runs on four hosts, or on two: without a scheme (plain PyTorch), and under ``gloo``, ``ring``, ``bml`` and
``switchml``.
A hook in the scripts' Python prints the loss that each rank gives to each ``backward()``, and seeds random numbers
with the rank, since some scripts do not. The figure is the largest difference from the loss under plain PyTorch,
relative to it, of all backward passes of all ranks.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from rich.console import Console

from testbed.base.columns import columns
from testbed.base.errors import TestbedError
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.spec import read
from testbed.spec.workload.launchers import without_launcher

TABLE = Path(__file__).with_suffix(".yaml")
PLAIN = "plain"
ARMS = {
    PLAIN: "{{topology: star(hosts={hosts})}}",
    "gloo": "{{topology: star(hosts={hosts}), scheme: gloo}}",
    "ring": "{{topology: star(hosts={hosts}), scheme: ring}}",
    "bml": '{{topology: "bcube(n=2,k={levels})", scheme: bml}}',
    "switchml": '{{topology: "star(hosts={hosts},ina=all)", scheme: switchml}}',
}
LARGEST_DIFFERENCE = 1e-4
"""Largest relative difference of losses that count as the same."""
ALIKE, LOSSES, NO_LOSSES = "same", "losses", "no losses"
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
HOOK = '''
import importlib.util
import os
import sys


class Torch:
    """Finder of modules that watches losses once PyTorch is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        sys.meta_path.insert(0, self)  # some only ask whether PyTorch is there
        execute = spec.loader.exec_module

        def executed(module):
            sys.meta_path.remove(self)
            execute(module)
            watch(module)

        spec.loader.exec_module = executed
        return spec


def watch(torch):
    torch.manual_seed(int(os.environ["RANK"]))
    backward = torch.autograd.backward

    def printing(tensors, *arguments, **named):
        several = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        for tensor in several:
            if tensor.numel() == 1:
                number = tensor.detach()
                number = float(number.to_local() if hasattr(number, "to_local") else number)
                print(f"\\nbackward-of {number!r} .", flush=True)
        return backward(tensors, *arguments, **named)

    torch.autograd.backward = printing


if "RANK" in os.environ:
    import random

    random.seed(int(os.environ["RANK"]))
    sys.meta_path.insert(0, Torch())
'''
SPEC = """
name: public
links: {{rate: 1 Gbit/s}}
workload:
  kind: command
  command: {command}
  python: {python}
  metrics: {{passed: 'backward-of ([-+.0-9a-z]+) \\.'}}
arms: {arms}
timeout: 120 s
start_timeout: 300 s
retries: 0
quiet: 0
"""

Row = dict[str, Any]
Losses = Sequence[Sequence[float]]
"""Losses of each rank, in the order of its backward passes."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--python", type=Path, required=True, help="of an environment with what scripts import")
    parser.add_argument("--only", default="", help="rows whose repository, folder or command contains this")
    parser.add_argument("--arm", action="append", choices=list(ARMS), help="besides plain; all by default")
    parser.add_argument("--left", action="store_true", help="only rows without outcomes")
    parser.add_argument("--write", action="store_true", help="record the outcomes in the table")
    asked = parser.parse_args()
    table: list[Row] = yaml.safe_load(TABLE.read_text())
    rows = [row for row in table if asked.only in f"{row['repository']}/{row.get('folder', '')} {row['command']}"]
    rows = [row for row in rows if not (asked.left and "seen" in row)]
    arms = [PLAIN, *(asked.arm or [name for name in ARMS if name != PLAIN])]
    lines = []
    os.environ |= OFFLINE | {"PATH": os.pathsep.join((str(asked.python.parent), os.environ["PATH"]))}
    with tempfile.TemporaryDirectory(dir=asked.checkouts) as folder:  # ranks see no file below /tmp
        # At the same path each time: ninja builds extensions again if the path of Python differs.
        python = layered(asked.checkouts.resolve() / "layered-python", asked.python)
        for number, row in enumerate(rows):
            work = Path(folder) / str(number)
            row["commit"] = prepared(row, asked.checkouts, work, python)
            row["seen"] = seen(row, work, python, arms[1:] if "expected" in row else arms)
            print(row["repository"], row["command"], row["seen"], sep="  ", file=sys.stderr, flush=True)
            lines.append([row["repository"], row["command"][:60], *(row["seen"].get(arm, "") for arm in arms)])
            if asked.write:
                _write(row)
    print(columns(("repository", "command", *arms), lines, left=2))
    as_expected = [row for row in rows if is_good(row)]
    print(f"{len(as_expected)} of {len(rows)} scripts end as expected in each arm, with plain PyTorch's losses")
    return 0 if len(as_expected) == len(rows) else 1


def is_good(row: Row) -> bool:
    """Whether all arms ended alike, or as the row expects it of arms with a scheme."""
    outcomes = [outcome for arm, outcome in row["seen"].items() if arm != PLAIN]
    if "expected" in row:
        return all(row["expected"] in outcome for outcome in outcomes)
    return all(outcome == ALIKE for outcome in outcomes) and row["seen"].get(PLAIN, "").endswith(LOSSES)


def _write(row: Row) -> None:
    """Record a row's outcomes in the table, which may have changed since it was read."""
    comment = TABLE.read_text().partition("\n- ")[0]
    table: list[Row] = yaml.safe_load(TABLE.read_text())
    for old in table:
        if all(old.get(key) == row.get(key) for key in ("repository", "folder", "command")):
            old |= {"commit": row["commit"], "seen": old.get("seen", {}) | row["seen"]}
    rows = [yaml.safe_dump([each], sort_keys=False, width=120) for each in table]
    TABLE.write_text("\n".join([comment, *rows]))


# What a script runs in


def layered(folder: Path, python: Path) -> Path:
    """Make an environment that has another one's packages, and the hook."""
    subprocess.run([python, "-P", "-m", "venv", "--clear", "--without-pip", folder], check=True)
    below = "import sysconfig; print(sysconfig.get_path('purelib'))"
    other, own = (
        subprocess.run([one, "-P", "-c", below], check=True, capture_output=True, text=True).stdout.strip()
        for one in (python, folder / "bin" / "python")
    )
    (Path(own) / "losses_of_scripts.py").write_text(HOOK)
    (Path(own) / "layer.pth").write_text(f"import site; site.addsitedir({other!r})\nimport losses_of_scripts\n")
    return folder / "bin" / "python"


def prepared(row: Row, checkouts: Path, work: Path, python: Path) -> str:
    """Put a fresh copy of the script's folder into ``work``, with the data it needs; return its commit."""
    clone = checkouts / row["repository"].partition("/")[2]
    commit = subprocess.run(
        ["git", "-C", clone, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    packed = subprocess.run(
        ["git", "-C", clone, "archive", f"HEAD:{row.get('folder', '')}"], check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(work / row.get("into", ""), filter="data")
    for name, changes in row.get("edits", {}).items():
        text = (work / name).read_text()
        for old, new in changes.items():
            if old not in text:
                raise SystemExit(f"{row['repository']} {name} has no line {old!r}")
            text = text.replace(old, new)
        (work / name).write_text(text)
    for made, folder in row.get("data", {}).items():
        maker = Path(__file__).with_name("public_data.py").resolve()
        subprocess.run([python, maker, made, folder], check=True, cwd=work)
    return commit


# Arms


def seen(row: Row, work: Path, python: Path, arms: Sequence[str]) -> dict[str, str]:
    """The outcome by arm. Without a scheme the script runs as its launcher would start it."""
    outcomes: dict[str, str] = {}
    plain: Losses = []
    hosts = row.get("hosts", 4)
    started = without_launcher(shlex.split(row["command"]), hosts)
    for arm in arms:
        command, environment = row["command"], dict[str, str]()
        if arm == PLAIN:
            command, environment = shlex.join(started.words), dict(started.environment)
        with patch.dict(os.environ, environment):
            record = _run(command, python, ARMS[arm].format(hosts=hosts, levels=hosts // 2), work)
        if record["status"] != "done":
            outcomes[arm] = f"{record['status']}: {str(record['error']).splitlines()[0]}"
            if arm == PLAIN:
                break  # nothing to compare with
            continue
        losses = record["logged"].get("passed", [])
        if arm == PLAIN:
            plain = losses
            outcomes[arm] = f"{sum(map(len, losses))} {LOSSES}"
        else:
            outcomes[arm] = compared(losses, plain)
    return outcomes


def _run(command: str, python: Path, arm: str, work: Path) -> Mapping[str, Any]:
    """The record of a trial; one with ``status: refused`` if its spec is."""
    try:
        source = read(SPEC.format(command=json.dumps(command), python=python, arms=f"[{arm}]"), "public", work)
        with Experiment.new(source, Path(tempfile.mkdtemp(dir=work.parent)) / "run") as experiment:
            return experiment.go(lambda trials: Lines(trials, Console(stderr=True))).records[0]
    except TestbedError as error:
        return {"status": "refused", "error": str(error)}


def compared(losses: Losses, plain: Losses) -> str:
    if not any(losses) and not any(plain):
        return NO_LOSSES
    if [len(rank) for rank in losses] != [len(rank) for rank in plain]:
        return f"apart: {sum(map(len, losses))} losses, plain has {sum(map(len, plain))}"
    pairs = [(ours, theirs) for pair in zip(losses, plain, strict=True) for ours, theirs in zip(*pair, strict=True)]
    apart = max((_apart(*pair) for pair in pairs), default=0.0)
    return ALIKE if apart <= LARGEST_DIFFERENCE else f"{apart:.1e} apart"


def _apart(ours: float, theirs: float) -> float:
    if not (math.isfinite(ours) and math.isfinite(theirs)):
        return 0.0 if str(ours) == str(theirs) else math.inf
    return abs(ours - theirs) / max(abs(theirs), 1e-9)


if __name__ == "__main__":
    sys.exit(main())
