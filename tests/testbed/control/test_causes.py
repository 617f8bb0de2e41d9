"""Logs of scripts, and what they lead to."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from testbed.control import causes
from testbed.lab.baremetal.place import PLACE as BAREMETAL
from testbed.lab.docker.limits import Containers
from testbed.lab.docker.place import PLACE as DOCKER
from testbed.lab.netns.place import PLACE as NETNS
from testbed.lab.place import DeclaredPlace

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
        causes.fix(lines, LACKS) == "hosts have no GPU: change line 12 of /home/me/train.py, torch.cuda.set_device(0)"
    )


def test_a_file_that_hides_a_module_is_named(tmp_path: Path) -> None:
    lines = log(tmp_path, "import random\nrandom.choice([1])\n", random="import numpy.random\n")
    assert causes.fix(lines, LACKS) == f"{tmp_path / 'random.py'} hides the module random: give it another name"


def test_a_file_in_place_of_a_package_is_named(tmp_path: Path) -> None:
    lines = log(tmp_path, "import cuda.bindings\n", cuda="")
    assert causes.fix(lines, LACKS) == f"{tmp_path / 'cuda.py'} hides the module cuda: give it another name"


def test_a_missing_module_is_named_with_the_python_that_lacks_it(tmp_path: Path) -> None:
    lines = log(tmp_path, "import no_such_module.part\n")
    assert causes.fix(lines, partial(LACKS, python="/venv/bin/python")) == (
        "/venv/bin/python has no module no_such_module: /venv/bin/python -m pip install no_such_module, "
        "or put your own no_such_module.py beside the script"
    )


def test_a_missing_part_of_testbed_is_no_package_to_install(tmp_path: Path) -> None:
    told = causes.fix(log(tmp_path, "import testbed.no_such_part.module\n"), LACKS)
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
    assert causes.fix(log(tmp_path, "import helper\nhelper.begin()\n", helper=""), LACKS) is None
    assert causes.fix(log(tmp_path, "import random\nrandom.no_such()\n"), LACKS) is None
    assert causes.fix([], LACKS) is None


def test_the_exception_of_the_last_traceback_is_told(tmp_path: Path) -> None:
    script = (
        "try:\n    import no_such_module\nexcept ImportError as error:\n    raise ValueError('too small') from error"
    )
    assert causes.raised(log(tmp_path, script)) == ("ValueError: too small", None)
    assert causes.raised(["[rank1]: Traceback (most recent call last):", "[rank1]:   x", "[rank1]: KeyError: 3"]) == (
        "KeyError: 3",
        None,
    )
    assert causes.raised(["no such shard: 1"]) == ("", None)
    ours = "from testbed.base.errors import SpecError\nraise SpecError('no backend', fix='write gloo')"
    assert causes.raised(log(tmp_path, ours)) == ("no backend", "write gloo")
