"""Words, paths and files of a worker or a program, translated to those on a host."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.lab.baremetal.on_hosts.host_requests import HostRequests
from testbed.lab.baremetal.preparing.inventory import Host
from testbed.lab.base import SHARED_VARIABLE
from testbed.lab.programs import Launch, Program
from testbed.lab.requests import Call

INTERFACES = "eth"
"""Prefix of a topology's ports in what workers are told, see :func:`testbed.execution.programs.launches`."""
Files = dict[str, tuple[bytes, int]]
"""Content and mode of files, by name on the host."""


@dataclass(frozen=True)
class Site:
    """A host while a network is up: ``physical`` has for each address of the topology's plan the one in use, ``number``
    and ``token`` tell the lab's networks, and labs, apart. ``nics`` are the names of a topology's ports there."""

    host: Host
    physical: Mapping[str, str]
    number: int
    token: str
    nics: Sequence[str]
    temporary: str = "/tmp"
    """Folder for temporary files of programs."""

    def log(self, path: str) -> str:
        """Name of a log on the host."""
        return f"{self.number}/logs/{Path(path).name}"


class Shipment:
    """Places of a trial's files on a host: the host's names for paths of this machine, and which of the files are to be
    sent."""

    def __init__(self, site: Site, work: Path | None) -> None:
        self._site, self._work = site, work
        self.words: dict[str, str] = dict(site.physical)
        self.files: Files = {}

    def name(self, path: str) -> str:
        """Name of a file of the trial's working directory, relative to the agent's."""
        assert self._work is not None
        return f"{self._site.number}/work/{Path(path).absolute().relative_to(self._work)}"

    def mapped(self, value: Any) -> Any:
        """Copy plain data with paths and words as they are on the host; files that are here already are noted, to be
        sent."""
        if isinstance(value, dict):
            return {key: self.mapped(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.mapped(one) for one in value]
        if not isinstance(value, str):
            return value
        if self._work is not None and (value == str(self._work) or value.startswith(f"{self._work}{os.sep}")):
            name, path = self.name(value), Path(value)
            if path.is_file() and name not in self.files:
                self.files[name] = path.read_bytes(), path.stat().st_mode & 0o777
            return f"{self._site.host.home}/work/{self._site.token}/{name}"
        return self.words.get(value, value)


def launching(worker: Launch, site: Site, work: Path | None = None) -> tuple[Call[None], Files, dict[str, Path]]:
    """Make the request that starts a worker, the files that it needs, and, by name on the host, our files that grow as
    those there do. ``work`` is the trial's folder, where a worker has no job in it."""
    place = Shipment(site, Path(worker.job).parent.absolute() if worker.job else work)
    log, job, samples, outputs = site.log(worker.log), "", None, list[str]()
    followed = {log: Path(worker.log)}
    if worker.job:
        told = json.loads(Path(worker.job).read_text())
        left = [told[what] for what in ("weights", "position") if told.get(what)]
        job, samples, outputs = place.name(worker.job), place.name(told["samples"]), list(map(place.name, left))
        followed |= {samples: Path(told["samples"]), **dict(zip(outputs, map(Path, left), strict=True))}
        place.files[job] = json.dumps(place.mapped(told)).encode(), 0o644
    if not worker.program:
        call = HostRequests.launch(worker.process, job, log, samples, outputs)
    else:
        there = program(worker.program, site, place)
        program_of = there.words, there.environment, there.folder
        call = HostRequests.launch(worker.process, job, log, samples, outputs, *program_of)
    return call, place.files, followed


def gate(worker: Launch) -> Path | None:
    """Return the socket here that a worker connects to (:mod:`testbed.workloads.sync.gate`), if it does."""
    told = json.loads(Path(worker.job).read_text()) if worker.job else {}
    return Path(told["gate"]["path"]) if told.get("gate") else None


def program(wanted: Program, site: Site, place: Shipment) -> Program:
    """Translate a program's words, environment and directory to those on the host. Its temporary files, such as the
    cache that PyTorch makes, are removed with those of the run."""
    home = site.host.home
    place.words |= {sys.executable: f"{home}/venv/bin/python"}
    place.words |= {f"{INTERFACES}{port}": name for port, name in enumerate(site.nics)}
    environment = {name: place.mapped(value) for name, value in wanted.environment.items()}
    if SHARED_VARIABLE in environment:  # the host says that it is not set there
        environment[SHARED_VARIABLE] = ""
    environment["TMPDIR"] = site.temporary
    environment["PATH"] = f"{home}/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return Program(tuple(map(place.mapped, wanted.words)), environment, place.mapped(wanted.folder))
