"""A new metric is one line beside the code that makes it: the dictionary, the columns of results.csv, the reader with
its bounds, the schema and the empty record have it by that.

Each test runs testbed with the lines of docs/extend/metric.md, and with nothing else changed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs/extend/metric.md"
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
LONGER = '''
import json, sys
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

RECORD = "testbed.analysis.record"
LINES = json.loads(sys.argv[1])


class Longer(SourceFileLoader):
    """Loads a module with one line more."""

    def get_code(self, name):
        source, (before, line) = self.get_source(name), LINES[name]
        assert source.count(before) == 1
        return compile(source.replace(before, line + before), self.path, "exec")


class Finder(PathFinder):
    """Finds such a module."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target) if name in LINES else None
        if spec is not None:
            spec.loader = Longer(name, spec.origin)
        return spec


sys.meta_path.insert(0, Finder)

sys.path.insert(0, sys.argv[2])

from testbed.analysis import dictionary, schema
from testbed.files.shape import check
from tests.record_faults import faults


def refused(value):
    """The error of a reader."""
    try:
        check(value, schema.RECORD)
    except ValueError as error:
        return str(error)
    return None


'''
METRIC = """
import pandas as pd

from testbed.analysis.load import load
from testbed.execution import results
from testbed.experiment.expand import trials
from testbed.recovery.deaths import undisturbed
from testbed.spec import read

(trial,) = trials(read(Path("spec.yaml").read_text(), "spec.yaml", Path()))
samples = {"rank": [0, 1], "iteration": [0, 0], "start_s": 0.0, "ready_s": 1.0, "sum_s": 1.5, "end_s": 2.0}
samples = pd.DataFrame(samples | {"compute_s": [0.25, 0.75]})
metrics = results.measure(trial.job, samples, undisturbed(trial.job).phases, None, None)
path = Path("run/trials/ps-b16.json")
record = json.loads(path.read_text()) | {"metrics": metrics}
path.write_text(json.dumps(record))
results.save_csv(Path("results.csv"), [record])
table = pd.read_csv("results.csv")
field = dictionary.RECORD["metrics.idle_s"]
told = {
    "made": metrics["idle_s"],
    "read": [trial.metrics.idle_s for trial in load(Path("run"), samples=False).trials][:2],
    "csv": [table.columns[-1], *table["idle_s"]],
    "dictionary": [field.kind.name, field.unit, field.meaning],
    "results.csv": dictionary.RESULTS["idle_s"] is field,
    "faults": faults({"metrics": metrics}) + faults({"metrics": {"idle_s": "x"}}),
    "refused": refused({"metrics": {"idle_s": "soon"}}),
}
print(json.dumps(told))
"""
SPEC = """
name: lonely
links: {rate: 100 Mbit/s}
workload: {kind: profile, model: resnet50, scale: 100, batch: 32, iterations: 1, warmup: 0, compute: none}
arms: [{topology: star(hosts=2), scheme: ring}]
"""
FIELD = """
from testbed.analysis.record.fields import blank_of, read
from testbed.analysis.record.trial import TrialRecord

needed = dict.fromkeys(("id", "label", "topology", "scheme"), "x") | dict.fromkeys(("batch", "iterations", "world"), 1)
told = {
    "blank": [blank_of(TrialRecord, {}, of_job=of_job)["cooled"] for of_job in (False, True)],
    "read": [read(TrialRecord, needed | more).cooled for more in ({}, {"cooled": [True, False]})],
    "dictionary": dictionary.RECORD["cooled[]"].meaning,
    "refused": [refused({"cooled": ["x"]}), refused({"jobs": [{"cooled": ["x"]}]})],
}
print(json.dumps(told))
"""
BEHIND_THE_FIELDS = "\n    @classmethod\n    def current"


def told(folder: Path, lines: dict[str, tuple[str, str]], code: str) -> dict[str, Any]:
    """The output of testbed with a line more in some modules: by module, the text behind it, and the line."""
    command = [sys.executable, "-P", "-c", LONGER + code, json.dumps(lines), str(PAGE.parents[2])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_metric_is_one_line_beside_the_code_that_makes_it(run_dir: Path) -> None:
    made, declared = PYTHON.findall(PAGE.read_text())
    assert [text.count("\n") for text in (made, declared)] == [1, 1]
    lines = {
        "testbed.analysis.record.metrics": (BEHIND_THE_FIELDS, declared),
        "testbed.execution.results": ('        "gst_median_s": median,\n', made),
    }
    folder = run_dir.rename(run_dir.with_name("run")).parent
    (folder / "spec.yaml").write_text(SPEC)
    assert told(folder, lines, METRIC) == {
        "made": 1.25,
        "read": [1.25, None],
        "csv": ["idle_s", 1.25],
        "dictionary": ["finite number", "s", "how long nobody computed"],
        "results.csv": True,
        "faults": ["metrics.idle_s is 'x', no finite number"],
        "refused": "metrics.idle_s is 'soon', no finite number",
    }


def test_a_field_of_trials_is_one_line(tmp_path: Path) -> None:
    line = '    cooled: tuple[bool, ...] = optional("whether each host was cool", default=(), blank=[])\n'
    behind = "    jobs = unread(list[Slot]"
    assert told(tmp_path, {"testbed.analysis.record.trial": (behind, line)}, FIELD) == {
        "blank": [[], []],
        "read": [[], [True, False]],
        "dictionary": "whether each host was cool",
        "refused": ["cooled.0 is 'x', no true or false", "jobs.0.cooled.0 is 'x', no true or false"],
    }
