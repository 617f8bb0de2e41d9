"""The run directory: where a run's files are, what is in it already, and whether it may be gone on with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from testbed.errors import OutputError, SpecError
from testbed.files import named_errors, read_json, write_bytes, write_json
from testbed.results import SCHEMA, save_csv
from testbed.spec import Source, read
from testbed.spec.yaml import read_text
from testbed.trials import Trial


class RunDirectory:
    """One run's files. Everything is written atomically, so it can be read at any moment."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, out: Path | None, source: Source) -> RunDirectory:
        """A new directory: ``out``, or one under runs/ named after the experiment and the time.

        Raises:
            OutputError: it holds something already, or cannot be made.
            DiskFullError: no room is left.
        """
        path = out or Path("runs") / f"{source.spec.name}-{datetime.now():%Y%m%d-%H%M%S}"
        if path.is_dir() and any(path.iterdir()):
            raise OutputError(
                f"{path}: is not empty", fix=f"name another with --out, or go on with it: testbed run --resume {path}"
            )
        run = cls(path)
        with named_errors(path):
            for folder in (path, path / "trials", path / "samples", path / "logs"):
                folder.mkdir(parents=True, exist_ok=True)
        write_bytes(path / "spec.yaml", source.text.encode())
        write_json(path / "resolved.json", resolved(source))
        return run

    @classmethod
    def reopen(cls, path: Path) -> RunDirectory:
        """A directory that :meth:`create` made.

        Raises:
            OutputError: it is not a run directory, or cannot be written.
        """
        if not (path / "resolved.json").is_file():
            raise OutputError(f"{path}: is not a run directory (it has no resolved.json)", fix="run without --resume")
        if not os.access(path, os.W_OK):
            raise OutputError(f"{path}: cannot be written", fix=f"chown or chmod it, or copy it: cp -r {path} COPY")
        shutil.rmtree(path / "work", ignore_errors=True)  # of a run that was killed
        return cls(path)

    def source(self) -> Source:
        """The spec this run was started with, ``--set`` included.

        Raises:
            OutputError, SpecError: it cannot be read, or this version does not take it.
        """
        meta = read_json(self.path / "resolved.json")
        folder = Path(meta["folder"])
        return read(read_text(self.path / "spec.yaml"), f"{self.path}/spec.yaml", folder, meta["overrides"])

    def finished(self, trials: Sequence[Trial]) -> dict[str, dict[str, Any]]:
        """By id, the records of those of ``trials`` that are done already.

        Raises:
            SpecError: one of them ran with other settings.
            OutputError: a record is damaged.
        """
        found = {}
        for trial in trials:
            path = self.path / "trials" / f"{trial.id}.json"
            if not path.exists():
                continue
            record = read_json(path)
            if record["identity"] != trial.identity:
                raise SpecError(
                    f"{self.path} holds {trial.id}, run with other settings than the spec has now",
                    fix="run into a new directory, without --resume",
                )
            if record["status"] == "done":
                found[trial.id] = record
        return found

    def save_record(self, record: dict[str, Any]) -> None:
        write_json(self.path / "trials" / f"{record['id']}.json", record)

    def save_environment(self, environment: dict[str, Any]) -> None:
        write_json(self.path / "env.json", environment)

    def save_table(self, records: Sequence[dict[str, Any]]) -> None:
        save_csv(self.path / "results.csv", records)

    def environment(self) -> dict[str, Any]:
        """env.json as written before; empty where there is none."""
        path = self.path / "env.json"
        return read_json(path) if path.exists() else {}

    def samples(self, trial_id: str) -> Path:
        return self.path / "samples" / f"{trial_id}.parquet"


def resolved(source: Source) -> dict[str, Any]:
    """The spec with every default filled in, in base units, and where it came from."""
    settings = source.spec.model_dump()
    settings["arms"] = [arm.model_dump() | {"label": arm.title} for arm in source.spec.arms]
    return {
        "schema": SCHEMA,
        **settings,
        "overrides": list(source.overrides),
        "folder": str(source.folder.resolve()),
    }
