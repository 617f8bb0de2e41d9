"""The run directory: where a run's files are, what is in it already, and whether it may be gone on with."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from analysis.cell import cell_of
from analysis.schema import ENVIRONMENT, RECORD, RESOLVED
from analysis.verdicts import numbers_of
from testbed.base.errors import OutputError, SpecError
from testbed.base.listing import shortened
from testbed.experiment.repeats import TOPPED_UP, Planned
from testbed.files import foreign, writing
from testbed.files.removal import remove
from testbed.files.shape import Shape, check
from testbed.files.writing import (
    TEMPORARY,
    check_name,
    named_errors,
    names_in,
    opened_folder,
    read_json,
    temporaries,
    write_bytes,
    write_json,
)
from testbed.spec import Source, read
from testbed.spec.model import MOST_REPEATS
from testbed.spec.yaml import LIMIT_BYTES, as_text
from testbed.trial.identity import PATIENCE
from testbed.trial.inputs import in_words
from testbed.trial.model import Trial
from testbed.trial.results import SCHEMA, save_csv, save_samples
from workloads.kinds import of_record

if TYPE_CHECKING:
    import pandas as pd

LOCK = ".lock"
"""Locked by the run that writes here, and let go by the kernel however that ends. It also tells that a directory is
ours, so that a run that was killed before it had made one whole can be started anew."""
MADE = "resolved.json"
"""Written last when a directory is made."""
FITTED, SCALE = "fitted", "workload.scale"
"""What of the settings was chosen for this machine, in place of what is written; and what that can be."""
FOLDERS = ("trials", "samples", "logs")
WORK = "work"
"""What is only needed while a trial runs."""
PARTS = (LOCK, *FOLDERS, "spec.yaml", temporaries("spec.yaml"), temporaries(MADE))
"""Patterns of what is there before that."""
MAY_CHANGE = {"schema", "repeats", *PATIENCE, "overrides", "folder", "planned", "part", "most_rounds"}
"""What of a spec's settings may be another when a run goes on: no trial's result depends on it. That all trials which
ran are still asked for is seen by their ids."""
NEEDED = ("id", "identity", "label", "batch", "status", "kind", "error", "metrics", "accuracy", "fidelity", "links")
"""What every record has."""
MEASURED = ("jct_s", "gst_median_s", "gst_theory_s", "throughput_sps")
"""What every trial that is done has, the first also of a command."""
TOLD = 3
"""How many differences a message names."""


class RunDirectory:
    """One run's files. Everything is written atomically, so it can be read at any moment; :meth:`close` it at last.

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
            _check_ours(path, self._folder)
            self._lock = _lock(path, self._folder)
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
        """A new directory: ``out``, or one under runs/ named after the experiment and the time.

        Args:
            planned: how many trials there will be in any case.
            part: which part of how many of the experiment runs here, if not all.
            most_rounds: how many rounds there may be, where a gate may add some.

        Raises:
            OutputError: it holds something already, is another user's, or cannot be made.
            DiskFullError: no room is left.
        """
        path = out or _new_directory(source.spec.name)
        with named_errors(path):
            if path.is_dir() and any(path.iterdir()) and not _is_half_made(path):
                raise _not_empty(path)
            path.mkdir(parents=True, exist_ok=True)
        run = cls(path)
        try:
            if not _is_half_made(path):  # somebody else was quicker, and has ended again
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
        """A directory that :meth:`create` made.

        Raises:
            OutputError: it is not a run directory, is another user's, or cannot be written.
        """
        if not (path / MADE).is_file():
            raise OutputError(f"{path}: is not a run directory (it has no resolved.json)", fix="run without --resume")
        if not os.access(path, os.W_OK):
            fix = f"chown or chmod it, or copy it: cp -r {quote(str(path))} COPY"
            raise OutputError(f"{path}: cannot be written", fix=fix)
        run = cls(path)
        run.tidy()  # after a run that was killed
        return run

    def tidy(self) -> None:
        """Remove what is only needed while a trial runs or a file is written.

        Raises:
            OutputError: the system refuses.
        """
        with named_errors(self.path):
            remove(WORK, self._folder)
            for name in (".", "trials", "samples"):
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

    def source(self) -> Source:
        """The spec this run was started with, ``--set`` included.

        Raises:
            OutputError, SpecError: it cannot be read, or this version does not take it.
        """
        return source_of(self.path)

    def as_began(self, source: Source) -> Source:
        """A spec to go on with, at the scale that was chosen when the run began, if one was.

        Raises:
            OutputError, SpecError: the directory is damaged, or the spec cannot be.
        """
        fitted = fitted_scale(made(self.path))
        return source if fitted is None or not source.wants_fit else source.scaled(fitted)

    def part(self) -> tuple[int, int] | None:
        """Which part of how many of the experiment runs here; None where it is the whole."""
        found = made(self.path).get("part")
        return (found[0], found[1]) if found else None

    def most_rounds(self) -> int | None:
        """How many rounds there may be, where a gate may have added some.

        Raises:
            OutputError: the directory is damaged.
        """
        return most_rounds(self.path)

    def holds(self, trial: Trial) -> bool:
        """Whether there is a record of it, finished or failed."""
        return (self.path / "trials" / f"{trial.id}.json").exists()

    def record(self, trial: Trial) -> dict[str, Any] | None:
        """What there is of a trial, finished or failed.

        Raises:
            OutputError: it is damaged, or another trial's.
        """
        if not self.holds(trial):
            return None
        path = self.path / "trials" / f"{trial.id}.json"
        found = _record(self.path, path)
        check_name(path, found.get("id"))
        _check_judged(path, found)
        return found

    def finished(self, trials: Sequence[Trial]) -> dict[str, dict[str, Any]]:
        """By id, the records of those of ``trials`` that are done already.

        Raises:
            SpecError: one of them ran with other settings.
            OutputError: a record is damaged, or is another trial's.
        """
        found = {}
        for trial in trials:
            record = self.record(trial)
            if record is None:
                continue
            if record["identity"] != trial.identity:
                raise _changed(self.path, record, trial)
            if record["status"] == "done":
                found[trial.id] = record
        return found

    def check_same(self, source: Source) -> None:
        """
        Raises:
            SpecError: ``source`` is of another experiment than this run; names what differs.
            OutputError: the directory is damaged.
        """
        asked = json.loads(json.dumps(resolved(source)))  # as it would be read
        found = differences(made(self.path), asked, MAY_CHANGE)
        if found:
            told = [f"{key} was {ours}, and {theirs} is asked for" for key, ours, theirs in found]
            raise SpecError(
                f"{self.path} is a run of another experiment than {source.name}: "
                f"{shortened(told, TOLD, '; ', 'more settings')}",
                fix="start a new run with --out DIR, or go on without a spec: "
                f"testbed run --resume {quote(str(self.path))}",
            )

    def check_asked_for(self, planned: Planned) -> None:
        """
        Raises:
            SpecError: a trial was run that is none of the experiment's.
        """
        ran = [path.stem for path in sorted((self.path / "trials").glob("*.json"))]
        strange = planned.strange(ran)
        if strange:
            record = _record(self.path, self.path / "trials" / f"{strange[0]}.json")
            for trial in planned.trials:  # one of several that shorten alike has a piece of its identity in its id
                if trial.cell == cell_of(record) and in_words(record.get("inputs"), trial.inputs):
                    raise _changed(self.path, record, trial)
            raise SpecError(
                f"{self.path} holds {shortened(strange, TOLD)}, which the spec does not have with {planned.repeats}",
                fix=f"start a new run with --out DIR, or remove from {self.path}/trials what does not belong there",
            )

    def save_spec(self, source: Source, planned: int, most_rounds: int | None) -> None:
        """Keep the spec that the run goes on with, where it is another than before, or was kept by halves (a run may be
        killed between the two files)."""
        meta = made(self.path)
        keys = ("overrides", "folder", "planned", "most_rounds")
        before = (_spec_text(self.path), *map(meta.get, keys))
        if before != (source.text, list(source.overrides), str(source.folder.resolve()), planned, most_rounds):
            self._save_spec(source, planned, self.part(), most_rounds)

    def _save_spec(
        self, source: Source, planned: int | None, part: tuple[int, int] | None, most_rounds: int | None
    ) -> None:
        write_bytes(self.path / "spec.yaml", source.text.encode(), folder=self._folder)
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

    def environment(self) -> dict[str, Any]:
        """env.json as written before; empty where there is none."""
        return environment(self.path)

    def samples(self, trial_id: str) -> Path:
        return self.path / "samples" / f"{trial_id}.parquet"


def _check_judged(path: Path, record: Mapping[str, Any]) -> None:
    """Whether a finished trial's verdict can be read, on which it depends whether it is measured again.

    Raises:
        OutputError: it is damaged.
    """
    if record.get("status") != "done":
        return
    try:
        judged = record["fidelity"]
        numbers_of(judged)
        readable = judged["verdict"] and all(isinstance(one["ok"], bool) for one in judged["checks"])
        measured = MEASURED if of_record(record).writes_samples else MEASURED[:1]
        for name in measured:
            writing.number(name, record["metrics"][name])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        readable, why = False, f"{type(error).__name__}: {error}"
    else:
        why = "a check is neither true nor false"
    if not readable:
        raise OutputError(f"{path}: damaged ({why:.100})", fix="remove it, and its trial runs again")


def _changed(path: Path, record: Mapping[str, Any], trial: Trial) -> SpecError:
    told = in_words(record.get("inputs"), trial.inputs)
    if "inputs" not in record:
        told = ", or by an earlier version of testbed"
    return SpecError(
        f"{path} holds {record['id']}, run with other settings than the spec has now{told}",
        fix=f"{'put that back, or ' if told.startswith(':') else ''}run into a new directory, without --resume",
    )


def source_of(path: Path, more: Sequence[str] = ()) -> Source:
    """The spec that the run in ``path`` was started with, ``--set`` included, and ``more`` of these.

    Raises:
        OutputError, SpecError: it cannot be read, or this version does not take it.
    """
    meta = made(path)
    lacking = [key for key in ("folder", "overrides") if meta.get(key) is None]
    if lacking:
        raise OutputError(f"{path / MADE}: damaged, {lacking[0]!r} is missing", fix="restore it from a copy")
    text, fitted = _spec_text(path), fitted_scale(meta)
    return read(text, f"{path}/spec.yaml", Path(meta["folder"]), [*meta["overrides"], *more], fitted)


def made(path: Path) -> dict[str, Any]:
    """What ``resolved.json`` of the run in ``path`` says.

    Raises:
        OutputError: it is damaged.
    """
    return _checked(path, path / MADE, RESOLVED)


def environment(path: Path) -> dict[str, Any]:
    """What ``env.json`` of the run in ``path`` says; empty where there is none.

    Raises:
        OutputError: it is damaged.
    """
    there = path / "env.json"
    return _checked(path, there, ENVIRONMENT) if os.path.lexists(there) else {}


def _record(run: Path, path: Path) -> dict[str, Any]:
    """A trial's.

    Raises:
        OutputError: it is damaged.
    """
    found = _checked(run, path, RECORD)
    lacking = [key for key in NEEDED if key not in found]
    if lacking:
        raise OutputError(f"{path}: damaged, {lacking[0]!r} is missing", fix="remove it, and its trial runs again")
    return found


def records(run: Path) -> dict[str, dict[str, Any]]:
    """By trial, the records of the run in ``run``.

    Raises:
        OutputError: one is damaged, or has another trial's name.
    """
    found = {path: _record(run, path) for path in sorted((run / "trials").glob("*.json"))}
    for path, record in found.items():
        check_name(path, record["id"])
        _check_judged(path, record)
    return {path.stem: record for path, record in found.items()}


def _checked(run: Path, path: Path, of: Shape) -> dict[str, Any]:
    """A JSON object in a run's directory, which somebody else may have made.

    Raises:
        OutputError: it is damaged.
    """
    found = read_json(path, run)
    try:
        check(found, of)
    except ValueError as error:
        raise OutputError(f"{path}: damaged ({error})", fix="restore it from a copy, or remove it") from None
    return found


def _spec_text(run: Path) -> str:
    """
    Raises:
        OutputError: it cannot be read, or is larger than a spec.
        SpecError: it is not text.
    """
    path = run / "spec.yaml"
    try:
        return as_text(path, foreign.read_bytes(path, LIMIT_BYTES, run))
    except (OSError, foreign.UnfitError) as error:
        reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        raise OutputError(f"{path}: {reason}", fix="restore it from a copy") from None


def fitted_scale(meta: Mapping[str, Any]) -> float | None:
    """The scale that was chosen when the run of this ``resolved.json`` began; None where it has the written one."""
    found = (meta.get(FITTED) or {}).get(SCALE)
    return None if found is None else float(found)


def most_rounds(path: Path) -> int | None:
    """How many rounds the run in ``path`` may have, where a gate may have added some.

    Raises:
        OutputError: it is damaged.
    """
    found = made(path).get("most_rounds")
    if found is not None and (type(found) is not int or not 1 <= found <= TOPPED_UP * MOST_REPEATS):
        raise OutputError(f"{path / MADE}: damaged, its most_rounds is {found!r:.40}", fix="restore it from a copy")
    return found


def _new_directory(name: str) -> Path:
    """A new directory under runs/, also where another run of that name has started within this second."""
    base = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    for number in itertools.count(1):
        path = base if number == 1 else base.with_name(f"{base.name}-{number}")
        with named_errors(path), suppress(FileExistsError):
            path.mkdir(parents=True)
            break
    return path


def _is_half_made(path: Path) -> bool:
    """Whether it holds what a run that was killed while it made the directory leaves, and nothing else: no results, and
    no links."""
    found = list(path.iterdir())
    known = all(any(fnmatchcase(one.name, part) for part in PARTS) and not one.is_symlink() for one in found)
    filled = any(inner for one in FOLDERS for inner in (path / one).glob("*"))
    return known and LOCK in {one.name for one in found} and not filled


def _not_empty(path: Path) -> OutputError:
    return OutputError(
        f"{path}: is not empty",
        fix=f"name another with --out, or go on with it: testbed run --resume {quote(str(path))}",
    )


def _check_ours(path: Path, folder: int) -> None:
    """Whether nobody else can decide where what we write goes: ``folder`` and what leads to our files are this user's
    own, and no links.

    Raises:
        OutputError: they are not.
    """
    fix = f"name a new directory; or go on with a copy: cp -r {path} COPY"
    if (owner := os.fstat(folder).st_uid) != os.geteuid():
        raise OutputError(f"{path}: belongs to another user (uid {owner})", fix=fix)
    for name in (LOCK, WORK, *FOLDERS):
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(found.st_mode):
            raise OutputError(
                f"{path / name}: is a link, and none is followed there",
                fix=f"copy the run with what it names, if you trust it: cp -rL {quote(str(path))} COPY",
            )
        kind, word = (stat.S_ISREG, "file") if name == LOCK else (stat.S_ISDIR, "directory")
        if not kind(found.st_mode):
            raise OutputError(f"{path / name}: is no {word}", fix=f"name a new directory, or remove {path / name}")
        if found.st_uid != os.geteuid():
            raise OutputError(f"{path / name}: belongs to another user (uid {found.st_uid})", fix=fix)


def _lock(path: Path, folder: int) -> int:
    """A descriptor that keeps every other run out of ``path``. Only its owner can open the file, so that nobody else
    can keep us out.

    Raises:
        OutputError: another run writes there, or the file system knows no locks.
    """
    with named_errors(path):
        lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            os.fchmod(lock, 0o600)  # those of earlier versions could be opened by everybody
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(lock)
            os.close(lock)
            raise OutputError(
                f"{path}: another run is writing into it{holder}",
                fix="wait for its end, or name another directory with --out",
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _holder(lock: int) -> str:
    """`` (process 1234)``, as the run that holds a lock has written into it; empty if it has not."""
    told = os.pread(lock, 20, 0).strip()
    return f" (process {told.decode()})" if told.isdigit() else ""


def check_idle(path: Path) -> None:
    """
    Raises:
        OutputError: a run is writing into the directory; or only its owner can see whether one is.
    """
    try:
        lock = os.open(path / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except PermissionError:
        raise OutputError(
            f"{path}: only its owner can see whether a run is writing into it",
            fix=f"take a copy, made once the run has ended, without {LOCK}: cp -r {path} COPY",
        ) from None
    except OSError as error:
        raise OutputError(f"{path / LOCK}: {(error.strerror or str(error)).lower()}", fix="remove it") from None
    with named_errors(path):
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(
                f"{path}: a run is writing into it{_holder(lock)}", fix="wait for its end, or end it"
            ) from None
        finally:
            os.close(lock)


def resolved(
    source: Source,
    planned: int | None = None,
    part: tuple[int, int] | None = None,
    most_rounds: int | None = None,
) -> dict[str, Any]:
    """The spec with every default filled in, in base units, and where it came from.

    What is swept has its first value there, and all of them under ``sweep``.
    """
    spec = source.spec
    settings = spec.model_dump(exclude=spec.of_other_labs | (set() if spec.where else {"where"}))
    settings["arms"] = [arm.model_dump() | {"label": arm.title} for arm in spec.arms]
    return {
        "schema": SCHEMA,
        **settings,
        **({"sweep": source.grid.values} if source.grid.axes else {}),
        **({"planned": planned} if planned is not None else {}),
        **({"part": list(part)} if part else {}),
        **({"most_rounds": most_rounds} if most_rounds is not None else {}),
        **({FITTED: {SCALE: source.fitted}} if source.fitted is not None else {}),
        "overrides": list(source.overrides),
        "folder": str(source.folder.resolve()),
    }


def differences(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], aside: Collection[str]
) -> list[tuple[str, str, str]]:
    """What two resolved specs differ in but for the groups ``aside``: dotted names, and what each has, for people."""
    left, right = (
        dict(_leaves({key: value for key, value in one.items() if key not in aside})) for one in (ours, theirs)
    )
    return [
        (key, _short(left.get(key)), _short(right.get(key)))
        for key in {**left, **right}
        if left.get(key) != right.get(key)
    ]


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Every value that is no group, by its dotted name."""
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        yield name, value
        return
    for key, inner in value.items():
        yield from _leaves(inner, f"{name}.{key}" if name else str(key))


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
