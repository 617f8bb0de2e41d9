"""Every block of YAML in the documentation is one that testbed takes.

The words behind the three ticks say what it is: ``yaml`` is an experiment, ``yaml fragment`` a part of one, whose keys
replace those of :data:`BASE`; ``yaml plugged`` a part that needs a package which the page describes, so that only its
keys are checked; ``yaml prices``, ``yaml inventory``, ``yaml batch`` and ``yaml job`` (of ``testbed find``) are what
their names say.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from testbed.experiment import batch_file
from testbed.experiment.planning import plan
from testbed.lab.baremetal.preparing import inventory
from testbed.spec import demand, prices, read
from testbed.spec.explain import known_keys
from tests.docs.markdown import Block, blocks, pages

pytestmark = pytest.mark.usefixtures("without_measuring")
BASE = """
name: base
links: {rate: 100 Mbit/s}
workload: {model: lenet5, dataset: digits, batch: 16, iterations: 10}
arms:
  - {topology: star(hosts=4), scheme: ring}
"""
KINDS = ("fragment", "plugged", "prices", "inventory", "batch", "job")
FOUND = [block for page in pages() for block in blocks(page, "yaml")]


def of_kind(*words: str) -> list[Block]:
    return [block for block in FOUND if block.words == ("yaml", *words)]


def planned(text: str, folder: Path) -> None:
    assert plan(read(text, "block", folder))["trials"]


def test_every_block_says_what_it_is() -> None:
    assert {block.words[1:] for block in FOUND} <= {(), *((kind,) for kind in KINDS)}


@pytest.mark.parametrize("block", of_kind(), ids=str)
def test_an_experiment_can_be_planned(block: Block, folder: Path) -> None:
    planned(block.text, folder)


@pytest.mark.parametrize("block", of_kind("fragment"), ids=str)
def test_a_part_of_an_experiment_can_be_planned(block: Block, folder: Path) -> None:
    planned(yaml.safe_dump(yaml.safe_load(BASE) | yaml.safe_load(block.text)), folder)


def test_a_part_for_which_a_package_is_needed_has_known_keys() -> None:
    for block in of_kind("plugged"):
        found = yaml.safe_load(block.text)
        assert set(found) <= {*known_keys(()), found.get("lab")}, str(block)


@pytest.mark.parametrize("block", of_kind("prices"), ids=str)
def test_prices_can_be_read(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(block.text)
    assert prices.load(path).source


@pytest.mark.parametrize("block", of_kind("job"), ids=str)
def test_a_job_can_be_read(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(block.text)
    assert demand.load(path).groups


@pytest.mark.parametrize("block", of_kind("inventory"), ids=str)
def test_an_inventory_can_be_read(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "lab.yml"
    path.write_text(block.text)
    assert inventory.load(path).hosts


@pytest.mark.parametrize("block", of_kind("batch"), ids=str)
def test_a_batch_can_be_read(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "batch.yaml"
    path.write_text(block.text)
    assert batch_file.load(path).batch.updates
