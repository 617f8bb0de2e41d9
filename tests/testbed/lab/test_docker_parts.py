"""What the lab of containers is made of, without a daemon; and what a user reads who has none."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import LabError, MissingToolError, SpecError, TestbedError
from testbed.lab.docker import daemon, image, inside, listener
from testbed.lab.docker import lab as lab_module
from testbed.lab.docker.container import Container, ContainerSettings, check_limits, confinement, names
from testbed.lab.docker.daemon import Daemon, Owner
from testbed.lab.docker.lab import for_all
from testbed.lab.docker.listener import Listener
from testbed.lab.docker.place import Containers
from testbed.lab.docker.wire import Wire, WireClosedError
from testbed.lab.netns.on_nodes.attached import Attached
from testbed.lab.netns.on_nodes.processes import STATUS, Files
from testbed.lab.programs import Program
from tests.patience import until

from ..conftest import SPEC, Called, testbed

__all__ = ["testbed"]  # a fixture


def test_a_process_is_told_from_a_later_one_of_the_same_number() -> None:
    me = Owner.of(os.getpid())
    assert me is not None
    assert me == Owner.of(os.getpid()) == Owner.parse(str(me))
    assert me.may_live()
    child = subprocess.Popen(["sleep", "100"])
    its = Owner.of(child.pid)
    assert its is not None
    assert its.may_live()
    child.kill()
    child.wait()
    assert Owner.of(child.pid) is None
    assert not its.may_live()
    pid, ticks, boot, namespace = str(me).split("/")
    assert not Owner.parse(f"{pid}/{int(ticks) + 1}/{boot}/{namespace}").may_live()
    assert not Owner.parse(f"{pid}/{ticks}/another-start/{namespace}").may_live()
    # In another PID namespace, numbers say nothing: better to leave it alone.
    assert Owner.parse(f"999999999/{ticks}/{boot}/{int(namespace) + 1}").may_live()


@pytest.mark.parametrize(
    ("cpus", "memory_bytes", "problem"),
    [
        (1.0, 2**30, None),
        (1.0, 2**30 - 4095, None),  # the kernel counts in pages
        (None, 2**30, "h1: asked for 1 CPUs, the kernel has None"),
        (2.0, 2**30, "h1: asked for 1 CPUs, the kernel has 2.0"),
        (1.0, None, "h1: asked for 1073741824 B of memory, the kernel has None"),
        (1.0, 2**31, "h1: asked for 1073741824 B of memory, the kernel has 2147483648"),
    ],
)
def test_a_limit_that_the_kernel_does_not_have_is_found(
    cpus: float | None, memory_bytes: int | None, problem: str | None
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        said = {"python": "python3", "cpus": cpus, "memory_bytes": memory_bytes}
        container = Container("h1", Wire(ours), os.dup(0), said)
        if problem is None:
            check_limits(container, Containers())
        else:
            with pytest.raises(LabError) as caught:
                check_limits(container, Containers())
            assert caught.value.problem == problem
        os.close(container.namespace)


def test_the_image_has_the_links_of_the_root_and_no_program(tmp_path: Path) -> None:
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "bin" / "sh").write_text("")
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "lib64").mkdir()
    (tmp_path / "home").mkdir()
    made = image.archive(tmp_path)
    assert made == image.archive(tmp_path)
    with tarfile.open(fileobj=io.BytesIO(made)) as tar:
        found = {one.name: one for one in tar}
    assert set(found) == {*image.FOLDERS, *image.FILES, "usr", "bin", "lib64"}
    assert (found["bin"].issym(), found["bin"].linkname) == (True, "usr/bin")
    assert found["usr"].isdir()
    assert found["tmp"].mode == 0o1777
    assert image.local_name() == image.local_name()


def test_what_containers_read_is_mounted_once() -> None:
    paths = [Path("/usr"), Path("/usr/local"), Path("/opt/a"), Path("/opt/ab"), Path("/usr")]
    assert image.outermost(paths) == [Path("/opt/a"), Path("/opt/ab"), Path("/usr")]
    found = image.read_only()
    for needed in (Path(sys.executable), Path(image.__file__), Path(os.__file__), Path("/usr/bin")):
        assert any(needed.resolve().is_relative_to(one) for one in found), needed
    assert Path("/") not in found
    assert Path(image.python()).exists()


def test_names_of_hosts_are_taken_from_the_hosts_file() -> None:
    text = "127.0.0.1 localhost\n10.0.0.1 h0 h0-eth0\n10.0.0.2 h1 h1-eth0\n"
    assert names(text) == {"h0": "10.0.0.1", "h0-eth0": "10.0.0.1", "h1": "10.0.0.2", "h1-eth0": "10.0.0.2"}


def test_messages_keep_apart_and_carry_files() -> None:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    a, b = map(Wire, pair)
    a.send(["one", {"x": 1}])
    a.send(["two"], [0])
    assert b.receive() == (["one", {"x": 1}], [])
    message, (fd,) = b.receive()
    os.close(fd)
    assert message == ["two"]
    with pytest.raises(TimeoutError):
        b.receive(0.01)
    pair[0].send(b"no JSON")
    with pytest.raises(WireClosedError):
        b.receive()
    a.close()
    with pytest.raises(WireClosedError):
        b.receive()
    with pytest.raises(WireClosedError):
        b.send("anybody?")
    b.close()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def nobody_calls(*_: object) -> Attached:
    raise AssertionError("nobody calls")


@pytest.fixture
def listens() -> Iterator[Listener]:
    """For h0 and h1; what they call ends at once, with status 7."""

    def start(host: str, command: list[str], files: Files) -> Attached:
        os.write(files[1], f"{host} {command[-1]}".encode())
        ours, theirs = socket.socketpair()
        theirs.send(STATUS.pack(7, 0.0))
        theirs.close()
        return Attached(ours, lambda _: None)

    listens = Listener(["h0", "h1"], start)
    yield listens
    listens.close()
    for container in listens.arrivals([], 0).values():
        os.close(container.namespace)


ARRIVAL: dict[str, Any] = {"arrived": "h0", "python": "python3", "cpus": 1.0, "memory_bytes": 2**30}


def arrive(listens: Listener, said: object = ARRIVAL, files: int = 1, at: str = "h0") -> Wire:
    """As a container's first process does."""
    line = Wire.connect(listens.path(at))
    network = os.open("/proc/self/ns/net", os.O_RDONLY)
    line.send(said, [network] * files)
    os.close(network)
    return line


def test_what_a_container_lends_is_a_network(listens: Listener, tmp_path: Path) -> None:
    (tmp_path / "net:[1]").touch()
    with (tmp_path / "net:[1]").open() as file, socket.socket() as lingers:
        for lent in (file.fileno(), lingers.fileno()):
            line = Wire.connect(listens.path("h0"))
            line.send(ARRIVAL, [lent])
            assert is_sent_away(line)


def is_sent_away(line: Wire) -> bool:
    try:
        line.receive(20)
    except WireClosedError:
        return True
    return False


@pytest.mark.parametrize(
    ("said", "files"),
    [
        ({"arrived": "h1", "python": "python3", "cpus": 1.0, "memory_bytes": 2**30}, 1),  # through the door of h0
        (ARRIVAL, 0),
        (ARRIVAL, 2),
        (ARRIVAL | {"python": 3}, 1),
        (ARRIVAL | {"cpus": "many"}, 1),
        (ARRIVAL | {"memory_bytes": [1]}, 1),
        (ARRIVAL | {"cpus": float("nan")}, 1),  # which is neither more nor less than what was asked for
        (ARRIVAL | {"cpus": float("inf")}, 1),
        (ARRIVAL | {"memory_bytes": 10**400}, 1),
        (ARRIVAL | {"memory_bytes": -1}, 1),
        ({"arrived": ["h0"]}, 1),
        ({"call": "h1"}, 3),
        ({"call": "h1", "command": ["true"]}, 3),
        ({"call": "h1", "command": "true"}, 2),
        ([1, 2], 0),
        ("hello", 1),
        (None, 0),
        (7, 8),
    ],
)
def test_an_odd_greeting_ends_nothing_but_its_connection(listens: Listener, said: object, files: int) -> None:
    open_before = open_files()
    odd = arrive(listens, said, files)
    assert is_sent_away(odd)
    odd.close()
    until(lambda: open_files() <= open_before)  # what others left open may go meanwhile
    line = arrive(listens)
    assert listens.arrivals(["h0"], 20).keys() == {"h0"}
    assert is_sent_away(arrive(listens)), "it is there already"
    line.close()


def test_a_closed_listener_has_no_file_open() -> None:
    open_before = open_files()
    closed = Listener(["h0", "h1"], nobody_calls)
    silent = Wire.connect(closed.path("h0"))
    closed.close()
    silent.close()
    assert open_files() <= open_before


def test_what_is_no_json_ends_nothing(listens: Listener) -> None:
    for data in (b"{", b"[" * 100_000, b"\xff" * 9):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as odd:
            odd.connect(listens.path("h0"))
            odd.send(data)
            assert is_sent_away(Wire(odd))
    line = arrive(listens)
    assert listens.arrivals(["h0"], 20).keys() == {"h0"}
    line.close()


def test_who_is_silent_holds_no_thread_and_nobody_up(listens: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "GREETING_S", 1.0)
    before = threading.active_count(), open_files()
    silent = [Wire.connect(listens.path("h0")) for _ in range(900)]
    line = arrive(listens, ARRIVAL | {"arrived": "h1"}, at="h1")
    assert listens.arrivals(["h1"], 20).keys() == {"h1"}
    assert threading.active_count() <= before[0]
    ours = open_files() - before[1] - len(silent)
    assert ours <= listener.MOST_SILENT + 3  # and of h1 both ends of its line, and what it lends
    assert is_sent_away(silent[0])
    for one in silent:
        one.close()
    line.close()


def call(listens: Listener) -> tuple[Any, str]:
    """What a program in h0 is answered, and what it can read."""
    line = Wire.connect(listens.path("h0"))
    read, write = os.pipe()
    line.send({"call": "h1", "command": "uname"}, [0, write, write])
    os.close(write)
    answer, _ = line.receive(20)
    line.close()
    with os.fdopen(read) as said:
        return answer, said.read()


def test_a_command_on_another_host_is_for_trials_that_need_it(listens: Listener) -> None:
    assert call(listens) == ({"error": "the scheme of this trial starts nothing on other hosts"}, "")
    listens.answer_calls()
    assert call(listens) == ({"status": 7}, "h1 uname")


def test_a_container_that_answers_oddly_is_named() -> None:
    for odd in ([1], {"x": 1}, {"result": "12"}, {"result": True}, {"error": [1]}, {"error": {}}, {"error": None}):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        container = Container("h1", Wire(ours), -1, ARRIVAL)
        its = Wire(theirs)
        its.send(odd)
        with pytest.raises(LabError, match="the container of h1 answered"):
            container.run(Program(("true",), {}, "/"), (0, 1, 2))
        ours.close()
        its.close()


@pytest.mark.parametrize("ended_s", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_program_ends_at_a_possible_time(ended_s: float) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.send(STATUS.pack(0, ended_s))
        with pytest.raises(LabError, match=r"a program ended at .* by the clock of its host"):
            Attached(ours, lambda _: None).wait()


class Says:
    """A daemon with one image, which says this."""

    def __init__(self, said: str) -> None:
        self._said = said
        self.host: Mapping[str, Any] = {}

    def image(self, _: str) -> dict[str, Any]:
        return {}

    def output(self, _image: str, _command: list[str], host: Mapping[str, Any], _owner: Mapping[str, str]) -> str:
        self.host = host
        return self._said


@pytest.mark.parametrize("said", ["3", "[]", "null", "{}", '"wire"', "[" * 4000, '{"wire": NaN}', "\x1b[2J" * 500])
def test_whatever_an_image_says_it_is_refused_with_a_short_word(said: str) -> None:
    says = Says(said)
    with pytest.raises(MissingToolError) as caught:
        image.require_own(says, "odd", confinement(Containers()), {})  # type: ignore[arg-type]
    assert caught.value.problem.startswith("docker.image: 'odd' ")
    assert len(caught.value.problem) < 400


def test_an_image_is_tried_with_the_limits_of_a_host() -> None:
    says = Says(json.dumps(inside.about()))
    image.require_own(says, "fine", confinement(Containers(cpus=0.5)), {})  # type: ignore[arg-type]
    of_host = ContainerSettings("lab", Containers(cpus=0.5), None, ()).of_machine("h0", "socket", "")
    assert says.host == {key: of_host[key] for key in says.host}
    assert says.host.keys() >= {"network_mode", "cap_drop", "security_opt", "mem_limit", "pids_limit", "ulimits"}
    assert says.host["log_config"]["Config"] == {"max-size": "64k", "max-file": "1"}


def test_the_command_that_fetches_an_image_is_for_a_shell() -> None:
    says = Says("")
    says.image = lambda _: None  # type: ignore[assignment,method-assign,return-value]
    with pytest.raises(MissingToolError) as caught:
        image.require_own(says, "a; rm -rf ~", {}, {})  # type: ignore[arg-type]
    assert "docker pull 'a; rm -rf ~'," in str(caught.value.fix)


def test_a_container_of_an_image_that_carries_our_labels_is_not_ours() -> None:
    """``testbed clean`` would remove it."""
    carried = daemon.labels("0123456789ab", "h0")
    found = [
        {"Id": str(number), "Names": [f"/{name}"], "Labels": carried, "State": "running"}
        for number, name in enumerate(("somebodys", "testbed-0123456789ab-h0", "testbed-0123456789ab-h1"))
    ]
    assert [one.id for one in daemon._marked(found)] == ["1"]


def test_a_failure_among_many_is_raised_after_all_were_done() -> None:
    seen = []

    def act(number: int) -> None:
        seen.append(number)
        if number == 3:
            raise LabError("three")

    with pytest.raises(LabError, match="three"):
        for_all(act, range(20))
    assert sorted(seen) == list(range(20))


def test_which_testbed_an_image_has_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert inside.main([]) == 0
    assert sys.executable in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"cpus": 0.0}, "0 CPUs; a container can have 0.01 or more"),
        ({"memory_bytes": 2**20}, "1 MiB of memory; a host needs 64 MiB at least"),
    ],
)
def test_limits_that_no_container_can_have(settings: dict[str, float], problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        Containers(**settings)  # type: ignore[arg-type]
    assert caught.value.problem == problem


def test_a_spec_may_hold_settings_for_containers(testbed: Callable[..., Called], tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC + "lab: docker\ndocker: {cpus: 0.5, memory: 2 GiB, image: mine}\n")
    planned = testbed("plan", "spec.yaml")
    assert planned.code == 0, planned.err
    assert "in lab docker" in planned.out


def answer(**environment: str) -> TestbedError:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with pytest.raises(TestbedError) as caught:
            Daemon()
    return caught.value


def test_without_a_daemon_it_says_how_to_start_one(tmp_path: Path) -> None:
    absent = answer(DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert isinstance(absent, MissingToolError)
    assert absent.problem == f"no Docker daemon answers at unix://{tmp_path}/none.sock"
    assert absent.fix is not None
    assert "systemctl start docker" in absent.fix
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{tmp_path}/dead.sock")  # a daemon that was killed leaves its socket behind
    assert answer(DOCKER_HOST=f"unix://{tmp_path}/dead.sock").problem.startswith("no Docker daemon answers at")


def test_a_daemon_elsewhere_is_refused() -> None:
    assert "DOCKER_HOST is tcp://10.1.2.3:2375: the Docker daemon must be on this machine" in str(
        answer(DOCKER_HOST="tcp://10.1.2.3:2375")
    )


def test_without_the_package_it_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "PACKAGE", "docker_that_nobody_has")
    with pytest.raises(MissingToolError) as caught:
        Daemon()
    assert str(caught.value) == "the Python package docker is not installed\n  fix: pip install 'docker>=7.1'"


def test_without_root_it_says_so_and_starts_nothing(
    testbed: Callable[..., Called], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_module, "has_capability", lambda _: False)
    (tmp_path / "spec.yaml").write_text(SPEC)
    called = testbed("run", "spec.yaml", "--backend", "docker", "--out", "out")
    assert (called.code, called.out) == (2, "")
    assert called.err == (
        "error: the lab docker puts links into containers' network namespaces, which needs root\n"
        "  fix: run as root: sudo testbed ..., or take --backend netns\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_folder_that_was_left_is_found_by_its_mark(
    testbed: Callable[..., Called], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    listens = Listener(["h0"], nobody_calls)
    (tmp_path / "testbed-docker-of-somebody").mkdir()
    left = tmp_path / "testbed-docker-left"
    left.mkdir()
    gone = subprocess.Popen(["true"])
    (left / "owner").write_text(str(Owner.of(gone.pid)))
    gone.wait()
    assert [one["name"] for one in json.loads(testbed("clean", "--json").out)["left"]] == [str(left)]
    assert f"process {gone.pid}" in testbed("clean", "--yes").out
    assert not left.exists()
    assert Path(listens.path("h0")).exists()
    listens.close()
    assert [path.name for path in tmp_path.iterdir()] == ["testbed-docker-of-somebody"]


def test_what_others_put_among_the_folders_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mark = str(Owner(1, 1, "an earlier start", 1))
    pipe, link, writable, own = folders = [tmp_path / f"testbed-docker-{i}" for i in range(4)]
    for one in folders:
        one.mkdir(mode=0o700)
    os.mkfifo(pipe / "owner")
    (tmp_path / "elsewhere").write_text(mark)
    (link / "owner").symlink_to(tmp_path / "elsewhere")
    (writable / "owner").write_text(mark)
    writable.chmod(0o777)
    (own / "owner").write_text(mark)
    assert [folder for folder, _ in Listener.folders()] == [own]


def test_clean_says_where_it_could_not_look(
    testbed: Callable[..., Called], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    called = testbed("clean")
    assert called.code == 0
    assert called.out == (
        f"nothing is left over\nnot looked at: docker: no Docker daemon answers at unix://{tmp_path}/none.sock\n"
    )
