"""``testbed.up()``: the network of one arm, held for commands on its nodes.

``testbed up`` holds it, in a process of its own, and commands reach it as those of ``testbed exec`` do. The process has
a process group of its own, so that interrupting a command leaves the lab up, and ends when this one does.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.api import process
from testbed.api.spec import Spec, words_of
from testbed.base.errors import LabError, UsageError
from testbed.interactive import reach


class Lab:
    """A lab that is up. Use in ``with``, or call :meth:`close`; it goes with this process at the latest."""

    def __init__(self, holder: subprocess.Popen[str], name: str, topology: str, nodes: Sequence[str]) -> None:
        self._holder, self._name = holder, name
        self.topology = topology
        self.nodes = tuple(nodes)

    def exec(self, node: str, command: str | Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command on a node, and return its ``returncode``, ``stdout`` and ``stderr``. KeyboardInterrupt kills
        it.

        Text is split into words as a shell does; there is no shell, so pipes need ``["sh", "-c", "..."]``.

        Raises:
            UsageError: there is no such node, or the words cannot be told apart.
            LabError: the lab has ended.
        """
        words = _words(command)
        if self._holder.poll() is not None:
            raise LabError(f"the lab {self.topology} has ended", fix="start another one: testbed.up(...)")
        nowhere = Path(os.devnull)
        with nowhere.open("rb") as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            code = reach.execute(node, words, (nothing.fileno(), out.fileno(), err.fileno()), self._name)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(
                words, code, out.read().decode(errors="replace"), err.read().decode(errors="replace")
            )

    def close(self) -> None:
        """Take the lab down, with all that runs in it."""
        process.end(self._holder)
        for pipe in (self._holder.stdin, self._holder.stdout):
            if pipe:
                pipe.close()

    def __repr__(self) -> str:
        return f"<Lab {self.topology}: {'up' if self._holder.poll() is None else 'ended'}>"

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def up(
    spec: Spec,
    *,
    set: Mapping[str, object] | None = None,
    arm: str | int | None = None,
    inventory: str | os.PathLike[str] | None = None,
) -> Lab:
    """Build the network of one arm of a spec, and hold it.

    Args:
        spec, set: as for ``testbed.run()``.
        arm: label or number of the arm; the first by default.
        inventory: an Ansible inventory, for the lab ``baremetal``.

    Raises:
        SpecError: the spec makes no sense.
        TestbedError: the lab cannot be built.
    """
    name = f"python {os.getpid()} {secrets.token_hex(8)}"
    options = {"--arm": arm, "--inventory": inventory}
    words = ["up", "--json", *(f"{option}={value}" for option, value in options.items() if value is not None)]
    with words_of(spec, set) as named:
        holder = subprocess.Popen(
            [*process.COMMAND, *words, *named],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
            env={**os.environ, reach.NAME_VARIABLE: name},
        )
        try:
            assert holder.stdout
            told = process.told(holder.stdout.readline(), holder)
        except BaseException:
            process.end(holder)
            raise
    return Lab(holder, name, told["topology"], told["nodes"])


def _words(command: str | Sequence[str]) -> list[str]:
    try:
        return shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise UsageError(f"{command!r}: {error}", fix="close the quotes, or give a list of words") from None
