"""A few files as an archive in memory, which travels between machines and is read as files of others are; and the
experiment as one, which is sent to machines before any of them runs a block."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from testbed.base.errors import SpecError
from testbed.files.foreign import UnfitError, reason
from testbed.run_directory.layout import MADE
from testbed.run_directory.resolved import resolved, with_changes
from testbed.spec import Source
from testbed.trial.inputs import DATA, MOST_BYTES, NO_FILE, checked
from testbed.trial.model import Trial

RUN, FILES, OUT = "given", "files", "out"
"""Folders on a machine: the spec as a run keeps it, and the files that it names, which are sent; and the run directory
of a block."""
IDS = "ids"
"""File of a block: the first trials of the cells to run."""
LARGEST_BYTES = 128 * 2**20
"""The most bytes of an archive: the files of a spec have half of that (:data:`testbed.trial.inputs.MOST_BYTES`), those
of a finished trial far less."""


def pack(files: Mapping[str, bytes]) -> bytes:
    """Make an archive of files by name.

    Raises:
        UnfitError: they are too large.
    """
    _check_size(sum(map(len, files.values())))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def unpack(packed: object, folder: Path) -> list[str]:
    """Write the files of an archive into a folder, and return their names.

    Raises:
        UnfitError: it is none, it is too large, or holds anything but files below the folder.
        OSError: they cannot be written.
    """
    if not isinstance(packed, bytes):
        raise UnfitError("sent no archive")
    _check_size(len(packed))
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as archive:
            members = archive.getmembers()
            for member in members:
                if not member.isreg() or member.issparse():
                    raise UnfitError(f"sent {member.name!r:.100}, which is no plain file")
                plain = tarfile.data_filter(member, str(folder)).name
                if not member.name == plain == str(Path(plain)):
                    raise UnfitError(f"sent {member.name!r:.100}, which is no plain name")
            archive.extractall(folder, members, filter="data")
    except tarfile.FilterError as error:
        raise UnfitError(f"sent a file outside of its folder: {error!s:.200}") from None
    except tarfile.TarError as error:
        raise UnfitError(f"sent a damaged archive: {error!s:.100}") from None
    return [member.name for member in members]


def _check_size(size_bytes: int) -> None:
    if size_bytes > LARGEST_BYTES:
        raise UnfitError(f"sent {size_bytes:,} bytes, and {LARGEST_BYTES:,} are the most")


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
