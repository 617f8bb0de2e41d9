"""What a host is told of a worker or a program: the words, paths and files of here as they are there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.lab.baremetal.on_hosts.host_requests import HostRequests
from testbed.lab.baremetal.preparing.inventory import Host
from testbed.lab.programs import Launch, Program
from testbed.lab.requests import Call

INTERFACES = "eth"
"""How a topology's ports are called in what workers are told, see :func:`testbed.execution.programs.launches`."""
Files = dict[str, tuple[bytes, int]]
"""By name there, content and mode."""


@dataclass(frozen=True)
class Site:
    """A host while a network is up: ``physical`` has for each address of the topology's plan the one in use, ``number``
    and ``token`` tell the lab's networks, and labs, apart."""

    host: Host
    physical: Mapping[str, str]
    number: int
    token: str

    def log(self, path: str) -> str:
        """Name there of a log."""
        return f"{self.number}/logs/{Path(path).name}"


class Shipment:
    """Where a trial's files are on a host: names there of paths here, and which of them are to be sent."""

    def __init__(self, site: Site, work: Path | None) -> None:
        self._site, self._work = site, work
        self.words: dict[str, str] = dict(site.physical)
        self.files: Files = {}

    def name(self, path: str) -> str:
        """Of a file of the trial's working directory, relative to the agent's."""
        assert self._work is not None
        return f"{self._site.number}/work/{Path(path).absolute().relative_to(self._work)}"

    def mapped(self, value: Any) -> Any:
        """The same with paths and words as they are there; files that are here already are to be sent."""
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


def launching(worker: Launch, site: Site) -> tuple[Call[None], Files, dict[str, Path]]:
    """What an agent is asked for to start a worker, the files that it needs, and, by name there, those here that grow
    as they do."""
    place = Shipment(site, Path(worker.job).parent.absolute() if worker.job else None)
    log, job, samples, outputs = site.log(worker.log), "", None, list[str]()
    followed = {log: Path(worker.log)}
    if worker.job:
        told = json.loads(Path(worker.job).read_text())
        weights = [told["weights"]] if told.get("weights") else []
        job, samples, outputs = place.name(worker.job), place.name(told["samples"]), list(map(place.name, weights))
        followed |= {samples: Path(told["samples"]), **dict(zip(outputs, map(Path, weights), strict=True))}
        place.files[job] = json.dumps(place.mapped(told)).encode(), 0o644
    if not worker.program:
        call = HostRequests.launch(worker.process, job, log, samples, outputs)
    else:
        there = program(worker.program, site, place)
        program_of = there.words, there.environment, there.folder
        call = HostRequests.launch(worker.process, job, log, samples, outputs, *program_of)
    return call, place.files, followed


def program(wanted: Program, site: Site, place: Shipment) -> Program:
    """A program's words, environment and directory as they are there. Its temporary files, such as the cache that
    PyTorch makes, are removed with those of the run."""
    home = site.host.home
    place.words |= {sys.executable: f"{home}/venv/bin/python"}
    place.words |= {f"{INTERFACES}{port}": nic.name for port, nic in enumerate(site.host.nics)}
    environment = {name: place.mapped(value) for name, value in wanted.environment.items() if name != "PATH"}
    environment["TMPDIR"] = f"{home}/work/{site.token}"
    environment["PATH"] = f"{home}/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return Program(tuple(map(place.mapped, wanted.words)), environment, place.mapped(wanted.folder))
