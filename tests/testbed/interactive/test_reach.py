"""Holding a lab, and reaching it from elsewhere."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from testbed.base.errors import LabError, MissingToolError, PrivilegeError, TestbedError, UsageError
from testbed.interactive import reach
from testbed.lab.mininet.lab import check_installed
from testbed.topologies.build import build
from tests.patience import PATIENCE_S, until

from ..conftest import SPEC, Called

COMMAND = [sys.executable, "-c", "from testbed.cli import main; main()"]


def test_the_nearest_node_is_suggested() -> None:
    topology = build("bcube(n=3,k=2)", rate_bps=10**9)
    assert reach.find_node(topology, "h3") == 3
    with pytest.raises(UsageError) as error:
        reach.find_node(topology, "h33")
    assert str(error.value) == "bcube(n=3,k=2) has no node 'h33'\n  fix: did you mean 'h3'?"
    with pytest.raises(UsageError, match=r"h8, s0\.0, s0\.1, s0\.2 and 3 more"):
        reach.find_node(topology, "server")


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A lab of three hosts, up, where no other test and no person meets it."""
    monkeypatch.setenv(reach.NAME_VARIABLE, tmp_path.name)
    (tmp_path / "spec.yaml").write_text(SPEC)
    process = subprocess.Popen(
        [*COMMAND, "up", "spec.yaml"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "star(hosts=3) is up: hosts h0 to h2, 1 switch\n"
    yield process
    process.kill()
    process.communicate()


def execute(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "exec", *arguments], input=given, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.lab
def test_commands_run_on_nodes_with_the_callers_input_output_and_status(held: subprocess.Popen[str]) -> None:
    assert execute("h0", "--", "cat", given="hello\n").stdout == "hello\n"
    failed = execute("h1", "--", "sh", "-c", "echo oops >&2; exit 7")
    assert (failed.stderr, failed.returncode) == ("oops\n", 7)
    assert execute("h2", "--", "sh", "-c", "kill -9 $$").returncode == 128 + 9
    missing = execute("h0", "--", "no-such-thing")
    assert (missing.returncode, missing.stderr) == (
        127,
        "h0: cannot start no-such-thing: No such file or directory\n"
        "  fix: give a program that the node has (in the lab netns those of this machine), or the path of a file that "
        "may be executed\n",
    )
    ping = execute("h0", "--", "ping", "-c", "1", "h2")
    assert "1 received" in ping.stdout
    unknown = execute("h7", "--", "true")
    assert (unknown.returncode, unknown.stderr) == (
        2,
        "error: star(hosts=3) has no node 'h7'\n  fix: the nodes are h0, h1, h2, s0\n",
    )
    assert held.poll() is None


@pytest.mark.lab
def test_a_second_lab_is_refused_and_ctrl_c_takes_the_first_down(held: subprocess.Popen[str], tmp_path: Path) -> None:
    second = subprocess.run(
        [*COMMAND, "up", "spec.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert second.returncode == 2
    assert second.stderr == "error: a lab is up already\n  fix: end the other testbed up with Ctrl-C first\n"
    held.send_signal(signal.SIGINT)
    out, _ = held.communicate(timeout=PATIENCE_S)
    assert held.returncode == 0
    assert out.endswith("the lab is gone\n")
    assert execute("h0", "--", "true").stderr.startswith("error: no lab is up\n")


@pytest.mark.lab
def test_a_command_ends_with_its_caller_and_the_address_with_the_lab(held: subprocess.Popen[str]) -> None:
    seconds = str(10**6 + os.getpid())
    caller = subprocess.Popen([*COMMAND, "exec", "h0", "--", "sleep", seconds], stdin=subprocess.DEVNULL)
    runs = partial(subprocess.run, ["pgrep", "-f", f"^sleep {seconds}$"], stdout=subprocess.DEVNULL)
    until(lambda: runs().returncode == 0)
    caller.kill()
    caller.wait()
    until(lambda: runs().returncode == 1)
    held.kill()
    held.communicate()
    assert execute("h0", "--", "true").stderr.startswith("error: no lab is up\n")


class NoLab:
    """A lab that runs nothing."""

    def fileno(self) -> int:
        return -1

    def attach(self, node: int, command: Sequence[str], files: tuple[int, int, int]) -> reach.Command:
        raise LabError(f"node {node} runs no {command[0]}, into {files}")


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where processes of this user meet; its path is longer than a socket's may be."""
    folder = tmp_path / ("x" * 120)
    folder.mkdir(mode=0o700)
    monkeypatch.setenv(reach.RUNTIME_VARIABLE, str(folder))
    return folder


def doorway() -> reach.Doorway:
    return reach.Doorway(NoLab(), build("star(hosts=3)", rate_bps=10**9))


def refusal(node: str) -> str:
    """What ``exec`` says, from another thread than the lab's, which answers one caller."""
    with pytest.raises(TestbedError) as caught:
        reach.execute(node, ["true"])
    return caught.value.problem


def test_what_a_killed_lab_has_left_is_in_nobodys_way(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(reach.NAME_VARIABLE, "../../etc/passwd")
    with closing(doorway()):
        with pytest.raises(UsageError, match="a lab is up already"):
            doorway()
        monkeypatch.setenv(reach.NAME_VARIABLE, "another")
        with closing(doorway()):
            assert len(list((runtime / "testbed").iterdir())) == 2
    assert list((runtime / "testbed").iterdir()) == []
    assert refusal("h0") == "no lab is up"
    left = reach.place()
    left.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as killed:
        monkeypatch.chdir(left)
        killed.bind(reach.SOCKET)
    assert refusal("h0") == "no lab is up"
    with closing(doorway()):
        pass
    assert not left.exists()


def test_a_lab_is_found_where_its_path_is_long(runtime: Path) -> None:
    with closing(doorway()) as one:
        threading.Thread(target=lambda: one._answer(one._socket.accept()[0])).start()
        assert refusal("h9").startswith("star(hosts=3) has no node 'h9'")
        threading.Thread(target=lambda: one._answer(one._socket.accept()[0])).start()
        assert refusal("h1").startswith("node 1 runs no true")
    assert [path.name for path in runtime.iterdir()] == ["testbed"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_user_who_was_there_first_blocks_nobody_with_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(reach.RUNTIME_VARIABLE, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if Path("/run/user/0").exists():
        pytest.skip("the system has a folder for root")
    taken, home = tmp_path / "testbed-0", tmp_path / "home"
    taken.mkdir(mode=0o777)
    os.chown(taken, 65534, 65534)
    home.mkdir(mode=0o755)
    entry = list(pwd.getpwuid(0))
    entry[5] = str(home)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd(entry))
    with closing(doorway()):
        assert reach.place().is_relative_to(home / ".cache")
    os.chown(home, 65534, 65534)
    for call in (doorway, lambda: reach.execute("h0", ["true"])):
        with pytest.raises(PrivilegeError, match="testbed-0 belongs to the user 65534") as caught:
            call()
        assert "XDG_RUNTIME_DIR" in (caught.value.fix or "")


@pytest.mark.usefixtures("runtime")
def test_a_name_that_every_user_may_take_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Abstract sockets belong to nobody: who binds a name first has it."""
    monkeypatch.setenv(reach.NAME_VARIABLE, tmp_path.name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as first:
        first.bind(f"\0testbed-up-{os.getuid()}-{tmp_path.name}")
        with closing(doorway()):
            pass


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"[]",
        b"\xff",
        b"{",
        b"[" * 100_000,
        b'{"node": 1, "command": ["a"]}',
        b'{"node": "h0"}',
        b'{"node": "h0", "command": []}',
        b'{"node": "h0", "command": [1]}',
        b'{"node": "h0", "command": ["a\\u0000"]}',
        b'{"node": "h0", "command": ["\\ud800"]}',
    ],
    ids=range(11),
)
def test_what_asks_for_no_command_is_refused(message: bytes) -> None:
    with pytest.raises(UsageError, match="asks for no command"):
        reach.asked(message)
    with pytest.raises(LabError, match="which is no status"):
        reach.status(message)


@pytest.mark.lab
def test_a_lab_whose_process_dies_is_not_held_any_longer(held: subprocess.Popen[str]) -> None:
    (launcher,) = map(int, Path(f"/proc/{held.pid}/task/{held.pid}/children").read_text().split())
    os.kill(launcher, signal.SIGKILL)
    _, said = held.communicate(timeout=PATIENCE_S)
    assert held.returncode == 1
    assert said == (
        "error: the lab's process ended (SIGKILL), and everything in the lab with it\n  fix: start the lab again\n"
    )
    assert execute("h0", "--", "true").stderr.startswith("error: no lab is up\n")


@pytest.mark.lab
def test_mininets_command_line_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        check_installed()
    except MissingToolError as error:
        pytest.skip(str(error))
    monkeypatch.setenv(reach.NAME_VARIABLE, tmp_path.name)
    (tmp_path / "spec.yaml").write_text(SPEC)
    done = subprocess.run(
        [*COMMAND, "up", "spec.yaml", "--backend", "mininet", "--cli"],
        cwd=tmp_path,
        input="nodes\nh0 ping -c 1 h2\nexit\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "h0 h1 h2 s0" in said
    assert "1 received" in said


def test_other_labs_have_no_command_line(testbed: Callable[..., Called], spec_file: Path) -> None:
    assert testbed("up", str(spec_file), "--cli") == Called(
        2, "", "error: --cli: the lab netns has no command line\n  fix: take --backend mininet, or testbed exec\n"
    )
