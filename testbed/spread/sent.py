"""The experiment as an archive, which is sent to machines before any of them runs a block."""

from __future__ import annotations

import json
from collections.abc import Iterable

from testbed.base.errors import SpecError
from testbed.files.foreign import reason
from testbed.run_directory.kept_spec import with_changes
from testbed.run_directory.layout import MADE
from testbed.run_directory.resolved import resolved
from testbed.spec import Source
from testbed.spread.bundle import FILES, RUN, pack
from testbed.trial.input_files import DATA, NO_FILE, checked
from testbed.trial.inputs import MOST_BYTES
from testbed.trial.model import Trial


def of_experiment(source: Source, trials: Iterable[Trial]) -> bytes:
    """Pack the spec and the files that its trials read, as they were when these were planned.

    Raises:
        SpecError: a file cannot be sent.
    """
    meta = resolved(source) | {"folder": "."}
    text = with_changes(source.text, source.overrides)
    files = {f"{RUN}/spec.yaml": text.encode(), f"{RUN}/{MADE}": json.dumps(meta).encode()}
    left_bytes = MOST_BYTES
    inputs = {name: digest for trial in trials for name, digest in trial.inputs.items()}
    for name, digest in sorted(inputs.items()):
        if NO_FILE.fullmatch(name):
            continue
        try:
            if DATA.fullmatch(name):
                raise ValueError("its values are known, and not its files")
            content = files[f"{FILES}/{name}"] = checked(source.folder, name, digest, left_bytes)
        except (OSError, ValueError) as error:
            problem = f"--on: {name}, which the spec needs, cannot be sent: {reason(error)}"
            fix = "put it into the spec's folder; or type --part on each machine, which must have it"
            raise SpecError(problem, fix=fix) from None
        left_bytes -= len(content)
    return pack(files)
