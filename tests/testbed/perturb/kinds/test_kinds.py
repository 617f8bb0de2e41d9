"""A kind of perturbation is known to its own file and to the registry."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import testbed
from testbed.base.groups import kind_of
from testbed.perturb import kinds
from testbed.perturb.kinds.base import CIRCUITS, COMPUTING, STEPS, UNSENT, Perturbation
from testbed.perturb.registry import PERTURBATIONS
from testbed.spec.perturb import NAMED
from tests.sources import parsed

ROOT = Path(testbed.__file__).parents[1]
KINDS = Path(kinds.__file__).parent
FILES = sorted(path.stem for path in KINDS.glob("*.py") if path.stem not in ("__init__", "base"))
REGISTRY = ROOT / "testbed/perturb/registry.py"
CLASSES = {one.__name__ for one in PERTURBATIONS.values()}


def sources() -> Iterator[Path]:
    """All that may import kinds, without the registry, and without labs, whose own orders have such names."""
    for package in ("testbed", "analysis"):
        for path in (ROOT / package).rglob("*.py"):
            if path != REGISTRY and not path.is_relative_to(ROOT / "testbed/lab"):
                yield path


def test_every_kind_is_registered_by_its_name() -> None:
    modules = [import_module(f"testbed.perturb.kinds.{name}") for name in FILES]
    own = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    defined = {one for one in own if issubclass(one, Perturbation) and one.__module__ != Perturbation.__module__}
    assert {kind_of(one): one for one in defined} == PERTURBATIONS
    assert len(defined) == len(PERTURBATIONS)


def test_nothing_else_imports_a_kind() -> None:
    found = [(path, told) for path, tree in parsed(sources(), "perturb|spec") for told in _imports(tree)]
    assert not found


def _imports(tree: ast.Module) -> Iterator[str]:
    modules = {f"testbed.perturb.kinds.{name}" for name in FILES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("testbed.perturb", "testbed.spec")):
            names = {alias.name for alias in node.names}
            if node.module in modules or names & CLASSES or (node.module == kinds.__name__ and names & {*FILES}):
                yield f"{node.module}: {names}"


def test_nothing_else_asks_for_a_kind_by_its_name() -> None:
    found = [
        (path, node.lineno, ast.unparse(node))
        for path, tree in parsed(sources(), f"[\"'](?:{'|'.join(PERTURBATIONS)})[\"']")
        for node in ast.walk(tree)
        if _asks(node)
    ]
    assert not found


def _asks(node: ast.AST) -> bool:
    """Whether it compares with such a name, or is a set or a choice of them."""
    if isinstance(node, ast.Compare):
        return any(map(_names, [node.left, *node.comparators]))
    if isinstance(node, ast.MatchValue):
        return _names(node.value)
    return isinstance(node, ast.Set | ast.Subscript) and _names(node)


def _names(node: ast.AST) -> bool:
    """Whether it is a kind's name, or a list or a set of some, or looks one up."""
    if isinstance(node, ast.Constant):
        return node.value in PERTURBATIONS
    if isinstance(node, ast.Set | ast.List | ast.Tuple):
        return any(map(_names, node.elts))
    looked_up = (
        isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "PERTURBATIONS"
    )
    return looked_up and _names(node.slice)


def test_kinds_are_listed_in_the_order_that_messages_have_always_had() -> None:
    first = "straggle, slow, jitter, trace, hog, rates, rate, queue, impair, down, background, freeze, kill, circuits"
    assert ", ".join(PERTURBATIONS) == f"{first}, reconfigure, interference"


def test_what_kinds_declare() -> None:
    def those(word: str) -> set[str]:
        return {name for name, kind in PERTURBATIONS.items() if getattr(kind, word)}

    assert those("multiplies_computing") == {"straggle", "slow", "trace"}
    assert those("drops_packets") == {"queue", "impair", "down", "freeze", "circuits"}
    assert those("disturbs_tcp") == {*PERTURBATIONS} - {"straggle", "slow", "jitter", "trace", "hog", "reconfigure"}
    assert those("moves_circuits") == {"circuits", "reconfigure"}
    assert those("asked_in_band") == {"circuits"}


@pytest.mark.parametrize(
    ("given", "effects"),
    [
        *((name, {COMPUTING} if name.startswith("C") else set()) for name in NAMED),
        ({"kind": "slow", "workers": "h0", "slowdown": 2}, {COMPUTING}),
        ({"kind": "trace", "file": "x.csv"}, {COMPUTING}),
        ({"kind": "jitter", "sigma": "1 ms"}, {COMPUTING}),
        ({"kind": "jitter", "sigma": "1 ms", "of": "step"}, {STEPS}),
        ({"kind": "circuits", "flip": "all"}, {CIRCUITS}),
        ({"kind": "reconfigure"}, {UNSENT}),
        ({"kind": "hog", "hosts": "h0"}, set()),
        ({"kind": "freeze", "hosts": "h0"}, set()),
        ({"kind": "kill", "nodes": "h0", "at": "1 s"}, set()),
    ],
)
def test_effects_that_a_kind_of_trial_may_refuse(read, given: Any, effects: set[str]) -> None:
    (one,) = read(given)
    assert one.effects == effects


def test_nodes_that_stand_still_and_nodes_that_die(read) -> None:
    frozen, killed, down = read(
        {"kind": "freeze", "hosts": ["h0", "h1"]},
        {"kind": "kill", "nodes": "s0", "at": "1 s"},
        {"kind": "down", "links": "h2"},
    )
    assert [(*one.stops,) for one in (frozen, killed, down)] == [("h0", "h1"), (), ()]
    assert [(*one.kills,) for one in (frozen, killed, down)] == [(), ("s0",), ()]
    assert [str(moment) for moment in (*frozen.moments, *killed.moments)] == ["0 s", "1 s"]
