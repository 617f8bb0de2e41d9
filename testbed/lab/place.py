"""Facts that the rest of testbed knows of a lab without opening it: a :class:`DeclaredPlace`, which each lab's
folder has.

``testbed/lab/NAME/place.py`` has ``PLACE``, an instance of a subclass. That module is imported whenever a spec is read,
so it imports what it needs for opening only when it opens. :mod:`testbed.lab.choice` finds all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.base.errors import TestbedError
from testbed.lab.limits import HTB, Limits

if TYPE_CHECKING:
    from testbed.lab.base import Lab, LinkSettings
    from testbed.topologies.model import Topology


@dataclass(frozen=True)
class Opening:
    """Facts that a lab may need when it is opened; each lab takes what concerns it.

    Attributes:
        options: what the spec says under the lab's name, an instance of :attr:`DeclaredPlace.options`; None takes
            defaults.
        every_address: whether hosts should reach each other at all their addresses, for people who try things, and for
            scripts, whose rendezvous knows one address of a host.
        inventory: the Ansible inventory, for a lab that takes one.
        allow_missing: leave out machines that cannot be reached, rather than refuse.
        tell: takes a line of progress.
    """

    options: Any = None
    every_address: bool = False
    inventory: Path | None = None
    allow_missing: bool = False
    tell: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class Prerequisite:
    """Result of one check of ``testbed doctor``: whether the thing is as wished, what was found, and what to do if it
    is not. Without a thing that is ``needed`` no experiment runs."""

    name: str
    ok: bool
    detail: str
    fix: str | None = None
    needed: bool = False


@dataclass(frozen=True)
class Leftover:
    """A thing that a run has made on this machine, and whose process is gone. ``id`` is for the lab that made it."""

    lab: str
    name: str
    state: str
    owner_pid: int
    id: str | None


@dataclass(frozen=True)
class Portion:
    """Nodes of a network that are on one machine, by name, and the sum of the rates of their links to other machines
    (bit/s, in one direction)."""

    machine: str
    nodes: tuple[str, ...]
    crossing_bps: int


@dataclass(frozen=True)
class DeclaredPlace:
    """A lab, or a program that plays trials, as its folder declares it. A subclass overrides what does not fit.

    Attributes:
        name: what a spec's ``lab`` and ``--backend`` say.
        options: a frozen dataclass of the lab's own settings, which a spec has under the lab's name; see
            :mod:`testbed.spec.options`. None if there are none.
        limits: the networks that it can hold, which ``plan`` asks; an open place says its own.
        is_here: whether its processes run on this machine, with its cores and its kernel.
        has_programs: whether its hosts have the programs and packages of this machine.
        forwards: whether its hosts pass on what is meant for others.
        has_agent: whether a process on one host can start others on other hosts (:meth:`testbed.lab.base.Lab.agent`).
        has_command_line: whether it has a command line of its own (:meth:`command_line`).
        has_sockets: whether a process there reaches a Unix socket of this machine, in the trial's work folder.
        takes_inventory: whether its hosts are the machines of an Ansible inventory.
        plays: whether it only plays trials, so that nothing can be started there.
        varies: whether a trial that is repeated can have other numbers under every scheme. Where it cannot, each trial
            runs once, if nothing in it is drawn by lot (:attr:`testbed.spec.model.Spec.varies`).
    """

    name: str
    options: type[Any] | None = None
    limits: Limits = HTB
    is_here: bool = True
    has_programs: bool = True
    forwards: bool = True
    has_agent: bool = True
    has_command_line: bool = False
    has_sockets: bool = False
    takes_inventory: bool = False
    plays: bool = False
    varies: bool = True

    @property
    def option(self) -> str:
        """The option of the command line that chooses it."""
        return "--inventory FILE" if self.takes_inventory else f"--backend {self.name}"

    def open(self, opening: Opening) -> Lab:
        """Make the lab, with no network yet; or, where it only plays trials, what runs them
        (``testbed.execution.place.Place``).

        Raises:
            MissingToolError: what it needs is not installed.
            PrivilegeError: this user may not have such a lab.
            UsageError: something that it must know is missing.
        """
        raise NotImplementedError

    def portions(self, opening: Opening) -> Callable[[Topology, LinkSettings], Sequence[Portion]]:
        """Read the opening's inventory, and make a function that says which nodes of a network each machine has; no
        machine is asked. Only for a place that takes an inventory.

        Raises:
            TestbedError: the inventory makes no sense. The function raises SpecError if the spec places a node that is
                not there, or on no machine, or if these machines cannot have such a network.
        """
        raise NotImplementedError

    def check(self) -> str | None:
        """Look whether this machine can have the lab; return more to say about it.

        Raises:
            TestbedError: it cannot.
        """
        return None

    def checks(self) -> Iterable[Prerequisite]:
        """Return the lab's lines in ``testbed doctor``."""
        try:
            more = self.check()
        except TestbedError as error:
            return [Prerequisite(f"lab {self.name}", False, f"{self.option}: {error.problem}", error.fix)]
        return [Prerequisite(f"lab {self.name}", True, f"{self.option}: ready{f'; {more}' if more else ''}")]

    def lacks(self, module: str, python: str, options: Any) -> str:
        """Say how a Python module is added that a host's process lacks; ``python`` is that of this machine which the
        trial names, and ``options`` are the spec's for this lab."""
        del options
        return f"{python} has no module {module}: {python} -m pip install {module}"

    def command_line(self, lab: Any) -> None:
        """Run the lab's own command line on this terminal, until the user leaves it; ``lab`` is what :meth:`open`
        made."""
        raise NotImplementedError

    def leftovers(self) -> tuple[list[Leftover], list[str]]:
        """Find what killed runs have left of this lab on this machine, and reasons why something could not be looked
        at.

        Raises:
            LabError: what has to be asked answers with an error.
        """
        return [], []

    def remove(self, leftover: Leftover) -> None:
        """Remove one of :meth:`leftovers`.

        Raises:
            LabError: it cannot be removed.
        """
        raise NotImplementedError

    def leftovers_on_machines(self, inventory: Path, *, remove: bool, allow_missing: bool) -> list[dict[str, str]]:
        """Find, and with ``remove`` remove, what killed runs have left on the machines of an inventory: ``host``,
        ``what``, ``owner``, ``since``.

        Raises:
            TestbedError: the inventory makes no sense, or a machine cannot be looked at.
        """
        raise NotImplementedError
