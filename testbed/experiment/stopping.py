"""Asking a run to end before its next trial: by a file in its directory, for which it looks between trials.

``touch RUN/stop`` does the same. The run removes the file when it ends; ``--resume`` removes one that is left.
"""

from __future__ import annotations

import os
from pathlib import Path

from testbed.base.errors import OutputError
from testbed.files.writing import named_errors, opened_folder, write_bytes
from testbed.run_directory.access import is_idle
from testbed.run_directory.layout import STOP


class Stopped(KeyboardInterrupt):
    """The run ends before its next trial, as with Ctrl-C between two trials."""


def ask_to_stop(run: Path) -> None:
    """Have the run that writes into a directory of ours end before its next trial.

    Raises:
        OutputError: the directory is another user's, no run goes on there, or it cannot be written.
    """
    with named_errors(run), opened_folder(run) as folder:
        owner = os.fstat(folder).st_uid
        if owner != os.geteuid():
            raise OutputError(
                f"{run}: belongs to another user (uid {owner}), and only its owner can stop the run",
                fix="call testbed watch as that user",
            )
        if is_idle(run):
            raise OutputError(f"{run}: no run goes on there", fix=f"testbed run --resume {run} goes on with it")
        write_bytes(run / STOP, b"", folder=folder)
