"""testbed watch without a browser: what it answers, to whom, and what it makes of run directories of others."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree

import pytest

from testbed.files.foreign import UnfitError
from testbed.interactive.watch import door, looking, pages
from testbed.interactive.watch import server as server_module
from testbed.run_directory.directory import RunDirectory
from testbed.run_directory.layout import STOP
from testbed.spec import Source
from tests.analysis.conftest import write_run
from tests.patience import PATIENCE_S, until

from ..conftest import Called
from .watched import Served, served


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended; not to be changed."""
    return write_run(tmp_path_factory.mktemp("made") / "quickstart")


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    path = copytree(made, tmp_path / "run")
    resolved = json.loads((path / "resolved.json").read_text()) | {"planned": 8}
    (path / "resolved.json").write_text(json.dumps(resolved))
    (path / "logs" / "a-trial").mkdir(parents=True)
    (path / "logs" / "a-trial" / "h0.log").write_text("a line\n")
    return path


@pytest.fixture
def server(run: Path) -> Iterator[Served]:
    with served(run) as one:
        yield one


def write_log(run: Path, content: bytes) -> None:
    (run / "logs" / "a-trial" / "h0.log").write_bytes(content)


@pytest.fixture(autouse=True)
def as_quick_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a page that all others go before takes too long for a test."""
    monkeypatch.setattr(pages, "NICENESS", 0)


# Who gets an answer


def test_it_listens_on_loopback_alone(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port)):
        pass
    others = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ours = [words[1] for words in others if words[1].endswith(f":{server.port:04X}") and words[3] == "0A"]
    assert ours == [f"0100007F:{server.port:04X}"]


@pytest.mark.parametrize("path", ["", "state", "report", "last", "logs", "log/a-trial/h0.log", "stop"])
def test_nothing_without_the_token(server: Served, path: str) -> None:
    for token in ("", "x", server.token[:-1], server.token + "x", "%00", "..", server.token.swapcase()):
        for method in ("GET", "HEAD", "POST"):
            assert server.ask(f"/{token}/{path}", method).status == 404
    assert server.ask("/").status == server.ask("/favicon.ico").status == server.ask(f"/{server.token}").status == 404


def test_only_names_of_loopback(server: Served) -> None:
    """A name that its owner has lead to 127.0.0.1 is the attacker's origin (DNS rebinding)."""
    port = server.port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "localhost:1", f"127.0.0.2:{port}"):
        assert server.ask("state", Host=host).status == 403
    assert server.ask("state", Host=f"localhost:{port}").status == 200


def test_pages_may_load_nothing_and_are_not_kept(server: Served) -> None:
    for path in ("", "state", "report?1", "logs?1", "log/a-trial/h0.log?1"):
        headers = server.ask(path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; base-uri 'none'; form-action 'none'")
        assert "http" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert (headers["Referrer-Policy"], headers["Cache-Control"]) == ("no-referrer", "no-store")
        assert headers["Server"] is None
        assert headers["Set-Cookie"] is None


# What it answers


def test_a_run_that_has_ended(server: Served) -> None:
    state = json.loads(server.ask("state").text)
    assert state == {"says": "No run goes on here; trials finished: 6 of 8", "can_stop": False}
    first = server.ask("report")
    assert first.status == 302
    page = server.ask(f"/{server.token}/{first.headers['Location'].rpartition('/')[2]}")
    assert page.status == 200
    assert "testbed report" in page.text
    assert server.ask("report", "HEAD").headers["ETag"].strip('"') == first.headers["Location"].partition("?")[2]


def test_the_last_trial_is_alone_in_its_page(server: Served, run: Path) -> None:
    records = [json.loads(path.read_text()) for path in (run / "trials").iterdir()]
    last = max(records, key=lambda record: record["started"])
    page = server.ask("last?1")
    assert page.status == 200
    assert page.text.count('data-question="gantt"') == (2 if last["status"] == "done" else 0)
    assert ">1 trial" in page.text or "1 of 1" in page.text
    assert [label for label in {one["label"] for one in records} - {last["label"]} if f">{label}" in page.text] == []


def test_a_damaged_run_says_so(server: Served, run: Path) -> None:
    next((run / "trials").glob("*.json")).write_text("{<script>")
    page = server.ask("report?1")
    assert page.status == 200
    assert "damaged, not JSON" in page.text
    assert "<script>" not in page.text
    (run / "resolved.json").write_text("[]")
    answer = server.ask("state")
    assert (answer.status, "damaged, holds no JSON object" in answer.text) == (409, True)


def test_the_runs_own_report_is_not_served(server: Served, run: Path) -> None:
    (run / "report.html").write_text("somebody else's")
    assert "somebody else's" not in server.ask("report?1").text


def test_what_lies_in_the_current_directory_is_not_run(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pandas.py", "plotly.py", "testbed.py"):
        (tmp_path / name).write_text("raise SystemExit('planted')")
    monkeypatch.chdir(tmp_path)
    assert "testbed report" in server.ask("report?1").text


# Logs


@pytest.mark.parametrize(
    "path",
    [
        "log/..%2f..%2fsecret/h0.log",
        "log/a-trial/..%2f..%2f..%2fsecret",
        "log/..%2f/secret",
        "log/%2e%2e/secret",
        "log/a-trial/%2e%2e",
        "log/a-trial/h0.log%00",
        "log/a-trial/%2fetc%2fpasswd",
        "log/a-trial/none.log",
        "log/../../secret",
        "../secret",
        "log/a-trial/../../../secret",
        "log/a-trial/%ff",
    ],
)
def test_no_path_leads_elsewhere(server: Served, run: Path, path: str) -> None:
    for folder in (run.parent, run, run / "logs"):
        (folder / "secret").write_text("a secret")
    answer = server.ask(f"{path}?1")
    assert answer.status in (400, 404, 409)
    assert "a secret" not in answer.text


def test_no_link_in_logs_is_followed(server: Served, run: Path) -> None:
    secret = run.parent / "secret"
    secret.mkdir()
    (secret / "h0.log").write_text("a secret")
    (run / "logs" / "a-trial" / "link.log").symlink_to(secret / "h0.log")
    (run / "logs" / "other").symlink_to(secret)
    os.mkfifo(run / "logs" / "a-trial" / "pipe.log")
    for path in ("a-trial/link.log", "other/h0.log", "a-trial/pipe.log"):
        answer = server.ask(f"log/{path}?1")
        assert answer.status == 409
        assert "a secret" not in answer.text
    (run / "logs").rename(run / "elsewhere")
    (run / "logs").symlink_to(run / "elsewhere")
    assert server.ask("log/a-trial/h0.log?1").status == 409
    assert "There is no log yet" in server.ask("logs?1").text


def test_only_the_end_of_a_large_log(server: Served, run: Path) -> None:
    write_log(run, b"")
    log = run / "logs" / "a-trial" / "h0.log"
    os.truncate(log, 2**30)
    with log.open("ab") as file:
        file.write(b"\nits end")
    text = server.ask("log/a-trial/h0.log?1").text
    assert text.startswith("logs/a-trial/h0.log: the last 65,536 of 1,073,741,832 bytes\n")
    assert text.endswith("\nits end")
    assert len(text) < 5 * looking.TAIL_BYTES


def test_a_log_is_text_and_nothing_else(server: Served, run: Path) -> None:
    write_log(run, b"<script>alert(1)</script>\x1b[2J\x1b]0;owned\x07 \xff\xe2\x80\xae10%\r20%\r\n")
    answer = server.ask("log/a-trial/h0.log?1")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    _, _, text = answer.text.partition("\n\n")
    assert text == "<script>alert(1)</script>\\x1b[2J\\x1b]0;owned\\x07 \ufffd\\u202e10%\n20%\n"


def test_names_of_logs_are_escaped(server: Served, run: Path) -> None:
    (run / "logs" / "<b>bold").mkdir()
    (run / "logs" / "<b>bold" / "a?b#c&d.log").write_text("found")
    (run / "logs" / "<b>bold" / "esc\x1b.log").write_text("not listed")
    os.close(os.open(os.fsencode(run) + b"/logs/a-trial/\xff.log", os.O_CREAT))
    page = server.ask("logs?1").text
    assert "&lt;b&gt;bold" in page
    assert "<b>bold" not in page
    assert "esc" not in page
    assert 'href="log/%3Cb%3Ebold/a%3Fb%23c%26d.log"' in page
    assert server.ask("log/%3Cb%3Ebold/a%3Fb%23c%26d.log?1").text.endswith("found")


def test_the_list_of_logs_is_bounded(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "MOST_LISTED", 3)
    for name in "bcde":
        (run / "logs" / "a-trial" / name).touch()
    assert looking.logs(run) == [("a-trial", ["b", "c", "d"])]


def test_a_log_that_grows_has_another_version(run: Path) -> None:
    _, before = looking.log(run, "a-trial", "h0.log")
    write_log(run, b"a line\nand another\n")
    _, after = looking.log(run, "a-trial", "h0.log")
    assert before != after
    with pytest.raises(UnfitError):
        looking.log(run, "a-trial", "none.log")


# When pages are made


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.made: list[str] = []

    def __call__(self) -> float:
        return self.now_s

    async def render(self, _: Path, what: str) -> bytes:
        self.made.append(what)
        self.now_s += 3
        return str(len(self.made)).encode()


def test_pages_are_made_when_somebody_looks_and_after_a_rest(tmp_path: Path, source: Source) -> None:
    """The first at once; after a trial has ended, and ten times as long as the last took; and only one at a time."""
    directory = RunDirectory.create(tmp_path / "run", source, 2)
    clock = Clock()

    async def look() -> None:
        made = pages.Pages(directory.path, clock.render, clock)
        assert made.version("report") == ""
        assert clock.made == []
        assert (await made.newest("report")).content == b"1"
        first = made.version("report")
        os.utime(directory.path / "trials", ns=(1, 1))  # as a new record does
        clock.now_s = 32.9
        await settled(made)
        assert clock.made == ["report"]
        assert made.version("report") == first
        clock.now_s = 33.0
        await settled(made)
        assert clock.made == ["report", "report"]
        assert made.version("report") == "1"
        await settled(made)
        assert clock.made == ["report", "report"]
        os.utime(directory.path / "trials", ns=(2, 2))
        directory.close()  # nothing is measured any more
        await settled(made)
        assert clock.made == ["report"] * 3

    asyncio.run(look())


def test_others_go_before_the_process_that_makes_a_page() -> None:
    script = "import os; from testbed.interactive.watch.render import yield_cores; yield_cores(19); print(os.nice(0))"
    command = [sys.executable, "-c", script]
    told = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True)
    assert told.stdout == "19\n"


async def settled(made: pages.Pages) -> None:
    """What a look has begun is done."""
    made.version("report")
    for _ in range(5):
        await asyncio.sleep(0)


# Connections


def test_silent_connections_of_others_leave_room_and_are_closed(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """There are more of them than are let in: the oldest are closed at once, and the rest after a while."""
    monkeypatch.setattr(server_module, "SILENT_S", 0.5)
    with served(run) as server:
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(door.MOST_CONNECTIONS + 20)]
        try:
            silent[-1].sendall(b"GET / HTTP/1.1\r\nHost: ")  # not whole
            assert server.ask("state").status == 200
            for connection in silent:
                connection.settimeout(PATIENCE_S)
                assert connection.recv(1) == b""
        finally:
            for connection in silent:
                connection.close()
    assert capfd.readouterr().err == ""


def test_without_descriptors_it_waits_and_goes_on(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(door, "PAUSE_S", 0.2)
    with served(run) as server:
        assert server.ask("state").status == 200
        tries = 0

        def none_left(*_: object) -> None:
            nonlocal tries
            tries += 1
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as full:
            full.setattr(socket.socket, "accept", none_left)
            began_s = time.monotonic()
            waiting = socket.create_connection(("127.0.0.1", server.port))
            until(lambda: tries > 2)
        with waiting:
            assert tries <= 4 + (time.monotonic() - began_s) / door.PAUSE_S
            assert server.ask("state").status == 200
    assert capfd.readouterr().err == ""


# What makes a page


@pytest.mark.parametrize(
    ("limits", "told"),
    [((2**29, 60), "more than 0.5 GiB of memory"), ((2**33, 1), "more than 1 s of processor time")],
)
def test_a_page_has_limits_of_memory_and_time(limits: tuple[int, int], told: str) -> None:
    script = f"""
from testbed.interactive.watch import render
render.MOST_BYTES, render.MOST_S = {limits}
def swell(run):
    held = []
    while True:
        held.append(bytes(2**20) if render.MOST_S > 1 else 0)
        if len(held) > 10**6: held.clear()
render.PAGES = {{"report": swell}}
import sys
sys.argv = ["render", "report", "x", "0"]
render.main()
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"making the page took {told}")


def test_a_page_that_takes_too_long_is_given_up(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "RENDER", ("sh", "-c", "sleep 600"))
    monkeypatch.setattr(pages, "LONGEST_S", 0.2)
    assert b"making it took more than 0.2 s" in asyncio.run(pages.rendered(run, "report"))


# Stopping


def test_stopping_needs_a_page_of_ours(server: Served, run: Path) -> None:
    running = RunDirectory(run)
    try:
        ours = f"http://127.0.0.1:{server.port}"
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{server.port + 1}", f"https{ours[4:]}"):
            assert server.ask("stop", "POST", Origin=origin).status == 403
        assert server.ask("stop", "POST").status == 403
        assert server.ask("stop").status == 405
        assert server.ask("stop", "POST", Origin=ours, Host="evil.example").status == 403
        assert server.ask("/x/stop", "POST", Origin=ours).status == 404
        assert not running.is_asked_to_stop
        assert server.ask("stop", "POST", Origin=ours).status == 200
        assert running.is_asked_to_stop
        state = json.loads(server.ask("state").text)
        assert (state["can_stop"], "the run ends after this trial" in state["says"]) == (False, True)
    finally:
        running.close()
    assert not (run / STOP).exists()
    refused = server.ask("stop", "POST", Origin=ours)
    assert (refused.status, "no run goes on there" in refused.text) == (409, True)


def test_a_link_in_place_of_the_request_is_not_followed(server: Served, run: Path) -> None:
    target = run.parent / "target"
    running = RunDirectory(run)
    try:
        (run / STOP).symlink_to(target)
        assert server.ask("stop", "POST", Origin=f"http://localhost:{server.port}").status == 200
        assert not target.exists()
        assert not (run / STOP).is_symlink()
    finally:
        running.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_only_the_owner_can_stop_a_run(server: Served, run: Path) -> None:
    os.chown(run, 12345, -1)
    answer = server.ask("stop", "POST", Origin=f"http://127.0.0.1:{server.port}")
    assert answer.status == 409
    assert "belongs to another user (uid 12345), and only its owner can stop the run" in answer.text
    assert not (run / STOP).exists()


# The command


def test_the_command_says_where_and_ends_with_a_word(run: Path) -> None:
    command = [sys.executable, "-m", "testbed", "watch", str(run)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "No run goes on here; trials finished: 6 of 8\n"
    where = process.stdout.readline().removeprefix("watch it at: ").strip()
    one = Served(where)
    assert len(one.token) >= 43
    assert one.ask("state").status == 200
    assert one.ask("report", "HEAD").status == 200  # which begins to make it
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    assert out.endswith("no longer watched; a run that goes on is not ended by this\n")
    until(lambda: not makes_pages_of(run))


def makes_pages_of(run: Path) -> list[str]:
    """Processes that are left."""
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if "watch.render" in line and str(run) in line]


def test_what_is_no_run(testbed: Callable[..., Called]) -> None:
    for name, problem in {"none": "there is no such run", ".": "not a run directory (it has no resolved.json)"}.items():
        found = testbed("watch", name)
        assert found.code == 2
        assert f"error: {name}: {problem}\n  fix: give the directory" in found.err


def test_a_port_that_is_taken(testbed: Callable[..., Called], run: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = testbed("watch", str(run), "--port", str(port))
    assert (found.code, found.out) == (2, "")
    assert found.err == f"error: --port {port}: address already in use\n  fix: name another, or leave --port out\n"


def test_without_the_servers_package(
    testbed: Callable[..., Called], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    found = testbed("watch", str(run))
    assert found.code == 2
    assert found.err == "error: the Python package tornado is not installed\n  fix: pip install 'tornado>=6.5.3'\n"
