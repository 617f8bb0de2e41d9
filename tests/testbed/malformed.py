"""Specs that make no sense, derived from the schema: every key with values of other types, out of range, of absurd
size, missing, or beside keys that there are not; and YAML that is none, or would like to be more."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testbed.spec import Spec
from testbed.topologies.build import families
from testbed.workloads.sync.schemes import schemes

SCHEMA = Spec.model_json_schema()
NESTED: Any = [[[[[[1]]]]]]
MINIMAL = {"Profile": {"batch": 32}, "Slow": {"slowdown": 2}}
"""Where a minimal group of the schema's own examples makes no sense."""
OTHER_TYPES: dict[str, list[object]] = {
    "object": [None, True, 7, 1e99, "x", NESTED],
    "array": [{"a": {"b": 1}}, NESTED, [None], [{"a": 1}]],
    "string": [None, True, 7, -1e30, [], {}, NESTED, {"a": [1]}],
    "integer": [None, True, 1.5, "many", "-1", [], {}, NESTED, {"a": 1}, float("nan"), float("inf"), 1e99],
    "boolean": [None, 7, "many", [], {}, NESTED],
    "number": [None, True, "many", "1e30 apples", "-5 s", [], {}, NESTED, {"a": 1}, float("nan"), float("-inf")],
}
UNLIKELY: dict[str, list[object]] = {
    "boolean": [0, "yes"],
    "object": [{}],
    "array": [[], list(range(5000)), ["x" * 5000], "x", 7],
    "string": [
        "",
        "x",
        "x" * 30_000,
        "\0",
        "a\nb",
        "../../etc/passwd",
        "/dev/zero",
        "~/x",
        "$HOME",
        "é" * 300,
        " " * 30_000,
    ],
    "integer": [-(10**9), 10**9, 10**18, 10**30, 0, -1],
    "number": [1e99, -1e99, 0, "1e30 Gbit/s", "1e30 s", "0 s", "1e-30 s", "1e30 MB", "9" * 30_000 + " s", "1 parsec"],
}
"""Of the right type; whether they make sense depends on the key."""


@dataclass(frozen=True)
class Malformed:
    """A value in place of a right one; ``certainly`` wrong, whatever the key means."""

    what: str
    value: Any
    certainly: bool = True


def specs() -> list[Malformed]:
    """Every spec in which one thing of the schema is replaced."""
    return [one for one in _mutants(SCHEMA, "") if isinstance(one.value, dict)]


def _resolved(node: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref")
    return SCHEMA["$defs"][reference.rpartition("/")[2]] if reference else node


def _minimal(node: dict[str, Any]) -> Any:
    """The required keys with the schema's own examples."""
    found = {}
    for key in node.get("required", ()):
        of = node["properties"][key]
        found[key] = of["const"] if "const" in of else yaml.safe_load(str(of["examples"][0]))
    return found | MINIMAL.get(node.get("title", ""), {})


def _mutants(node: dict[str, Any], where: str) -> Iterator[Malformed]:
    node = _resolved(node)
    branches = node.get("anyOf", node.get("oneOf"))
    if branches:
        for branch in branches:
            if branch.get("type") != "null":
                yield from (one for one in _mutants(branch, where) if one.value is not None)
        return
    words = node.get("enum") or ([node["const"]] if "const" in node else None)
    if words:
        yield from (
            Malformed(f"{where} {bad!r:.20}", bad) for bad in [*OTHER_TYPES["string"], "netnss", "x" * 5000, "\0"]
        )
        return
    if "type" not in node:  # anything, which a validator of ours reads
        return
    # A quantity is a number in the schema and text with a unit in YAML, a list of one may be written without brackets:
    # such a value of another type is not certainly wrong.
    for value in OTHER_TYPES[node["type"]]:
        optional = value is None or node["type"] in ("array", "object")
        yield Malformed(f"{where} {value!r:.20}", value, not optional)
    yield from (Malformed(f"{where} {value!r:.20}", value, False) for value in UNLIKELY[node["type"]])
    if node["type"] == "array":
        for one in _mutants(node["items"], f"{where}[]"):
            yield Malformed(one.what, [one.value], one.certainly)
    elif "properties" in node:
        yield from _keys(node, where)


def _keys(node: dict[str, Any], where: str) -> Iterator[Malformed]:
    """A group with one of its keys replaced, missing, or with one more."""
    minimal = _minimal(node)
    for name in ("x", "", "__class__", "model_config", 7, "é", "x" * 3000):
        yield Malformed(f"{where} and {name!r:.20}", {**minimal, name: 1})
    for key in node.get("required", ()):
        yield Malformed(f"{where} without {key}", {k: v for k, v in minimal.items() if k != key}, key != "kind")
    for key, child in node["properties"].items():
        for one in _mutants(child, f"{where}.{key}"):
            yield Malformed(one.what, {**minimal, key: one.value}, one.certainly)


ABSURD = ["1000000000", "99999999", "300000", "-1", "0", "1e30", "nan", "inf", "x", "[1]", "[[1]]", "[]", "[99999999]"]
ABSURD += ["9" * 5000, "[" * 900 + "]" * 900, "[[0,1],[2,99999999]]", "../../etc/passwd"]
RIGHT = {"star": "hosts=3", "bcube": "n=2,k=2", "fat_tree": "k=4", "dragonfly": "a=2,g=3,h=1"}
RIGHT["patch_panel"] = "servers=4,degree=2"
RIGHT["cloud"] = "rows=1,racks=2,hosts_per_rack=2"
RIGHT["expander"] = "servers=6,degree=3"
RIGHT["spine_leaf"] = "racks=2,hosts_per_rack=2,spines=1"
PATHS = [
    "../../etc/passwd:f",
    "/etc/passwd:f",
    "/dev/zero:f",
    "/dev/zero",
    "./pipe.py:f",
    "./spec.yaml:f",
    "/proc/self/mem:f",
]
PATHS += [
    "~/x.py:f",
    "$HOME/x.py:f",
    "./loop.py:f",
    "./folder.py:f",
    "./zero.py:f",
    "./huge.py:f",
    "\0.py:f",
    "a:b:c",
    ":",
]
PATHS += ["x" * 5000 + ".py:f", "http://localhost/x.py:f", " " * 30_000 + "x", "x" + " " * 30_000 + "(", "x" * 40_000]


def expressions() -> list[tuple[str, str]]:
    """(topology, scheme), one of which has an absurd parameter or leads out of what there is."""
    found = []
    for family in families().values():
        for parameter in family.parameters:
            rest = [one for one in RIGHT[family.name].split(",") if not one.startswith(f"{parameter.name}=")]
            found += [(f"{family.name}({','.join([*rest, f'{parameter.name}={bad}'])})", "ring") for bad in ABSURD]
        found += [(f"{family.name}({RIGHT[family.name]},ina={bad})", "ring") for bad in ABSURD]
    for scheme in schemes().values():
        for parameter in scheme.parameters:
            found += [("star(hosts=3)", f"{scheme.name}({parameter.name}={bad})") for bad in ABSURD]
    return [*found, *((path, "ring") for path in PATHS), *(("star(hosts=3)", path) for path in PATHS)]


def texts(right: str) -> dict[str, bytes]:
    """Files that hold no spec; ``right`` is one that is."""
    bombs = "a: &a [x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 8)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
    )
    tags = [
        "!!int ''",
        "!!bool x",
        "!!timestamp x",
        "!!map [1]",
        "!!set {a, b}",
        "!!omap [a: 1]",
        "!!binary '*'",
        "!x y",
    ]
    tags += ["!!python/object/apply:os.system [id]", "!!python/name:os.system", "!!merge x", "!!float x", "!<tag:x> 1"]
    found = {f"tag {tag}": right.replace("seed: 1", f"seed: {tag}") for tag in tags}
    for depth in (50, 300, 900, 20_000):
        found |= {
            f"lists {depth}": f"a: {'[' * depth}{']' * depth}",
            f"keys {depth}": "{a: " * depth + "1" + "}" * depth,
        }
        found[f"seed of {depth} lists"] = right.replace("seed: 1", f"seed: {'[' * depth}{']' * depth}")
        found[f"links of {depth} keys"] = right.replace(
            "links: {", "links: " + "{rate: " * depth + "1" + "}" * depth + " # "
        )
    for number in ("9" * 5000, "0x" + "f" * 5000, "1:2:3", "1_000", "1e400", "-" + "9" * 400, "010"):
        found |= {
            f"{key} {number[:9]}": right.replace(f"{key}: ", f"{key}: {number} #")
            for key in ("seed", "iterations", "batch")
        }
    found |= {
        **{"bomb": bombs, "alias": "a: &a 1\nb: *a\n", "itself": "a: &a [*a]\n", "merge": f"{right}<<: {{a: 1}}\n"},
        **{"empty": "", "nothing": "---\n...\n", "two": f"{right}---\n{right}", "a list": "- 1\n", "a word": "x"},
        **{
            "NUL": f"{right}\0",
            "bell": f"{right}x: \7",
            "key twice": f"{right}seed: 2\n",
            "odd key": f"{right}? [a]\n: 1\n",
        },
        **{
            "NaN key": f"{right}.nan: 1\n",
            "true key": f"{right}true: 1\n",
            "tab": f"{right}\tx: 1\n",
            "quote": f'{right}x: "',
        },
        **{
            "huge": right + "#" * 140_000,
            "huge list": f"{right}x: [{'1,' * 30_000}]",
            "version": f"%YAML 9.9\n---\n{right}",
        },
        **{
            "many arms": right.replace(
                "timeout", "".join(f"  - {{topology: star(hosts={i}), scheme: ring}}\n" for i in range(900)) + "timeout"
            )
        },
        **{
            "many keys": "".join(f"k{i}: 1\n" for i in range(7000)),
            "wide": "a: {" + ", ".join(f"b{i}: [{i}]" for i in range(3000)) + "}",
        },
    }
    binary = {
        "UTF-16": right.encode("utf-16"),
        "no UTF-8": b"name: \xff\xfe",
        "zeros": bytes(5000),
        "cut": "é".encode()[:1],
    }
    binary["noise"] = random.Random(1).randbytes(20_000)
    return {name: text.encode() for name, text in found.items()} | binary


def surroundings(folder: Path) -> None:
    """Files that :data:`PATHS` names, and that are no Python."""
    import os

    os.mkfifo(folder / "pipe.py")
    (folder / "folder.py").mkdir()
    (folder / "loop.py").symlink_to("loop.py")
    (folder / "zero.py").symlink_to("/dev/zero")
    with (folder / "huge.py").open("wb") as file:
        file.truncate(1 << 40)  # a hole
