"""Run a playbook with ansible-runner: live progress from its events, and what each host answered, by task."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.base.errors import HostError
from testbed.base.interrupt import ENDING
from testbed.lab.baremetal.preparing.ansible import PLAYBOOKS, check_installed
from testbed.lab.baremetal.preparing.inventory import Inventory

CONNECT_TIMEOUT_S = 10
FORKS = 32

Tell = Callable[[str], None]
"""Function that takes a line of progress."""


@dataclass
class Played:
    """Outcome of a playbook: by host, the answer of each task; who failed where; who could not be reached, and why."""

    answers: dict[str, dict[str, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    failed: dict[str, dict[str, Any]] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    status: str = ""
    said: str = ""

    def require(self, hosts: Sequence[str], *, allow_missing: bool = False) -> None:
        """Raises HostError: a host could not be reached (unless that is allowed) or failed; all of them are named."""
        problems = {name: explained(answer) for name, answer in self.failed.items()}
        if not allow_missing:
            problems |= {name: _unreachable(text) for name, text in self.unreachable.items()}
        if problems:
            raise HostError(
                "\n".join(f"{name}: {problem}" for name, (problem, _) in sorted(problems.items())),
                fix=_fixes({name: fix for name, (_, fix) in sorted(problems.items())}),
            )
        if self.status != "successful" and not self.unreachable:
            raise HostError(f"Ansible failed: {self.said[-2000:]}", fix="see what it says above")
        if allow_missing and len(self.unreachable) == len(hosts):
            raise HostError("no host can be reached", fix="see to the network, and to the inventory")


def play(
    name: str,
    inventory: Inventory,
    variables: Mapping[str, Any],
    control: Path,
    tell: Tell = lambda _: None,
    *,
    check: bool = False,
    limit: Sequence[str] = (),
) -> Played:
    """Run ``playbooks/NAME.yml``; ``control`` is where SSH's connections are shared. Raises MissingToolError: Ansible
    or its playbooks are not installed."""
    check_installed()
    from ansible_runner import run  # an extra

    played, progress = Played(), _Progress(name, tell)

    def event(one: dict[str, Any]) -> bool:
        _note(played, one)
        progress.note(one)
        return False

    with tempfile.TemporaryDirectory(prefix="testbed-play-") as folder, _signals_put_off() as told_to_end:
        done = run(
            private_data_dir=folder,
            playbook=str(PLAYBOOKS / f"{name}.yml"),
            inventory=str(inventory.path),
            extravars=dict(variables),
            limit=",".join(limit) or None,
            cmdline=f"--forks {FORKS}" + (" --check" if check else ""),
            envvars={**inventory.passwords, **environment(control)},
            event_handler=event,
            cancel_callback=told_to_end,
            quiet=True,
        )
        played.status = done.status
        played.said = done.stdout.read() if done.rc and not played.failed else ""
    progress.end()
    return played


@contextmanager
def _signals_put_off() -> Iterator[Callable[[], bool]]:
    """Put off signals that end us until Ansible has ended, and yield a function that says whether one has come. An
    exception in the middle of ansible-runner would leave its processes, and by itself it takes these signals and never
    gives them back."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: came.append(number))
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


def environment(control: Path) -> dict[str, str]:
    """Environment of Ansible's programs."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"),
        "ANSIBLE_SSH_CONTROL_PATH": f"{control}/%%C",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(control),
        "ANSIBLE_TIMEOUT": str(CONNECT_TIMEOUT_S),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_HOST_KEY_CHECKING": "True",  # ansible-runner would turn it off
    }


def _note(played: Played, event: Mapping[str, Any]) -> None:
    data = event.get("event_data") or {}
    host, answer = data.get("host"), data.get("res") or {}
    if host is None:
        return
    if event["event"] == "runner_on_ok":
        played.answers[host][data["task"]] = answer
        played.changed[host] += bool(answer.get("changed"))
    elif event["event"] == "runner_on_failed" and not data.get("ignore_errors"):
        played.failed.setdefault(host, {"task": data["task"], **answer})  # what comes after puts things in order
    elif event["event"] == "runner_on_unreachable":
        played.unreachable[host] = str(answer.get("msg", ""))


class _Progress:
    """Progress of a playbook: tells a line for each task, when the next begins."""

    def __init__(self, name: str, tell: Tell) -> None:
        self._name, self._tell = name, tell
        self._task, self._counts = "", {"ok": 0, "changed": 0, "failed": 0, "unreachable": 0}

    def note(self, event: Mapping[str, Any]) -> None:
        kind, data = event["event"], event.get("event_data") or {}
        if kind == "playbook_on_task_start":
            self.end()
            self._task = data.get("task", "")
        elif kind == "runner_on_ok":
            self._counts["changed" if (data.get("res") or {}).get("changed") else "ok"] += 1
        elif kind in ("runner_on_failed", "runner_on_unreachable"):
            self._counts[kind.removeprefix("runner_on_")] += 1

    def end(self) -> None:
        counts = ", ".join(f"{count} {what}" for what, count in self._counts.items() if count)
        if self._task and counts:
            self._tell(f"{self._name}: {self._task}: {counts}")
        self._task, self._counts = "", dict.fromkeys(self._counts, 0)


def _fixes(by_host: Mapping[str, str]) -> str:
    """Text of the fixes; where they differ between hosts, a line for each fix, with its hosts."""
    hosts: dict[str, list[str]] = defaultdict(list)
    for name, fix in by_host.items():
        hosts[fix].append(name)
    if len(hosts) == 1:
        return next(iter(hosts))
    return "\n       ".join(f"{', '.join(names)}: {fix}" for fix, names in hosts.items())


def explained(answer: Mapping[str, Any]) -> tuple[str, str]:
    """Find (problem, fix) in what a task that failed says: our own modules know both; Ansible's texts are looked
    through."""
    said = str(answer.get("msg") or answer.get("module_stderr") or "it failed").strip()
    if "rc" in answer and answer.get("stderr"):  # of a command, whose message says only that it failed
        said = str(answer["stderr"]).strip()
    if "fix" in answer:
        return said, str(answer["fix"])
    everything = (
        f"{said} {answer.get('module_stderr', '')} {answer.get('module_stdout', '')} {answer.get('stderr', '')}"
    )
    for pattern, problem, fix in _CAUSES:
        if re.search(pattern, everything, re.IGNORECASE):
            return problem, fix
    return f"{answer.get('task', 'a task')}: {said}", "see what the host says of it"


_CAUSES = (
    (
        r"sudo: (command )?not found|sudo.*No such file",
        "there is no sudo",
        "apt-get install sudo there and allow the user to use it, or take ansible_user: root",
    ),
    (
        r"missing sudo password|a password is required|sudo:.*password",
        "sudo wants a password",
        "allow the user sudo without one (NOPASSWD), or give ansible_become_password",
    ),
    (
        r"not in the sudoers|not allowed to execute",
        "the user may not use sudo",
        "add the user to sudoers there, or take ansible_user: root",
    ),
    (r"no space left on device", "its disk is full", "free some space there"),
    (
        r"(python\S*: )?(command )?not found|no such file or directory.*python|could not find.*python",
        "the Python that the inventory names is not there",
        "correct ansible_python_interpreter",
    ),
)


def _unreachable(said: str) -> tuple[str, str]:
    """Find (problem, fix) in what SSH said when it did not get there."""
    for pattern, problem, fix in (
        (
            r"permission denied",
            "SSH refuses the key",
            "put the public key into the user's ~/.ssh/authorized_keys there, or correct "
            "ansible_user and ansible_ssh_private_key_file",
        ),
        (
            r"host key verification failed|identification has changed",
            "SSH does not know its host key, or another than this",
            "if it is the right machine: ssh-keyscan HOST >> ~/.ssh/known_hosts",
        ),
        (r"connection refused", "no SSH server answers", "start sshd there, or correct ansible_port"),
        (
            r"timed out|timeout|no route to host|network is unreachable",
            f"cannot be reached within {CONNECT_TIMEOUT_S} s",
            "see whether it is on and ansible_host is right; or leave it out: --allow-missing",
        ),
        (
            r"could not resolve",
            "its name has no address",
            "correct ansible_host in the inventory",
        ),
    ):
        if re.search(pattern, said, re.IGNORECASE):
            return problem, fix
    return f"cannot be reached: {said.strip()}", "see whether ssh to it works by hand"
