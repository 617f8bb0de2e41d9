"""Agents on this machine, without SSH between them and us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[4]


class Agent:
    """One, and the pipes that SSH would be."""

    def __init__(self, work: Path, owner: str, environment: Mapping[str, str] | None = None) -> None:
        words = [sys.executable, "-P", "-m", "testbed.lab.baremetal.on_hosts.agent", str(work), owner]
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        )
        self.told: list[dict[str, Any]] = []
        """What it told unasked."""

    def answer(self, do: str, **fields: object) -> dict[str, Any]:
        """All of an answer."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"id": 0, "do": do, **fields}).encode() + b"\n")
        self.process.stdin.flush()
        while "id" not in (message := self.read()):
            self.told.append(message)
        return message

    def ask(self, do: str, **fields: object) -> Any:
        """The result of a request that can be done."""
        return self.answer(do, **fields)["result"]

    def read(self) -> dict[str, Any]:
        """The next line that it says."""
        assert self.process.stdout
        for line in self.process.stdout:
            if line.strip():
                found: dict[str, Any] = json.loads(line)
                return found
        raise AssertionError("it has ended")

    def start(self, script: str, log: str = "log") -> int:
        """Start a program of the user's; its PID."""
        return int(self.ask("start", words=["sh", "-c", script], environment={}, folder="/", log=log))

    def run(self, script: str, log: str = "log") -> None:
        """The same, to its end."""
        pid = self.start(script, log)
        while self.told[-1:] != [{"ended": pid, "status": 0}]:
            self.told.append(self.read())
