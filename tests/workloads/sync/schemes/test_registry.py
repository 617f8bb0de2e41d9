"""Expressions to forests, and the texts of what cannot be built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.schemes import build, schemes
from testbed.workloads.sync.verify import verify

Build = Callable[..., Topology]

NAMES = ["ps", "ring", "multi_ring", "halving_doubling", "bcube", "tree", "double_binary_tree"]
NAMES += ["hierarchical_ps", "two_level", "h_ar", "hierarchical", "bml", "switchml", "atp", "rina"]
NAMES += ["async_ps", "ssp", "mlfabric_a", "mlfabric_ssp", "mlfabric_s", "pbox", "gloo", "openmpi"]

PAPERS = (
    "BML section",
    "PHub thesis section",
    "Rina",
    "TopoOpt",
    "MLfabric section",
    "torch.distributed",
    "Open MPI 4.1",
)

MINE = """
import numpy as np
from testbed.workloads.sync.forest import Forest

def chain(topology, tensor_sizes, first=0):
    hosts, size = topology.host_count, len(topology.nodes)
    trees = np.full((1, size), -2, np.int32)
    order = [(first + i) % hosts for i in range(hosts)]
    trees[0, order[1:]] = order[:-1]
    trees[0, order[0]] = -1
    return Forest("", tuple(n.name for n in topology.nodes), tuple(range(hosts)), np.array([1]), trees, trees)

def number(topology, tensor_sizes):
    return 5

def broken(topology, tensor_sizes):
    return 1 / 0

def leaves(topology, tensor_sizes):
    raise SystemExit(3)

def short():
    return None
"""


def test_every_scheme_has_a_line_and_a_source() -> None:
    found = schemes()
    assert list(found) == NAMES
    for info in found.values():
        assert info.doc.endswith(".")
        assert any(paper in info.source for paper in PAPERS)


def test_the_expression_is_kept(topology: Build) -> None:
    assert build("ps( place = tensor )", topology("star(hosts=2)"), [3, 4]).scheme == "ps(place=tensor)"


def test_a_scheme_in_a_users_file(topology: Build, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    net = topology("star(hosts=4)")
    forest = build(f"{tmp_path}/mine.py:chain(first=2)", net, [])
    verify(forest, net)
    assert forest.reduce.tolist() == [[3, 0, -1, 2, -2]]
    assert forest.scheme == f"{tmp_path}/mine.py:chain(first=2)"


@pytest.mark.parametrize(
    ("expression", "network", "text"),
    [
        (
            "rnig",
            "star(hosts=3)",
            "there is no scheme 'rnig' (did you mean 'ring'?)\n"
            f"  fix: use one of {', '.join(NAMES)}, or ./FILE.py:FUNCTION for your own",
        ),
        (
            "ps(place=chunks)",
            "star(hosts=3)",
            "ps: place is chunks (did you mean 'chunk'?)\n  fix: give place one of chunk, tensor, lpt",
        ),
        ("ring(size=3)", "star(hosts=3)", "ring has no parameter 'size'\n  fix: write it as ring(members=[])"),
        (
            "bml",
            "star(hosts=9)",
            "bml needs a BCube, and star(hosts=9) is not one\n"
            "  fix: use it on bcube(n=...,k=...), or take ps or ring here",
        ),
        (
            "ps(place=tensor)",
            "star(hosts=3)",
            "ps(place=tensor) needs the sizes of the tensors, and there are none\n  fix: use ps",
        ),
        ("./none.py:f", "star(hosts=3)", None),
    ],
)
def test_texts(topology: Build, expression: str, network: str, text: str | None) -> None:
    with pytest.raises(SchemeError) as caught:
        build(expression, topology(network), [])
    if text is None:
        assert str(caught.value).startswith("there is no file './none.py'")
    else:
        assert str(caught.value) == text


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("number", "mine.py:number returned int, not a Forest"),
        ("broken", "mine.py:broken failed: ZeroDivisionError: division by zero (mine.py, line 17)"),
        ("leaves", "mine.py:leaves failed: SystemExit: 3 (mine.py, line 20)"),
        ("short", "the signature of mine.py:short cannot be used: too many positional arguments"),
        ("chian", "mine.py has no function 'chian' (did you mean 'chain'?)"),
    ],
)
def test_texts_of_a_users_file(
    topology: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, text: str
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SchemeError) as caught:
        build(f"mine.py:{function}", topology("star(hosts=2)"), [])
    assert caught.value.problem == text
    assert caught.value.fix


def test_a_users_wrong_forest_is_refused_by_the_verifier(topology: Build, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE.replace("trees[0, order[0]] = -1", "trees[0, order[0]] = order[-1]"))
    net = topology("star(hosts=3)")
    forest = build(f"{tmp_path}/mine.py:chain", net, [])
    with pytest.raises(SchemeError, match="class 0: its reduce-tree has 0 roots"):
        verify(forest, net)
    assert np.array_equal(forest.share, [1])


LISTS = """
import numpy as np
from testbed.workloads.sync.forest import Forest

def lists(topology, tensor_sizes, share=1, parent=1):
    names = [node.name for node in topology.nodes]
    trees = [[parent, -1, -2]]
    return Forest("mine", names, np.arange(2), [share], trees, trees)
"""


def test_a_users_forest_may_hold_lists(topology: Build, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LISTS)
    net = topology("star(hosts=2)")
    forest = build(f"{tmp_path}/mine.py:lists", net, [])
    verify(forest, net)
    assert [type(worker) for worker in forest.workers] == [int, int]
    assert (forest.share.dtype, forest.reduce.dtype) == (np.int64, np.int32)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [("share=0.5", "an array of float64"), ("parent=4294967297", "a number that is too large for int32")],
)
def test_a_users_numbers_are_not_bent_to_fit(topology: Build, tmp_path: Path, arguments: str, problem: str) -> None:
    """4294967297 would be 1 in 32 bits, a right parent."""
    (tmp_path / "mine.py").write_text(LISTS)
    with pytest.raises(SchemeError) as caught:
        build(f"{tmp_path}/mine.py:lists({arguments})", topology("star(hosts=2)"), [])
    assert caught.value.problem.endswith(problem)
