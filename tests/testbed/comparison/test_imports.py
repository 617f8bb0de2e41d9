"""Which Python files a command leads to."""

from __future__ import annotations

import pytest

from testbed.comparison.archive.named_files import LONGEST, reached

CASES: dict[str, tuple[str, dict[str, str], str]] = {
    "a script and what it imports": (
        "python train.py",
        {"train.py": "import net\nfrom data import digits", "net.py": "import layer", "data.py": "", "layer.py": ""},
        "train.py net.py data.py layer.py",
    ),
    "others stay out": ("python ./train.py", {"train.py": "import torch", "torch2.py": "", "a/net.py": ""}, "train.py"),
    "packages": (
        "python train.py",
        {"train.py": "from pkg.part import net", "pkg/__init__.py": "", "pkg/part/net.py": "", "pkg/part/other.py": ""},
        "train.py pkg/__init__.py pkg/part/net.py",
    ),
    "relative imports": (
        "python -m pkg.sub.train",
        {"pkg/sub/train.py": "from . import a\nfrom ..b import c", "pkg/sub/a.py": "", "pkg/b.py": "", "pkg/a.py": ""},
        "pkg/sub/train.py pkg/sub/a.py pkg/b.py",
    ),
    "a package that is run": (
        "python -m pkg",
        {"pkg/__main__.py": "", "pkg/__init__.py": ""},
        "pkg/__main__.py pkg/__init__.py",
    ),
    "beside the script": (
        "torchrun src/train.py",
        {"src/train.py": "import net", "src/net.py": "", "net.py": ""},
        "src/train.py src/net.py net.py",
    ),
    "a shell script": (
        "sh run.sh",
        {"run.sh": "exec python3 -u train.py --lr 1", "train.py": "", "x.py": ""},
        "run.sh train.py",
    ),
    "a script that is started by another": (
        "python train.py",
        {"train.py": "subprocess.run(['python', 'tools/helper.py'])", "tools/helper.py": "", "tools/x.py": ""},
        "train.py tools/helper.py",
    ),
    "a module by its name": (
        "python train.py",
        {"train.py": "importlib.import_module('nets.lenet')", "nets/lenet.py": "", "nets/vgg.py": "", "lenet.py": ""},
        "train.py nets/lenet.py",
    ),
    "a module by a name that begins so": (
        "python train.py",
        {
            "train.py": "import_module(f'nets.{name}')\n__import__('data.%s' % name)\nimport_module('a.' + b)",
            **dict.fromkeys(["nets/__init__.py", "nets/lenet.py", "nets/vgg/__init__.py", "nets/deep/er.py"], ""),
            **dict.fromkeys(["data/digits.py", "a/b.py", "lenet.py", "x/nets/lenet.py"], ""),
        },
        "train.py nets/__init__.py nets/lenet.py nets/vgg/__init__.py data/digits.py a/b.py",
    ),
    "a module beside the one that imports it": (
        "python -m pkg.train",
        {"pkg/train.py": "import_module('.' + name, __package__)", "pkg/a.py": "", "b.py": "", "pkg/c/d.py": ""},
        "pkg/train.py pkg/a.py",
    ),
    "a module from a table": (
        "python train.py",
        {
            "train.py": "NETS = {'small': 'nets.lenet:LeNet', 'note': 'b'}\nimport_module(NETS[name])",
            **dict.fromkeys(["nets/lenet.py", "nets/vgg.py", "b.py"], ""),
        },
        "train.py nets/lenet.py",
    ),
    "a text that only looks like a module": (
        "python train.py",
        {"train.py": "print('nets.lenet')", "nets/lenet.py": ""},
        "train.py",
    ),
    "what is no Python": ("python train.py", {"train.py": "import (", "net.py": ""}, "train.py"),
    "what is too deep": ("python train.py", {"train.py": "(" * 10_000, "net.py": ""}, "train.py"),
    "what is too long": ("python train.py", {"train.py": " " * LONGEST + "\nimport net", "net.py": ""}, "train.py"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_command_leads_to(case: str) -> None:
    command, files, expected = CASES[case]
    contents = {name: text.encode() for name, text in files.items()}
    assert reached(command, set(), contents, set(files)) == set(expected.split())


def test_files_that_could_not_be_read_are_reached_too() -> None:
    assert reached("python train.py", {"own"}, {"own": b"import a"}, {"own", "a.py", "train.py", "b.py"}) == {
        *("own", "a.py", "train.py")
    }
