"""How long a trial's way through the code is: ``python -P benchmarks/way_of_a_trial.py``.

Prints lines and imports of ``testbed/execution/execute.py``, the types that say what was seen, the lines of
``testbed/execution`` that ask of which sort a job is, and, of one trial in a lab, through how many modules of testbed
its way leads, and how often it leads back: from one module into another that is still at work.
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from pathlib import Path
from types import FrameType

from testbed.evidence.referee import Referee
from testbed.execution import execute as executing
from testbed.experiment.expand import trials
from testbed.lab.netns import NetnsLab
from testbed.spec import read

ROOT = Path(executing.__file__).parents[2]
SEEN = ("Observation", "Observed", "Ran", "Told", "Seen", "Evidence", "Outcome")
SORTS = re.compile(r"\.(is_synchronised|is_shared|slot)\b")
SPEC = """\
name: way
links: {rate: 1 Gbit/s}
workload: {kind: profile, model: lenet5, batch: 32, iterations: 3, compute: none}
arms: [{topology: star(hosts=3), scheme: ring}]
"""


class Way:
    """Modules of testbed that a call goes through, in this thread; counted from ``with`` to its end."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.back: set[tuple[str, str]] = set()
        self._stack: list[str] = []

    def __enter__(self) -> Way:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith("testbed.") or event not in ("call", "return"):
            return
        if event == "return":
            if self._stack:
                self._stack.pop()
            return
        if self._stack and self._stack[-1] != name and name in self._stack:
            self.back.add((self._stack[-1], name))
        self.modules.add(name)
        self._stack.append(name)


def main() -> None:
    """Count all of it."""
    text = (ROOT / "testbed/execution/execute.py").read_text()
    imports = [one for one in ast.parse(text).body if isinstance(one, ast.Import | ast.ImportFrom)]
    own = [one for one in imports if isinstance(one, ast.ImportFrom) and str(one.module).startswith("testbed")]
    print(f"execute.py: {len(text.splitlines())} lines, {len(imports)} imports, {len(own)} of them of testbed")
    sources = [path for top in ("testbed", "workloads") for path in (ROOT / top).rglob("*.py")]
    found = {name for path in sources for name in SEEN if re.search(rf"^class {name}\b", path.read_text(), re.M)}
    print(f"types that say what was seen: {', '.join(name for name in SEEN if name in found)}")
    asked = [
        line
        for path in (ROOT / "testbed/execution").glob("*.py")
        for line in path.read_text().splitlines()
        if SORTS.search(line)
    ]
    print(f"lines of testbed/execution that ask of which sort a job is: {len(asked)}")
    (trial,) = trials(read(SPEC, "way", Path()))
    with tempfile.TemporaryDirectory() as folder, NetnsLab() as lab, Referee() as referee:
        try:
            from testbed.execution.place import InLab
        except ImportError:  # a version before places
            place = lab
        else:
            place = InLab(lab)  # type: ignore[assignment]
        with Way() as way:
            done = executing.execute(trial, place, referee, Path(folder), "reno", lambda *_: None)  # type: ignore[arg-type]
    print(f"a trial: {done.record['status']}; {len(way.modules)} modules, {len(way.back)} ways back")


if __name__ == "__main__":
    main()
