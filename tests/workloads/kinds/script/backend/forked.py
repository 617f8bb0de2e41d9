"""Starts the ranks of scripts as forks of this process, which has imported PyTorch for all of them.

Usage: ``python forked.py``. Each line of its input is a list, as JSON: a file, a script and its arguments. By rank, the
file has its environment and its log's path. When all ranks of a line have ended, their exit statuses are printed.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import sys
from pathlib import Path

import torch.distributed  # noqa: F401

from testbed.autoload import autoload

IMPORTS = "TESTBED_TEST_IMPORTS"
"""Variable with the names of more modules that are imported for all."""


def main() -> None:
    """In a rank it returns, so that Python ends as after any script."""
    for name in os.environ.get(IMPORTS, "").split():
        importlib.import_module(name)
    gc.freeze()  # what was imported: each rank's collections, and the last ones when it ends, would look through it
    for line in sys.stdin:
        ranks, *words = json.loads(line)
        pids = []
        for rank in json.loads(Path(ranks).read_text()):
            pid = os.fork()
            if pid == 0:
                become(rank["environment"], rank["log"], words)
                return
            pids.append(pid)
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]), flush=True)


def become(environment: dict[str, str], log: str, words: list[str]) -> None:
    """Be the rank: what ``import torch`` would have done in its environment is done, and the script runs."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    file = os.open(log, os.O_WRONLY | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.environ.update(environment)
    autoload()
    sys.argv = words
    sys.path[0] = str(Path(words[0]).parent)
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
