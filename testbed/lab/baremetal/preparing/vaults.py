"""Passwords of vaults: where the user's Ansible finds them, for our playbooks have a configuration of their own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from testbed.lab.baremetal.preparing.installed import program

VARIABLES = {
    "DEFAULT_VAULT_PASSWORD_FILE": "ANSIBLE_VAULT_PASSWORD_FILE",
    "DEFAULT_VAULT_IDENTITY": "ANSIBLE_VAULT_IDENTITY",
    "DEFAULT_VAULT_IDENTITY_LIST": "ANSIBLE_VAULT_IDENTITY_LIST",
    "DEFAULT_VAULT_ID_MATCH": "ANSIBLE_VAULT_ID_MATCH",
}
"""Variables of the environment, by Ansible's setting."""
TIMEOUT_S = 60.0


def passwords() -> dict[str, str]:
    """Variables for Ansible's environment, so that it has the passwords from wherever it runs.

    Raises:
        MissingToolError: Ansible is not installed.
    """
    places = (Path("ansible.cfg"), Path.home() / ".ansible.cfg", Path("/etc/ansible/ansible.cfg"))
    named = any(name in os.environ for name in ("ANSIBLE_CONFIG", *VARIABLES.values()))
    if not named and not any(place.exists() for place in places):
        return {}
    words = [program("ansible-config"), "dump", "--only-changed", "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:  # ansible-inventory says why
        return {}
    settings = {one["name"]: one["value"] for one in json.loads(done.stdout) if "name" in one}
    return {VARIABLES[name]: _text(value) for name, value in settings.items() if name in VARIABLES}


def _text(value: object) -> str:
    return ",".join(map(_absolute, value)) if isinstance(value, list) else str(value)


def _absolute(identity: str) -> str:
    """Make the path of ``LABEL@FILE`` absolute; ``LABEL@prompt`` stays as it is."""
    label, _, source = identity.rpartition("@")
    return f"{label}@{Path(source).resolve()}" if Path(source).is_file() else identity
