"""The files that a trial's result depends on, each with a digest, so that a run that goes on sees what was changed.

They are what a spec names (a topology or a scheme of one's own, a trace, a command's scripts), and what a command may
import: all Python in the spec's directory, or what ``inputs`` names instead. What a command imports is known only once
it runs, so a file too many is read rather than one too few. The code of installed packages is in :mod:`packages`.

Files are also packed for others. A run directory may be somebody else's, so a file is taken only if its content is what
the digest says: nobody can have a file packed whose content he does not know.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from testbed.base.errors import ChangedError, MissingToolError, SpecError
from testbed.base.listing import shortened
from testbed.files.foreign import read_bytes
from testbed.spec import Arm, Spec
from testbed.spec.workload.base import Program
from testbed.topologies.call import parse
from testbed.topologies.load import file_of
from testbed.trial.packages import Packages

if TYPE_CHECKING:
    from testbed.trial.model import Trial

MOST_FILES = 1000
"""Files at most: a trial's record names each of them."""
MOST_BYTES = 64 * 2**20
"""Bytes of all files together at most: they are read in a tenth of a second."""
MOST_ENTRIES = 20_000
"""Files and directories at most that are looked at for them, also in a tenth of a second."""
DIGITS = 16
"""Hexadecimal digits of each digest: enough to tell a file from what it was."""
SCRIPTS = (".py", ".sh")
PATTERN = re.compile(r"[*?\[]")
"""Characters that make a pattern of a name."""
OTHERS = frozenset({"__pycache__", "site-packages", "node_modules"})
"""Directories of what Python has compiled and of what others wrote. Those of version control, and most virtual
environments, begin with a dot, and are left out as well."""
MARKS = frozenset({"resolved.json", ".lock", "pyvenv.cfg"})
"""A directory that has one of these is a run's (:mod:`testbed.run_directory.layout`), or a virtual environment."""
NAMED = 3
"""How many files a message names."""

Digests = dict[str, str]
"""Digests by name, from the spec's directory where the name was written so."""


class Inputs:
    """Digests of what the specs of one directory name; each file is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shown = "the spec's folder" if folder == Path() else folder
        self._known: Digests = {}
        self._read_bytes = 0
        self._of_programs: dict[Program, Digests] = {}

    def of(self, spec: Spec, arm: Arm) -> Digests:
        """Return the digests of all that a trial of ``arm`` depends on.

        Raises:
            SpecError: as :meth:`read_by`.
        """
        return dict(sorted((self._named(built_from(arm)) | self.read_by(spec, arm)).items()))

    def read_by(self, spec: Spec, arm: Arm) -> Digests:
        """Return the digests of those files that are read while a trial runs, and not only when it is planned.

        Raises:
            SpecError: a file is not there or cannot be read, or they are too many or too large.
        """
        found = self._named(name for one in (*spec.perturb, *arm.perturb) for name in one.inputs)
        program = spec.workload.program
        return found | self.of_program(program) if program else found

    def of_program(self, program: Program) -> Digests:
        """Return the digests of a program's scripts, and of the Python in its directory, or what ``inputs`` names
        instead.

        Raises:
            SpecError: as :meth:`read_by`.
        """
        if program not in self._of_programs:
            found = self._named(self._scripts(program.words))
            if program.inputs is None:
                found |= self._read(self._matching("**/*.py"), follow=False)
            else:
                found |= self._named(one for one in program.inputs if not PATTERN.search(one))
                for pattern in filter(PATTERN.search, program.inputs):
                    found |= self._read(self._some_matching(pattern), follow=False)
            self._of_programs[program] = found
        return self._of_programs[program]

    def _scripts(self, words: Sequence[str]) -> Iterator[str]:
        """Yield words that are scripts by their ending; and the program, and its first argument, if they are in the
        spec's directory."""
        program, *rest = words
        first = next((word for word in rest if not word.startswith("-")), "")
        yield from (word for word in rest if word.endswith(SCRIPTS) and self._has(word))
        yield from (word for word in (program if os.sep in program else "", first) if word and self._holds(word))

    def _has(self, name: str) -> bool:
        try:
            return (self._folder / name).is_file()
        except OSError:  # a word that no file can be called
            return False

    def _holds(self, name: str) -> bool:
        """Whether there is such a file in the spec's directory, and no link that leads out of it."""
        folder = self._folder.resolve()
        return self._has(name) and (folder / name).resolve().is_relative_to(folder)

    def _some_matching(self, pattern: str) -> list[str]:
        found = self._matching(pattern)
        if not found:
            raise SpecError(f"no file in {self._shown} matches {pattern!r}", fix="correct it, or put such a file there")
        return found

    def _matching(self, pattern: str) -> list[str]:
        matches = matcher(pattern)
        return [name for name in self._files if matches(name)]

    @cached_property
    def _files(self) -> list[str]:
        """Names of all files and links in the spec's directory, but for those that others or runs have put there. No
        link is followed. A directory that vanishes meanwhile is none: other programs may write there.

        Raises:
            SpecError: there is too much to look at, or a directory cannot be read.
        """
        left, found, looked = [""], list[str](), 0
        while left:
            inside = left.pop()
            try:
                with os.scandir(self._folder / inside) as entries:
                    here = list(islice(entries, MOST_ENTRIES + 1 - looked))
            except OSError as error:
                if inside and isinstance(error, FileNotFoundError):
                    continue
                raise _unreadable(self._folder / inside, error) from None
            looked += len(here)
            if looked > MOST_ENTRIES:
                raise _too_much(f"{self._shown} holds more than {MOST_ENTRIES:,} files and directories")
            if inside and any(entry.name in MARKS for entry in here):
                continue
            for entry in here:
                name = f"{inside}{entry.name}"
                if entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    found.append(name)
                elif entry.is_dir(follow_symlinks=False) and not (entry.name in OTHERS or entry.name.startswith(".")):
                    left.append(f"{name}/")
        return sorted(found)

    def _named(self, names: Iterable[str]) -> Digests:
        """Return the digests of files that somebody has named, wherever they are."""
        return self._read((os.path.normpath(name) for name in names), follow=True)

    def _read(self, names: Iterable[str], *, follow: bool) -> Digests:
        found: Digests = {}
        for name in names:
            if not follow and not os.path.lexists(self._folder / name):  # nobody named it, and it has vanished
                continue
            if name not in self._known:
                if len(self._known) == MOST_FILES:
                    raise _too_much(f"more than {MOST_FILES:,} files in {self._shown} would have to be read")
                self._known[name] = self._digest(name, follow)
            found[name] = self._known[name]
        return found

    def _digest(self, name: str, follow: bool) -> str:
        """Return the digest of what is in a file; of a link that is not followed, of where it leads.

        Raises:
            SpecError: it is not there or cannot be read, or all together are too large.
        """
        path = self._folder / name
        try:
            if path.is_symlink() and not follow:
                return _hex(f"a link to {path.readlink()}".encode())
            if not path.is_file():
                raise SpecError(f"there is no file {name!r} in {self._shown}", fix="correct its name, or put it there")
            with path.open("rb") as file:
                content = file.read(MOST_BYTES - self._read_bytes + 1)
        except OSError as error:
            raise _unreadable(path, error) from None
        self._read_bytes += len(content)
        if self._read_bytes > MOST_BYTES:
            raise _too_much(f"{name} and the files before it in {self._shown} have more than {MOST_BYTES >> 20} MiB")
        return _hex(content)


def check_unchanged(trial: Trial) -> None:
    """
    Raises:
        ChangedError: a file or a package that is read while the trial runs is not what it was when the trial was
            planned.
    """
    arm = trial.network.arm
    try:
        now = Inputs(trial.network.folder).read_by(trial.spec, arm) | Packages().of(trial)
    except (MissingToolError, SpecError) as error:  # it is not there any more, or unreadable, or too large
        raise ChangedError(f"{error.problem}, as there was when the run began", fix=error.fix) from None
    read_before = {
        *map(os.path.normpath, built_from(arm)),
        *(name for job in trial.jobs if job.own for name in job.own.inputs),
    } - set(now)
    planned = {name: one for name, one in trial.inputs.items() if name not in read_before}
    if told := differing(planned, now):
        program = trial.spec.workload.program
        which = f"; {program.inputs_key} says which files count" if program else ""
        fix = f"undo that and go on with --resume, or run into a new directory{which}"
        raise ChangedError(f"{told} since the run began", fix=fix)


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Say what differs, as in ``train.py was changed, model.py was added``; empty if all is as it was."""
    told = [f"{name} was changed" for name in before if name in now and now[name] != before[name]]
    told += [f"{name} was removed" for name in before if name not in now]
    told += [f"{name} was added" for name in now if name not in before]
    return shortened(told, NAMED)


def in_words(before: Mapping[str, str] | None, now: Mapping[str, str] | None) -> str:
    """Return what :func:`differing` tells, to end a sentence with: ``: train.py was changed``; empty where one of the
    two is not known, as of a trial that an older version ran."""
    told = "" if before is None or now is None else differing(before, now)
    return f": {told}" if told else ""


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a name is as a pattern says: ``*``, ``?`` and ``[...]`` within a part,
    ``**`` for any number of parts."""
    parts = [part for part in pattern.split("/") if part != "."]
    wanted = [part if part == "**" else re.compile(fnmatch.translate(part)) for part in parts]

    def past(reached: set[int]) -> set[int]:
        """Add to the numbers of parts of the pattern that may be used up, as ``**`` may stand for nothing."""
        for i, part in enumerate(wanted):
            if part == "**" and i in reached:
                reached.add(i + 1)
        return reached

    def matches(name: str) -> bool:
        reached = past({0})
        for part in name.split("/"):
            on = {i for i in reached if i < len(wanted) and wanted[i] == "**"}
            on |= {i + 1 for i in reached if i < len(wanted) and _fits(wanted[i], part)}
            reached = past(on)
        return len(wanted) in reached

    return matches


def _fits(wanted: str | re.Pattern[str], part: str) -> bool:
    return isinstance(wanted, re.Pattern) and wanted.match(part) is not None


def built_from(arm: Arm) -> list[str]:
    """Return the files of an arm's own topology and scheme."""
    names = [parse(text, "ring").name for text in (arm.topology, *arm.schemes)]
    return [file for file in map(file_of, names) if file is not None]


def _hex(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def _unreadable(path: Path, error: OSError) -> SpecError:
    reason = (error.strerror or str(error)).lower()
    return SpecError(f"{path} cannot be read: {reason}", fix="put it there and make it readable")


def _too_much(problem: str) -> SpecError:
    return SpecError(problem, fix="name what the command depends on: inputs: [train.py, 'model/*.py']")


DATA = re.compile(r"(?P<set>.*), samples|corpus (?P<corpus>.*[./].*)")
"""Data of the user's: its values have a digest, and its files have none."""
NO_FILE = re.compile(r".*, initial weights|corpus [^./]*|.* of the package .*")
"""Names of inputs that have a digest, too, and are no files of the spec's folder."""


def checked(folder: Path, name: str, digest: str, most_bytes: int) -> bytes:
    """
    Raises:
        ValueError: the file is not what it was, or where an archive cannot have it. OSError: it cannot be read.
    """
    if not is_inside(name):
        raise ValueError("is outside of the spec's folder")
    content = read_bytes(folder / name, most_bytes, folder)
    if hashlib.sha256(content).hexdigest()[:DIGITS] != digest:
        raise ValueError("was changed since the run")
    return content


def is_inside(name: str) -> bool:
    """Whether a path is written in the one way in which it leads to a file below the folder that it starts from.
    Otherwise a run could name a file several times, with a guess at its content each."""
    path = PurePosixPath(name)
    return name == os.path.normpath(name) != "." and not path.is_absolute() and ".." not in path.parts
