"""Inventories as Ansible reads them, and what this lab wants of their hosts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import testbed
from testbed.base.errors import SpecError
from testbed.lab.baremetal.controller.connection import become, ssh
from testbed.lab.baremetal.preparing import ansible
from testbed.lab.baremetal.preparing.ansible import program
from testbed.lab.baremetal.preparing.inventory import Host, InventoryNic, _list, load, understood

pytest.importorskip("ansible_runner")

GROUPS = """\
all:
  vars: {nics: [{name: eth1}]}
  children:
    racks:
      children:
        rack1: {hosts: {"b[1:2]": {}}, vars: {rack: 1}}
        rack0:
          hosts:
            a9: {}
            a1: {nics: [{name: ib0, address: 10.1.0.1/24, rate: 10 Gbit/s}, {name: m, role: storage}]}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "inventory.yml"
    path.write_text(text)
    return path


def test_groups_ranges_and_variables_are_ansibles(tmp_path: Path) -> None:
    found = load(write(tmp_path, GROUPS))
    assert [host.name for host in found.hosts] == ["b1", "b2", "a9", "a1"]
    assert [host.rack for host in found.hosts] == ["1", "1", None, None]
    assert {host.nics for host in found.hosts[:3]} == {(InventoryNic("eth1"),)}
    assert found.hosts[3].nics == (InventoryNic("ib0", "10.1.0.1", 10**10),)
    assert [host.name for host in found.without(["a1"]).hosts] == ["b1", "b2", "a9"]


@pytest.mark.parametrize(
    ("nics", "said"),
    [
        ("eth1", "a has no training NICs"),
        (["eth1"], "'eth1' is no NIC"),
        ([{"name": "eth1", "adress": "10.0.0.1"}], "eth1 has 'adress'"),
        ([{"name": "eth1", "address": "10.0.0.300"}], "'10.0.0.300' is no IPv4 address"),
        ([{"name": "eth1", "rate": 10}], "10 has no unit"),
        ([{"name": "eth1"}, {"name": "eth1"}], "a has the NIC eth1 twice"),
    ],
)
def test_nics_that_make_no_sense_are_refused(nics: object, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        understood(Path("lab.yml"), {"_meta": {"hostvars": {"a": {"nics": nics}}}, "all": {"hosts": ["a"]}})


@pytest.mark.parametrize(
    ("text", "said"),
    [("all: {hosts: {}}", "the inventory has no hosts"), ("all: [", "Ansible cannot read this inventory")],
)
def test_a_file_without_hosts_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        load(write(tmp_path, text))


def test_an_inventory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no such inventory"):
        load(tmp_path / "none.yml")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, ["a"]),
        ({"ansible_user": None, "ansible_port": None, "ansible_ssh_args": None}, ["a"]),
        ({"ansible_ssh_host": "b", "ansible_ssh_port": 23}, ["-o", 'Port="23"', "b"]),
        ({"ansible_host": "b", "ansible_ssh_host": "c"}, ["c"]),
        (
            {"ansible_ssh_user": "lab", "ansible_private_key_file": "~/a key"},
            ["-o", 'IdentityFile="~/a key"', "-o", 'User="lab"'],
        ),
        ({"ansible_host_key_checking": False}, ["-o", "StrictHostKeyChecking=no", "a"]),
        ({"ansible_host_key_checking": False, "ansible_ssh_host_key_checking": "Yes"}, ["a"]),
        ({"ansible_ssh_extra_args": "-v", "ansible_ssh_args": "-J 'x'"}, ["-J", "x", "-v", "a"]),
    ],
)
def test_ssh_takes_the_names_that_ansible_takes(variables: dict[str, object], words: list[str]) -> None:
    """Of several for one thing the last, as ``ansible all -m raw`` does with an ansible_ssh_executable that tells."""
    plain = ssh(Host("a", (), None, "/home", {}), Path("/c"))[:-1]
    given = ssh(Host("a", (), None, "/home", variables), Path("/c"))
    assert given[: len(plain)] == plain
    assert given[len(plain) :][: len(words)] == words


def test_ssh_may_be_another_program() -> None:
    wrapped = ssh(Host("a", (), None, "/home", {"ansible_ssh_executable": "/opt/ssh"}), Path("/c"))
    assert wrapped == ["/opt/ssh", *ssh(Host("a", (), None, "/home", {}), Path("/c"))[1:]]


def test_sudo_takes_the_names_that_ansible_takes() -> None:
    for name in ansible.PASSWORD:
        assert become(Host("a", (), None, "/home", {"ansible_user": "lab", name: "pw"}))[1] == "pw\n"
    assert become(Host("a", (), None, "/home", {"ansible_ssh_user": "root"})) == ([], "")


PASSWORD = 'sec{{ret "1"'
TEMPLATES = """\
all:
  vars:
    domain: example.org
    eths: [{name: eth1, rate: "{{ 10 * 2 }} Gbit/s"}]
    locked: {a: !unsafe 'o{{ther'}
    ansible_host: "{{ inventory_hostname }}.{{ domain }}"
    ansible_become_password: "{{ locked[inventory_hostname] }}"
    nics: [{name: "eth{{ 1 }}", address: "10.0.0.{{ number }}"}]
  hosts:
    a:
      number: 1
      ansible_port: "{{ 22 + number }}"
      rack: "{% if number %}left{% endif %}"
      testbed_home: "/{{ domain }}"
    b:
      ansible_password: "{{ of_nobody }}"
      nics: "{{ eths }}"
      ansible_become_password: VAULT
"""


@pytest.fixture
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An inventory with PASSWORD in a vault that the user's ansible.cfg opens, below which the test runs."""
    (tmp_path / "opens").write_text("sesame")
    (tmp_path / "ansible.cfg").write_text("[defaults]\nvault_password_file = opens\nlog_path = told\n")
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o700)
    words = [program("ansible-vault"), "encrypt_string", PASSWORD]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return TEMPLATES.replace("VAULT", "!vault " + json.dumps("\n".join(lines[2:]) + "\n"))


def test_templates_and_vaults_are_resolved_as_ansible_does(tmp_path: Path, sealed: str) -> None:
    found = load(write(tmp_path, sealed))
    a, b = found.hosts
    assert ssh(a, Path("/c"))[-3:] == ["-o", 'Port="23"', "a.example.org"]
    assert ssh(b, Path("/c"))[-1] == "b.example.org"
    assert (a.nics, a.rack, a.home) == ((InventoryNic("eth1", "10.0.0.1"),), "left", "/example.org")
    assert b.nics == (InventoryNic("eth1", rate_bps=20 * 10**9),)
    assert [host.variables["ansible_become_password"] for host in found.hosts] == ["o{{ther", PASSWORD]
    assert found.passwords == {"ANSIBLE_VAULT_PASSWORD_FILE": str(tmp_path / "opens")}
    assert not any(PASSWORD in one.read_text() for one in tmp_path.rglob("*") if one.is_file())


UNDEFINED = "define what it needs"
REFUSED = {
    ("ansible_host", "'a.{{ domain }}'"): (r"a: ansible_host: 'a.{{ domain }}' cannot.*domain.* undef", UNDEFINED),
    ("nics", "[{name: '{{ 1 / 0 }}'}]"): (r"a: nics: '{{ 1 / 0 }}' cannot.*: division by zero", UNDEFINED),
    ("ansible_become_pass", "'x{{ vault_pw }}'"): (r"a: ansible_become_pass: cannot.*vault_pw.* undef", UNDEFINED),
    ("ansible_sudo_pass", "VAULT"): ("a: ansible_sudo_pass is in a vault", ansible.VAULT_FIX),
}
"""What is said of a variable and its value, and the fix."""


def test_what_cannot_be_resolved_is_named(tmp_path: Path, sealed: str) -> None:
    (tmp_path / "ansible.cfg").unlink()
    vault = sealed.partition("ansible_become_password: !")[2].partition("\n")[0]
    lines = "".join(f"   {name}: {raw}\n" for name, raw in REFUSED).replace("VAULT", "!" + vault)
    path = write(tmp_path, "all:\n hosts:\n  a:\n" + lines)
    raw = _list(path)["_meta"]["hostvars"]["a"]
    answers = ansible._ask(path, [("a", name) for name, _ in REFUSED], {})
    for (name, _), answer, (said, fix) in zip(REFUSED, answers, REFUSED.values(), strict=True):
        with pytest.raises(SpecError, match=said) as caught:
            ansible._value(path, "a", name, raw[name], answer)
        assert caught.value.fix == fix


def test_older_ansibles_leave_what_is_undefined(tmp_path: Path) -> None:
    raw = [{"name": "eth{{ i }}"}]
    with pytest.raises(SpecError, match=r"a: nics: 'eth{{ i }}' cannot be resolved: a name in it is undefined"):
        ansible._value(tmp_path, "a", "nics", raw, {"value": raw})


def test_a_file_in_a_vault_without_a_password_is_no_bad_yaml(tmp_path: Path, sealed: str) -> None:
    write(tmp_path, sealed)
    subprocess.run([program("ansible-vault"), "encrypt", "inventory.yml"], check=True, capture_output=True)
    (tmp_path / "ansible.cfg").unlink()
    with pytest.raises(SpecError) as caught:
        load(tmp_path / "inventory.yml")
    assert caught.value.fix == ansible.VAULT_FIX


def test_ansible_is_not_asked_where_nothing_is_to_be_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ansible, "_ask")
    load(write(tmp_path, "all: {vars: {message: '{{ not_ours }}'}, hosts: {a: {nics: [{name: eth1}]}}}"))


@pytest.mark.parametrize("words", [["hosts", "prepare"], ["clean"]])
def test_a_package_without_playbooks_says_so(tmp_path: Path, words: list[str]) -> None:
    package = Path(testbed.__file__).parent
    shutil.copytree(package, tmp_path / "testbed", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "testbed", *words, "--inventory", str(write(tmp_path, GROUPS))],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert f"there are no playbooks in {tmp_path / 'playbooks'}" in done.stderr
    assert "install testbed from its source tree" in done.stderr
