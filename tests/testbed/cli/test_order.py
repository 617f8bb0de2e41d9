"""``testbed order`` and ``testbed.order()``: files of costs, and what a user reads after a mistake in one.

The texts are in golden/order/NAME.txt; set GOLDEN=write to write them anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import testbed as installed
from testbed.base.errors import SpecError

from ..conftest import Called
from ..spec.test_bad_input import GOLDEN, check

COSTS = """\
,a,b,c,d
a,0,3,1,3
b,3,0,3,1
c,1,3,0,3
d,3,1,3,0
"""
MISTAKES: dict[str, tuple[str, list[str]]] = {
    "not_square": (",a,b\na,0,1\n", []),
    "row_too_short": (COSTS.replace("b,3,0,3,1", "b,3,0,3"), []),
    "negative": (COSTS.replace("a,0,3", "a,0,-3"), []),
    "nan": (COSTS.replace("a,0,3", "a,0,nan"), []),
    "no_number": (COSTS.replace("a,0,3", "a,0,far"), []),
    "names_differ": (COSTS.replace("\nb,", "\nB,"), []),
    "name_twice": (",a,a\na,0,1\na,1,0\n", []),
    "too_many": ("," + ",".join(map(str, range(1025))) + "\n", []),
    "empty": ("", []),
    "unknown_cost": (COSTS, ["--cost", "rign"]),
    "no_power_of_two": (",a,b,c\na,0,1,1\nb,1,0,1\nc,1,1,0\n", ["--cost", "halving_doubling"]),
    "not_text": ("\udcff", []),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake(name: str, testbed: Callable[..., Called], spec_file: Path) -> None:
    text, options = MISTAKES[name]
    (spec_file.parent / "costs.csv").write_bytes(text.encode(errors="surrogateescape"))
    called = testbed("order", "costs.csv", *options)
    check(f"order/{name}", called)
    assert called.code == 2


def test_every_golden_text_belongs_to_a_case() -> None:
    assert {path.stem for path in (GOLDEN / "order").glob("*.txt")} == MISTAKES.keys()


def test_the_order_and_what_is_known_of_it(testbed: Callable[..., Called], spec_file: Path) -> None:
    (spec_file.parent / "costs.csv").write_text(COSTS)
    told = json.loads(testbed("order", "costs.csv", "--json").out)
    assert {told["order"].index("a") - told["order"].index("c")} <= {1, -1, 3, -3}  # neighbours in the ring
    assert {name: told[name] for name in ("model", "cost", "by_number", "worst", "bound", "proven")} == {
        "model": "ring",
        "cost": 8,
        "by_number": 12,
        "worst": 12,
        "bound": 8,
        "proven": True,
    }
    text = testbed("order", "costs.csv", "--worst", "--cost", "double_binary_tree").out
    assert "proven" in text
    assert "longest way of the scheme's trees" in text


def test_a_table_is_taken_as_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text(COSTS)
    table = pd.read_csv(tmp_path / "costs.csv", index_col=0)
    by_table, by_file = (
        installed.order(table, "bcube(base=2)"),
        installed.order(tmp_path / "costs.csv", "bcube(base=2)"),
    )
    assert by_table.order == by_file.order
    renamed = installed.order(table.rename(index=str.upper, columns=str.upper), "bcube(base=2)")
    assert renamed.order == [name.upper() for name in by_table.order]
    with pytest.raises(SpecError, match="the table has 'b' in the first column"):
        installed.order(table.iloc[[1, 0, 2, 3]])
