"""Ansible's programs: whether they are here, what they make of a host's variables, and the passwords of vaults.

``ansible-inventory`` leaves templates and vaults in variables as they are. Passwords are looked for where the user's
Ansible finds them, for our playbooks, which are not in the package, have a configuration of their own.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.base.errors import MissingToolError, SpecError
from testbed.base.extras import install
from testbed.base.python import PACKAGE

PLAYBOOKS = PACKAGE.parent / "playbooks"
INSTALL = install("baremetal")
NEEDED_BY = "an inventory, as for the lab baremetal and --on ssh://, needs"
ADDRESS = ("ansible_host", "ansible_ssh_host")
"""Names that Ansible's ssh connection takes for one thing; of several that a host has, the last: see :func:`given`."""
PORT = ("ansible_port", "ansible_ssh_port")
USER = ("ansible_user", "ansible_ssh_user")
KEY = ("ansible_private_key_file", "ansible_ssh_private_key_file")
PASSWORD = ("ansible_become_password", "ansible_become_pass", "ansible_sudo_pass")
ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
"""Arguments of ssh, which are added up."""
PROGRAM = ("ansible_ssh_executable",)
HOST_KEYS = ("ansible_host_key_checking", "ansible_ssh_host_key_checking")
USED = (
    *(*ADDRESS, *PORT, *USER, *KEY, *PASSWORD, *ARGUMENTS, *PROGRAM, *HOST_KEYS),
    *("nics", "rack", "testbed_home", "testbed_python"),
)
"""Names of all variables of a host that testbed itself reads; Ansible resolves the others when a playbook uses them."""
Variables = Mapping[str, Any]
"""Variables of a host, by name."""
RESOLVE_TIMEOUT_S = 60.0
TEMPLATE = re.compile(r"\{[{%#]")
VAULT, UNSAFE = "__ansible_vault", "__ansible_unsafe"
"""Keys of the dicts that ``ansible-inventory`` makes of ``!vault`` and ``!unsafe``."""
OURS = {
    "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"),
    "ANSIBLE_STDOUT_CALLBACK": "default",
    "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
    "ANSIBLE_DISPLAY_OK_HOSTS": "true",
    "ANSIBLE_LOG_PATH": os.devnull,
}
"""Settings of Ansible that replace the user's: Ansible is to tell us, and, since there are secrets in it, nobody
else."""
LISTENERS = "ANSIBLE_CALLBACKS_ENABLED"
"""Setting that may not be empty, so it is left out."""
VAULT_FIX = "give the vault's password as for Ansible: ANSIBLE_VAULT_PASSWORD_FILE=FILE"
VAULT_VARIABLES = {
    "DEFAULT_VAULT_PASSWORD_FILE": "ANSIBLE_VAULT_PASSWORD_FILE",
    "DEFAULT_VAULT_IDENTITY": "ANSIBLE_VAULT_IDENTITY",
    "DEFAULT_VAULT_IDENTITY_LIST": "ANSIBLE_VAULT_IDENTITY_LIST",
    "DEFAULT_VAULT_ID_MATCH": "ANSIBLE_VAULT_ID_MATCH",
}
"""Variables of the environment, by Ansible's setting."""
DUMP_TIMEOUT_S = 60.0


def program(name: str) -> str:
    """Path of a program of Ansible's, beside the Python that runs testbed. Raises MissingToolError: it is not there."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise MissingToolError(f"{NEEDED_BY} {name}, which is not installed", fix=INSTALL)
    return str(path)


def check_installed() -> None:
    """Raises MissingToolError: Ansible, ansible-runner, ssh or the playbooks are not there."""
    program("ansible-playbook")
    if importlib.util.find_spec("ansible_runner") is None:
        raise MissingToolError(f"{NEEDED_BY} ansible-runner, which is not installed", fix=INSTALL)
    if shutil.which("ssh") is None:
        raise MissingToolError(f"{NEEDED_BY} ssh, which is not installed", fix="apt-get install openssh-client")
    if not PLAYBOOKS.is_dir():
        raise MissingToolError(f"there are no playbooks in {PLAYBOOKS}", fix="install testbed from its source tree")


def given(variables: Variables, names: Sequence[str]) -> Any:
    """Value that a host has under one of several names, as Ansible chooses; None if it has none."""
    return next((variables[name] for name in reversed(names) if variables.get(name) is not None), None)


def resolved(path: Path, by_host: Mapping[str, Variables], passwords: Mapping[str, str]) -> Mapping[str, Variables]:
    """Resolve the variables that we use; the others stay. Ansible is asked only if there is a template or vault in
    them.

    Args:
        path: the inventory.
        by_host: what ``ansible-inventory`` says.
        passwords: of :func:`passwords`.

    Raises:
        SpecError: one cannot be resolved, or that takes too long.
        MissingToolError: Ansible is not installed.
    """
    wanted = [(host, name) for host, one in by_host.items() for name in USED if is_unresolved(one.get(name))]
    if not wanted:
        return by_host
    found: dict[str, dict[str, Any]] = {host: dict(one) for host, one in by_host.items()}
    for (host, name), answer in zip(wanted, _ask(path, wanted, passwords), strict=True):
        found[host][name] = _value(path, host, name, by_host[host][name], answer)
    return found


def is_unresolved(raw: object) -> bool:
    """Whether a value, as ``ansible-inventory`` says it, is not what Ansible takes for it, or something in it."""
    if isinstance(raw, dict):
        return VAULT in raw or UNSAFE in raw or any(map(is_unresolved, raw.values()))
    if isinstance(raw, list):
        return any(map(is_unresolved, raw))
    return isinstance(raw, str) and TEMPLATE.search(raw) is not None


def is_locked(said: str) -> bool:
    """Whether Ansible says that it lacks a vault's password."""
    return re.search(r"vault\s+(exception|password|secret)|decrypt", said, re.IGNORECASE) is not None


def _value(path: Path, host: str, name: str, raw: object, answer: Mapping[str, Any]) -> Any:
    templates = list(_templates(raw))
    if "problem" in answer:
        why = re.sub(r"^A captured exception marker.*?: ", "", answer["problem"])
    elif set(templates) & set(_templates(answer["value"])):  # so up to Ansible 2.18
        why = "a name in it is undefined"
    else:
        return answer["value"]
    if is_locked(why):
        raise SpecError(f"{path}: {host}: {name} is in a vault, and no password opens it", fix=VAULT_FIX)
    shown = f"{templates[0]!r} " if templates and name not in PASSWORD else ""
    raise SpecError(f"{path}: {host}: {name}: {shown}cannot be resolved: {why}", fix="define what it needs")


def _templates(value: object) -> Iterator[str]:
    if isinstance(value, str) and TEMPLATE.search(value):
        yield value
    elif isinstance(value, list | dict) and UNSAFE not in value:
        for one in value.values() if isinstance(value, dict) else value:
            yield from _templates(one)


def _ask(path: Path, wanted: Sequence[tuple[str, str]], passwords: Mapping[str, str]) -> list[dict[str, Any]]:
    """Ask Ansible for a value or problem of each; only their names touch a disk."""
    with tempfile.NamedTemporaryFile("w", prefix="testbed-", suffix=".json") as names:
        json.dump({"testbed_wanted": wanted}, names)
        names.flush()
        words = [program("ansible-playbook"), "-i", str(path), "-e", f"@{names.name}", str(PLAYBOOKS / "resolve.yml")]
        theirs = {name: value for name, value in os.environ.items() if name != LISTENERS}
        done = _run(path, words, {**theirs, **passwords, **OURS})
    answer = re.search(r"testbed:([A-Za-z0-9+/=]+)", done.stdout)
    if answer is None:
        raise SpecError(f"{path}: Ansible resolves no variables: {complaint(done)}", fix="see what it says of it")
    return list(json.loads(base64.b64decode(answer[1])))


def _run(path: Path, words: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=RESOLVE_TIMEOUT_S, env=environment)
    except subprocess.TimeoutExpired:
        raise SpecError(
            f"{path}: its variables are not resolved within {RESOLVE_TIMEOUT_S:g} s", fix="see which lookup is slow"
        ) from None


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The line in which one of Ansible's programs says why it failed; or all that it says."""
    said = done.stderr or done.stdout
    return next((line for line in said.splitlines() if line.startswith(("ERROR", "[ERROR"))), said).strip()


def passwords() -> dict[str, str]:
    """Variables for Ansible's environment, so that it has the passwords from wherever it runs. Raises MissingToolError:
    Ansible is not installed."""
    places = (Path("ansible.cfg"), Path.home() / ".ansible.cfg", Path("/etc/ansible/ansible.cfg"))
    named = any(name in os.environ for name in ("ANSIBLE_CONFIG", *VAULT_VARIABLES.values()))
    if not named and not any(place.exists() for place in places):
        return {}
    words = [program("ansible-config"), "dump", "--only-changed", "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DUMP_TIMEOUT_S)
    if done.returncode:  # ansible-inventory says why
        return {}
    settings = {one["name"]: one["value"] for one in json.loads(done.stdout) if "name" in one}
    return {
        VAULT_VARIABLES[name]: ",".join(map(_absolute, value)) if isinstance(value, list) else str(value)
        for name, value in settings.items()
        if name in VAULT_VARIABLES
    }


def _absolute(identity: str) -> str:
    """Make the path of ``LABEL@FILE`` absolute; ``LABEL@prompt`` stays as it is."""
    label, _, source = identity.rpartition("@")
    return f"{label}@{Path(source).resolve()}" if Path(source).is_file() else identity
