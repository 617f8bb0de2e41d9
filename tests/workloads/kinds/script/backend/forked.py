"""Starts the ranks of a script as forks of this process, which has imported PyTorch for all of them.

Usage: ``python forked.py RANKS.json SCRIPT ARGUMENTS...``; by rank, the file has its environment and its log's path. It
ends when all ranks have, and prints their exit statuses.
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


def main(ranks: Path, words: list[str]) -> None:
    """In a rank it returns, so that Python ends as after any script."""
    for name in os.environ.get(IMPORTS, "").split():
        importlib.import_module(name)
    pids = []
    gc.freeze()  # what was imported: each rank's collections, and the last ones when it ends, would look through it
    for one in json.loads(ranks.read_text()):
        pid = os.fork()
        if pid == 0:
            become(one["environment"], one["log"], words)
            return
        pids.append(pid)
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]))


def become(environment: dict[str, str], log: str, words: list[str]) -> None:
    """Be the rank: what ``import torch`` would have done in its environment is done, and the script runs."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.environ.update(environment)
    autoload()
    sys.argv = words
    sys.path[0] = str(Path(words[0]).parent)
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
