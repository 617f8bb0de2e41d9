"""A run's directory while a run writes into it: made or opened again, locked, and written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from testbed.analysis.load import check_run
from testbed.base.errors import OutputError
from testbed.execution.results import save_csv, save_samples
from testbed.files.removal import remove
from testbed.files.writing import TEMPORARY, named_errors, names_in, opened_folder, write_bytes, write_json
from testbed.run_directory import stored
from testbed.run_directory.access import check_ours, check_way, lock_exclusively
from testbed.run_directory.layout import FOLDERS, MADE, RUNS, STOP, TABLES, is_half_made, new_directory
from testbed.run_directory.resolved import resolved, with_changes
from testbed.spec import Source
from testbed.trial.files import WORK
from testbed.trial.model import Trial

if TYPE_CHECKING:
    import pandas as pd


class RunDirectory:
    """Files of a run. Everything is written atomically, so it can be read at any moment; :meth:`close` it at last.

    The directory is held open, and all in it is written relative to that, through no link.
    """

    def __init__(self, path: Path) -> None:
        """
        Raises:
            OutputError: another run writes into it; it is another user's; or a link is where we would write.
        """
        self.path = path
        with named_errors(path), ExitStack() as stack:
            self._folder = stack.enter_context(opened_folder(path))
            check_ours(path, self._folder)
            self._lock = lock_exclusively(path, self._folder)
            self._held = stack.pop_all()

    @classmethod
    def create(
        cls,
        out: Path | None,
        source: Source,
        planned: int | None = None,
        part: tuple[int, int] | None = None,
        most_rounds: int | None = None,
    ) -> RunDirectory:
        """Make a new directory: ``out``, or one under runs/ named after the experiment and the time.

        Args:
            planned: how many trials there will be in any case.
            part: which part of how many of the experiment runs here, if not all.
            most_rounds: how many rounds there may be, where a gate may add some.

        Raises:
            OutputError: it holds something already, is another user's, or cannot be made.
            DiskFullError: no room is left.
        """
        check_way(out or RUNS)
        path = out or new_directory(source.spec.name)
        with named_errors(path):
            if path.is_dir() and any(path.iterdir()) and not is_half_made(path):
                raise _not_empty(path)
            path.mkdir(parents=True, exist_ok=True)
        run = cls(path)
        try:
            if not is_half_made(path):  # somebody else was quicker, and has ended again
                raise _not_empty(path)
            with named_errors(path):
                for folder in FOLDERS:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=run._folder)
            run._save_spec(source, planned, part, most_rounds)
        except BaseException:
            run.close()
            raise
        return run

    @classmethod
    def reopen(cls, path: Path) -> RunDirectory:
        """Open a directory again that :meth:`create` made.

        Raises:
            OutputError: it is not a run directory, is another user's, or cannot be written.
        """
        check_way(path)
        check_run(path)
        if not os.access(path, os.W_OK):
            fix = f"chown or chmod it, or copy it: cp -r {quote(str(path))} COPY"
            raise OutputError(f"{path}: cannot be written", fix=fix)
        run = cls(path)
        run.tidy()  # after a run that was killed
        return run

    def tidy(self) -> None:
        """Remove what is only needed while a trial runs or a file is written, and what asked this run to stop.

        Raises:
            OutputError: the system refuses.
        """
        with named_errors(self.path):
            remove(WORK, self._folder)
            remove(STOP, self._folder)
            for name in (".", "trials", "samples", *TABLES):
                with suppress(FileNotFoundError), opened_folder(name, self._folder) as folder:
                    for unfinished in names_in(folder):
                        if fnmatchcase(unfinished, TEMPORARY):
                            remove(unfinished, folder)

    def close(self) -> None:
        """Remove what is only needed meanwhile, and let another run write here."""
        if self._lock >= 0:
            try:
                self.tidy()
            finally:
                os.close(self._lock)
                self._held.close()
                self._lock = -1

    @property
    def is_asked_to_stop(self) -> bool:
        """Whether somebody wants the run to end before its next trial (:mod:`testbed.experiment.runner`)."""
        return os.access(STOP, os.F_OK, dir_fd=self._folder, follow_symlinks=False)

    def holds(self, trial: Trial) -> bool:
        """Whether there is a record of a trial, finished or failed."""
        return (self.path / "trials" / f"{trial.id}.json").exists()

    def record(self, trial: Trial) -> dict[str, Any] | None:
        """Read the record of a trial, finished or failed.

        Raises:
            OutputError: it is damaged, or another trial's.
        """
        return stored.record(self.path, trial.id)

    def save_spec(self, source: Source, planned: int, most_rounds: int | None) -> None:
        """Keep the spec that the run goes on with, where it is another than before, or was kept by halves (a run may be
        killed between the two files)."""
        meta = stored.made(self.path)
        keys = ("overrides", "folder", "planned", "most_rounds")
        before = (stored.spec_text(self.path), *map(meta.get, keys))
        text = with_changes(source.text, source.overrides)
        if before != (text, list(source.overrides), str(source.folder.resolve()), planned, most_rounds):
            self._save_spec(source, planned, stored.part(self.path), most_rounds)

    def _save_spec(
        self, source: Source, planned: int | None, part: tuple[int, int] | None, most_rounds: int | None
    ) -> None:
        write_bytes(self.path / "spec.yaml", with_changes(source.text, source.overrides).encode(), folder=self._folder)
        write_json(self.path / MADE, resolved(source, planned, part, most_rounds), self._folder)

    def save_record(self, record: dict[str, Any]) -> None:
        path = self.path / "trials" / f"{record['id']}.json"
        with named_errors(path), opened_folder("trials", self._folder) as folder:
            write_json(path, record, folder)

    def save_environment(self, environment: dict[str, Any]) -> None:
        write_json(self.path / "env.json", environment, self._folder)

    def save_table(self, records: Sequence[dict[str, Any]]) -> None:
        save_csv(self.path / "results.csv", records, self._folder)

    def save_samples(self, trial_id: str, samples: pd.DataFrame) -> None:
        path = self.samples(trial_id)
        with named_errors(path), opened_folder("samples", self._folder) as folder:
            save_samples(path, samples, folder)

    def save_table_of(self, trial_id: str, name: str, table: pd.DataFrame) -> None:
        """Keep a trial's table in the folder ``name``, as it is."""
        path = self.path / name / f"{trial_id}.parquet"
        with named_errors(path):
            with suppress(FileExistsError):  # a run of an earlier version has no such folder
                os.mkdir(name, dir_fd=self._folder)
            with opened_folder(name, self._folder) as folder:
                write_bytes(path, table.to_parquet(index=False), folder=folder)

    def samples(self, trial_id: str) -> Path:
        return self.path / "samples" / f"{trial_id}.parquet"


def _not_empty(path: Path) -> OutputError:
    return OutputError(
        f"{path}: is not empty",
        fix=f"name another with --out, or go on with it: testbed run --resume {quote(str(path))}",
    )
