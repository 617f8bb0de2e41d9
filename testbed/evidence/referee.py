"""Referee that checks a trial's weights against those of one process that does the same work: for a model that is
trained, single-process SGD, or, where each gradient is an update of its own, the same updates in the same order. A task
says how (:mod:`testbed.workloads.tasks`). It runs in a process of its own that sleeps while trials are measured.

The process is kept between trials, so that torch is imported and each distinct training is repeated only once. It ends
with its standard input, or with the harness, however that ends.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.base.errors import TrialError, TrialTimeoutError
from testbed.base.python import module_command
from testbed.files.foreign import UnfitError, opened
from testbed.workloads.job import Task
from testbed.workloads.learning.updates import Step, Update, steps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

REFERENCE = "single-process SGD"
ROUNDED = "single-process SGD with gradients rounded to multiples of {:g}"
SIGN_OF_LIFE_S = 1.0
"""Seconds between two signs that the process is still at work."""
HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..{'descr': '<f4', 'fortran_order': False, 'shape': \((\d{1,12}),\), } *\n", re.DOTALL
)
"""Pattern of the header of a .npy file with floats of 32 bits in one dimension. NumPy's own reader takes whatever
Python can write there."""
LONGEST_HEADER_BYTES = 2**10
SILENT_S = 30.0
"""Seconds without such a sign after which it does not run any more."""
_PR_SET_PDEATHSIG = 1


class Referee:
    """Referee, whose process starts when it is first asked; use in ``with``."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Referee:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End its process."""
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def check(
        self,
        training: Task,
        worlds: Sequence[tuple[int, int]],
        mode: str,
        weights: Path,
        scales: Sequence[float | None] = (),
        order: Sequence[Update | Step] | None = None,
    ) -> dict[str, Any]:
        """Judge the weights in a .npy file.

        ``worlds`` are (first iteration, ranks) of each phase, see :data:`testbed.workloads.learning.reference.Worlds`;
        ``scales`` are :data:`testbed.workloads.learning.reference.Scales`; ``order`` is that of updates, where each
        gradient is one, alone or in a sum.

        Returns what the task's ``judged`` finds (:mod:`testbed.workloads.tasks`).

        Raises:
            TrialError: the process died, or the file holds no weights.
        """
        if self._process is None or self._process.poll() is not None:
            command = module_command("testbed.evidence.referee", str(os.getpid()))
            # A group of its own, so that Ctrl-C at a terminal reaches only the harness, which ends it.
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
        question = {
            "training": asdict(training),
            "worlds": worlds,
            "mode": mode,
            "weights": str(weights.resolve()),
            "scales": scales,
            "order": None if order is None else [asdict(step) for step in steps(order)],
        }
        answer = self._ask(self._process, json.dumps(question))
        if not answer:
            status = self._process.wait()
            raise TrialError(
                f"the process that repeats the training as {REFERENCE} ended with status {status}",
                fix="see its output above; with little memory, run with a smaller batch",
            )
        found: dict[str, Any] = json.loads(answer)
        if "unfit" in found:
            raise TrialError(f"{weights.name}: {found['unfit']}", fix="see what the worker of rank 0 did to its file")
        return found

    @staticmethod
    def _ask(process: subprocess.Popen[bytes], question: str) -> bytes:
        """Send a question; return the line that answers, empty if the process ended.

        Raises:
            TrialTimeoutError: it shows no sign of life; it was ended.
        """
        assert process.stdin
        assert process.stdout
        with suppress(BrokenPipeError):
            process.stdin.write(question.encode() + b"\n")
            process.stdin.flush()
        answer = b""
        while not answer.endswith(b"\n"):
            if not select.select([process.stdout], [], [], SILENT_S)[0]:
                process.kill()
                process.wait()
                raise TrialTimeoutError(
                    f"the process that repeats the training as {REFERENCE} showed no sign of life for {SILENT_S:g} s",
                    fix="see whether somebody stopped it, or memory ran out; then run again with --resume",
                )
            piece = os.read(process.stdout.fileno(), 2**16)
            if not piece:
                return b""
            answer = (answer + piece).lstrip()  # empty lines are signs of life
        return answer


def main(parent: int) -> None:
    """Answer one question a line until standard input ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return  # it died before the line above could tie us to it
    answers, busy = os.dup(1), threading.Event()
    os.dup2(2, 1)  # a user's model may print
    threading.Thread(target=_show_life, args=(busy, answers), daemon=True).start()
    busy.set()
    gc.disable()  # almost all that imports make stays, and looking through it takes a tenth of their time
    import torch  # here, for the harness imports this module and must not import torch

    from testbed.workloads import tasks

    gc.freeze()
    gc.enable()
    torch.set_num_threads(1)  # two threads that wait for each other are slower than one where somebody else uses a core
    for line in sys.stdin:
        busy.set()
        question = json.loads(line)
        worlds = tuple((first, ranks) for first, ranks in question["worlds"])
        order = [Step.load(step) for step in question["order"] or ()]
        training = tasks.load(question["training"])
        judge = tasks.judging(training)
        try:
            weights = read_weights(Path(question["weights"]), judge.floats(training))
            found = judge.judged(weights, training, worlds, question["mode"], tuple(question["scales"]), order)
        except UnfitError as error:
            found = {"unfit": str(error)}
        busy.clear()
        os.write(answers, json.dumps(found).encode() + b"\n")


def read_weights(path: Path, count: int) -> NDArray[np.float32]:
    """Read the weights in a .npy file that a worker wrote: ``count`` floats of 32 bits.

    Raises:
        UnfitError: it holds something else.
    """
    import numpy as np

    try:
        with opened(path, path.parent) as file:
            content = file.read(LONGEST_HEADER_BYTES + 4 * count + 1)
    except OSError as error:
        raise UnfitError((error.strerror or str(error)).lower()) from None
    header = HEADER.match(content)
    if header is None or int(header[1]) != count or len(content) - header.end() != 4 * count:
        raise UnfitError(f"does not hold {count:,} floats of 32 bits")
    return np.frombuffer(content, np.float32, count, header.end()).copy()


def _show_life(busy: threading.Event, answers: int) -> None:
    """Write an empty line now and then while there is work; one call each, so that no line is cut in two."""
    while busy.wait():
        os.write(answers, b"\n")
        time.sleep(SIGN_OF_LIFE_S)


if __name__ == "__main__":
    main(int(sys.argv[1]))
