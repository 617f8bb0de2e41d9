"""Packages for tests to install: the files of a distribution, and processes that see it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


def install(folder: Path, groups: Mapping[str, Mapping[str, str]]) -> None:
    """Make a distribution of a folder, with these entry points by group; modules are files that lie there."""
    info = folder / "other-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    lines = [[f"[{group}]", *(f"{name} = {of}" for name, of in points.items())] for group, points in groups.items()]
    (info / "entry_points.txt").write_text("".join("\n".join([*some, ""]) for some in lines))


def install_page(page: Path, folder: Path) -> None:
    """Make a distribution of the files that a page of the documentation shows; its spec is ``spec.yaml``."""
    text = page.read_text()
    for name, code in re.findall(r"`(\w+\.py)`[^\n]*:\n\n```python\n(.*?)```", text, re.S):
        (folder / name).write_text(code)
    (spec,) = re.findall(r"```yaml plugged\n(.*?)```", text, re.S)
    (folder / "spec.yaml").write_text(spec + "retries: 0\nquiet: 0 s\n")
    (points,) = re.findall(r"```toml\n(.*?)```", text, re.S)
    install(folder, tomllib.loads(points)["project"]["entry-points"])


def python(folder: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own that sees what is installed in ``folder``: entry points are looked up once."""
    return subprocess.run(
        [sys.executable, "-P", *words],
        cwd=cwd or folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@dataclass(frozen=True)
class Called:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


ONE_AFTER_THE_OTHER = """
import contextlib, io, json, sys
from testbed.cli import main
found = []
for words in json.loads(sys.argv[1]):
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["testbed", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    found.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(found))
"""


def commands(folder: Path, *commands: tuple[str, ...]) -> list[Called]:
    """Command lines of testbed one after the other in one process, which imports everything once, as :func:`python`
    starts it."""
    done = python(folder, "-c", ONE_AFTER_THE_OTHER, json.dumps(commands))
    assert done.returncode == 0, done.stderr
    return [Called(*one) for one in json.loads(done.stdout)]
