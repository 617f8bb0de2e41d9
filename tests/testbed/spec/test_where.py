"""Conditions: what they say, and that they say nothing else."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from testbed.base.errors import SpecError
from testbed.spec.where import DEEPEST, LONGEST, condition, unit_of

KNOWN = (
    "links.rate",
    "topology.hosts",
    "scheme.servers",
    "perturb.0.slowdown",
    "scheme.place",
    "label",
    "workload.batch",
)
VALUES = {
    "links.rate": 100_000_000,
    "topology.hosts": 4,
    "scheme.servers": 2,
    "perturb.0.slowdown": 2.0,
    "scheme.place": "tensor",
    "label": "PS on 4",
    "workload.batch": 16,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("servers <= hosts", True),
        ("scheme.servers > topology.hosts", False),
        ("1 < servers < hosts <= 4", True),
        ("rate >= 100 Mbit/s", True),
        ("rate > 100 Mbit/s", False),
        ("links.rate == 0.1 Gbit/s and batch in (8, 16)", True),
        ("batch not in [8, 16] or hosts == 4", True),
        ("not hosts > 3", False),
        ("hosts % servers == 0", True),
        ("hosts % 2 == 0", True),
        ("100 % (hosts - 1) == 1", True),
        ("hosts * 10 % == 0.4", True),
        ("hosts / servers == 2 and hosts // 3 == 1", True),
        ("-hosts + servers * 3 - 1 == 1", True),
        ("place == 'tensor' and label != \"5 s\"", True),
        ("label == 'PS on 4'", True),
        ("perturb[0].slowdown == 2", True),
        ("slowdown == 2", True),
        ("place in ['chunk', 'tensor']", True),
    ],
)
def test_what_conditions_say(text: str, expected: bool) -> None:
    assert condition(text, KNOWN).holds(VALUES) is expected


def pairs(of: st.SearchStrategy[str], words: list[str]) -> st.SearchStrategy[str]:
    return st.builds("({} {} {})".format, of, st.sampled_from(words), of)


NAMES = st.sampled_from(["a", "b", "c", "2", "0.5"])
NUMBERS = st.recursive(NAMES, lambda inner: pairs(inner, ["+", "-", "*"]), max_leaves=6)
COMPARED = pairs(NUMBERS, ["<", "<=", "==", "!=", ">", ">="])
CONDITIONS = st.recursive(
    COMPARED, lambda inner: pairs(inner, ["and", "or"]) | st.builds("(not {})".format, inner), max_leaves=6
)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), CONDITIONS)
def test_a_condition_says_what_python_says(a: int, b: int, c: int, text: str) -> None:
    assume(len(text) <= LONGEST and text.count("(") <= DEEPEST and set("abc") & set(text.replace("and", "")))
    values = {"a": a, "b": b, "c": c}
    assert condition(text, list(values)).holds(values) is eval(text, {}, values)


def test_what_an_arm_does_not_sweep_does_not_concern_it() -> None:
    assert condition("servers > 99", KNOWN).holds({"topology.hosts": 4})
    assert condition("servers > hosts", KNOWN).fields == {"scheme.servers", "topology.hosts"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("host < 3", "'host < 3': no field 'host' is swept (did you mean 'hosts'?)"),
        ("place == tensor", "'place == tensor': no field 'tensor' is swept"),
        ("1 < 2", "'1 < 2' is about no field"),
        ("hosts <", "cannot read 'hosts <'"),
        ("hosts = 3", "cannot read 'hosts = 3'"),
        ("", "cannot read ''"),
        ("hosts; rate", "cannot read 'hosts; rate'"),
        ("exec('x') == 0", "\"exec('x') == 0\": a condition cannot have exec('x')"),
        ("hosts.__class__ == 1", "'hosts.__class__ == 1': no field 'hosts.__class__' is swept"),
        ("hosts ** 99 > 1", "'hosts ** 99 > 1': a condition cannot have hosts ** 99"),
        ("(lambda: hosts)() > 1", "'(lambda: hosts)() > 1': a condition cannot have (lambda: hosts)()"),
        ("f'{hosts}' == '4'", "\"f'{hosts}' == '4'\": a condition cannot have f'{hosts}'"),
        ("1 if hosts else 2", "'1 if hosts else 2': a condition cannot have 1 if hosts else 2"),
        ("[h for h in hosts] == 1", "'[h for h in hosts] == 1': a condition cannot have [h for h in hosts]"),
        ("hosts[1:2] == 1", "'hosts[1:2] == 1': a condition cannot have hosts[1:2]"),
        ("hosts == None", "'hosts == None': a condition cannot have None"),
        ("hosts is 3", "'hosts is 3': a condition cannot have hosts is 3"),
        ("~hosts == 3", "'~hosts == 3': a condition cannot have ~hosts"),
        ("(hosts := 3) == 3", "'(hosts := 3) == 3': a condition cannot have (hosts := 3)"),
        ("x" * (LONGEST + 1), "a condition of 501 characters"),
    ],
)  # fmt: skip
def test_what_is_no_condition(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as error:
        condition(text, KNOWN)
    assert error.value.problem == problem
    assert error.value.fix


RATES = {"links.rate": "Mbit/s"}


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("rate > 100", "100"),
        ("100 <= rate", "100"),
        ("rate in [100 Mbit/s, 200]", "200"),
        ("hosts > 2 and not links.rate == 0.5", "0.5"),
        ("place != 'ä' and 100 Mbit/s < rate < 200", "200"),
    ],
)
def test_what_has_a_unit_is_compared_with_a_unit(text: str, bare: str) -> None:
    with pytest.raises(SpecError) as error:
        condition(text, KNOWN, RATES)
    assert error.value.problem == f"{text!r}: {bare} has no unit"
    assert error.value.fix == f"write it with its unit, such as {bare} Mbit/s"


@pytest.mark.parametrize(
    "text",
    [
        "rate > 100 Mbit/s",
        "rate > 0",
        "rate != 'x'",
        "hosts > 100 or rate in (1 Gbit/s,)",
        "(rate <= 100 Mbit/s or\n    rate >= 1 Gbit/s)",
    ],
)
def test_other_comparisons_need_none(text: str) -> None:
    assert condition(text, KNOWN, RATES).fields


@pytest.mark.parametrize(
    ("value", "unit"), [("100 Mbit/s", "Mbit/s"), ("2 ms", "ms"), ("10 %", None), ("tensor", None), (4, None)]
)
def test_the_unit_of_a_value(value: object, unit: str | None) -> None:
    assert unit_of(value) == unit


@pytest.mark.parametrize(
    "text", ["(" * 240 + "hosts" + ")" * 240 + " > 1", "-" * 400 + "hosts > 1", "not " * 90 + "hosts > 1"]
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"nested too deeply|cannot read"):
        condition(text, KNOWN).holds(VALUES)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("label < 3", "'label < 3': 'PS on 4' and 3 cannot be compared like that"),
        ("hosts in 3", "'hosts in 3': 4 and 3 cannot be compared like that"),
        ("hosts", "'hosts': it is 4 and not true or false"),
        ("hosts and servers", "'hosts and servers': 4 is not true or false"),
        ("not hosts", "'not hosts': 4 is not true or false"),
        ("hosts / (servers - 2) > 1", "'hosts / (servers - 2) > 1': 4 and 0: division by zero"),
        ("label * 9 == 'x'", "\"label * 9 == 'x'\": 'PS on 4' is not a number to compute with"),
        ("-label == 3", "'-label == 3': 'PS on 4' is not a number to compute with"),
    ],
)
def test_what_cannot_be_computed(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as error:
        condition(text, KNOWN).holds(VALUES)
    assert error.value.problem == problem


def test_a_name_that_several_fields_end_with() -> None:
    with pytest.raises(SpecError) as error:
        condition("rate > 1", ["links.rate", "perturb.0.rate"])
    assert str(error.value) == "'rate > 1': rate may be links.rate or perturb.0.rate\n  fix: write the whole name"
    assert condition("perturb[0].rate > 1", ["links.rate", "perturb.0.rate"]).fields == {"perturb.0.rate"}
