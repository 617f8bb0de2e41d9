"""Files that processes leave: samples, last words and logs, from processes of any intent."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from testbed.base.errors import TrialError
from testbed.control import endings
from testbed.lab.baremetal.place import PLACE as BAREMETAL
from testbed.lab.docker.place import PLACE as DOCKER
from testbed.lab.docker.place import Containers
from testbed.lab.netns.place import PLACE as NETNS
from testbed.lab.place import DeclaredPlace
from testbed.lab.programs import Exit
from testbed.trial.files import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, tmp_path)


def write(files: Files, name: str, content: bytes) -> None:
    """Let a process have written that into its samples file."""
    files.own(name).mkdir()
    files.samples(name).write_bytes(content)


@pytest.mark.parametrize(
    ("status", "text"),
    [(3, "ended with exit status 3"), (-15, "was killed by SIGTERM"), (-99, "was killed by signal 99")],
)
def test_endings_in_words(status: int, text: str) -> None:
    assert endings.ending(status) == text


def test_a_line_cut_short_is_left_out_and_a_damaged_one_is_not(files: Files) -> None:
    path = files.samples("h0")
    write(files, "h0", b'{"kind": "hello"}\n{"kind": "iter')
    assert endings.read(path) == [{"kind": "hello"}]
    path.write_text('{"kind": "hel\n{"kind": "iteration"}\n')
    with pytest.raises(TrialError, match=r"h0/samples\.jsonl: damaged"):
        endings.read(path)


def test_a_line_that_is_nested_too_deeply_fails_the_trial(files: Files) -> None:
    write(files, "h1", b"[" * 100_000 + b"\n")
    with pytest.raises(TrialError, match=r"h1/samples\.jsonl: damaged, not JSON lines \(nested too deeply\)"):
        endings.read(files.samples("h1"))


def test_samples_have_a_size_that_a_trial_can_need(files: Files) -> None:
    write(files, "h0", b'{"kind": "begin"}\n' * 10)
    assert len(endings.read(files.samples("h0"), 200)) == 10
    with pytest.raises(TrialError, match=r"h0/samples\.jsonl: has more than 100 bytes"):
        endings.read(files.samples("h0"), 100)


def test_lines_that_no_worker_writes_fail_the_trial(files: Files) -> None:
    write(files, "h0", b'{"kind": "iteration", "i": 0}\n')
    with pytest.raises(TrialError, match=r"h0/samples\.jsonl: damaged \(a line of the kind iteration has no rank\)"):
        endings.read_checked(files.samples("h0"), 1000)


def test_of_a_log_the_end_is_read_and_no_escape_sequence_told(files: Files) -> None:
    log = files.log("h0")
    with log.open("wb") as file:
        file.truncate(1 << 40)  # a hole
        file.seek(0, os.SEEK_END)
        file.write(b"\nfirst\n\x1b[2J\x1b]0;title\x07\xe2\x80\xaetxt\n" + b"y" * 5000 + b"\n")
    told = endings.tail(log)
    assert told.splitlines()[-3:-1] == ["    | first", r"    | \x1b[2J\x1b]0;title\x07\u202etxt"]
    assert len(told) < 20_000


def test_a_killed_process_is_named_with_what_it_was_at(files: Files) -> None:
    files.own("h0").mkdir()
    for content, told in (
        (b"node 7 (send)".ljust(500), " at node 7 (send)\n"),
        (b"x" * 501, "KILL\n"),
        (b"\x1b[2J", "\\x1b[2J"),
    ):
        files.position("h0").write_bytes(content)
        assert told in endings.died([Exit("h0", 0, -9)], [], files).problem
    assert " at " not in endings.died([Exit("h0", 0, 1)], [], files).problem, "which says by itself why it ended"


LACKS = partial(NETNS.lacks, python="python", options=None)


def log(folder: Path, script: str, **others: str) -> list[str]:
    """Lines that a script really leaves which fails; ``others`` are files beside it."""
    for name, text in {"train": script, **others}.items():
        (folder / f"{name}.py").write_text(text)
    words = [sys.executable, str(folder / "train.py")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    "said",
    [
        "AssertionError: Torch not compiled with CUDA enabled",
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
    ],
)
def test_a_script_that_wants_a_gpu_is_told_its_line(said: str) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/home/me/train.py", line 40, in <module>',
        "    main()",
        '  File "/home/me/train.py", line 12, in main',
        "    torch.cuda.set_device(0)",
        '  File "/x/lib/python3.11/site-packages/torch/cuda/__init__.py", line 567, in set_device',
        "    torch._C._cuda_setDevice(device)",
        said,
    ]
    assert (
        endings.remedy(lines, LACKS)
        == "hosts have no GPU: change line 12 of /home/me/train.py, torch.cuda.set_device(0)"
    )


def test_a_file_that_hides_a_module_is_named(tmp_path: Path) -> None:
    lines = log(tmp_path, "import random\nrandom.choice([1])\n", random="import numpy.random\n")
    assert endings.remedy(lines, LACKS) == f"{tmp_path / 'random.py'} hides the module random: give it another name"


def test_a_file_in_place_of_a_package_is_named(tmp_path: Path) -> None:
    lines = log(tmp_path, "import cuda.bindings\n", cuda="")
    assert endings.remedy(lines, LACKS) == f"{tmp_path / 'cuda.py'} hides the module cuda: give it another name"


def test_a_missing_module_is_named_with_the_python_that_lacks_it(tmp_path: Path) -> None:
    lines = log(tmp_path, "import no_such_module.part\n")
    assert endings.remedy(lines, partial(LACKS, python="/venv/bin/python")) == (
        "/venv/bin/python has no module no_such_module: /venv/bin/python -m pip install no_such_module, "
        "or put your own no_such_module.py beside the script"
    )


def test_a_missing_part_of_testbed_is_no_package_to_install(tmp_path: Path) -> None:
    told = endings.remedy(log(tmp_path, "import testbed.no_such_part.module\n"), LACKS)
    assert told == "set testbed up again; if the module is still missing and is no name of your script's, report it"


@pytest.mark.parametrize(
    ("place", "options", "told"),
    [
        (DOCKER, Containers(), "/bin/python has no module x: /bin/python -m pip install x"),
        (
            DOCKER,
            Containers(image="mine"),
            "python3 of the image mine has no module x: add RUN pip install x to its Dockerfile, and build it again",
        ),
        (
            BAREMETAL,
            None,
            "/var/lib/testbed/venv/bin/python of the hosts has no module x: on each, "
            "sudo /var/lib/testbed/venv/bin/python -m pip install x",
        ),
    ],
)
def test_a_module_is_missing_where_processes_run(place: DeclaredPlace, options: object, told: str) -> None:
    assert place.lacks("x", "/bin/python", options) == told


def test_other_failures_lead_nowhere(tmp_path: Path) -> None:
    assert endings.remedy(log(tmp_path, "import helper\nhelper.begin()\n", helper=""), LACKS) is None
    assert endings.remedy(log(tmp_path, "import random\nrandom.no_such()\n"), LACKS) is None
    assert endings.remedy([], LACKS) is None


def test_the_exception_of_the_last_traceback_is_told(tmp_path: Path) -> None:
    script = (
        "try:\n    import no_such_module\nexcept ImportError as error:\n    raise ValueError('too small') from error"
    )
    assert endings.raised(log(tmp_path, script)) == ("ValueError: too small", None)
    assert endings.raised(["[rank1]: Traceback (most recent call last):", "[rank1]:   x", "[rank1]: KeyError: 3"]) == (
        "KeyError: 3",
        None,
    )
    assert endings.raised(["no such shard: 1"]) == ("", None)
    ours = "from testbed.base.errors import SpecError\nraise SpecError('no backend', fix='write gloo')"
    assert endings.raised(log(tmp_path, ours)) == ("no backend", "write gloo")
