"""The schema for editors: it takes every spec that testbed takes, and refuses mistakes that an editor can see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from testbed.spec.json_schema import schema
from testbed.spec.options import LAB_OPTIONS, OF_BUILT_IN
from testbed.spec.yaml import override, parse
from tests.docs.markdown import ROOT, blocks, pages
from tests.docs.test_specs import BASE
from tests.shipped import SPECS

from ..conftest import PROFILE, SPEC
from ..sweeps import SWEEP

DOCUMENTED = [block for page in pages() for block in blocks(page, "yaml") if block.words[1:] in ((), ("fragment",))]


@pytest.fixture(scope="module")
def validator() -> Any:
    found = schema()
    jsonschema.Draft7Validator.check_schema(found)
    return jsonschema.Draft7Validator(found)


def mistakes(validator: Any, text: str, *overrides: str) -> list[str]:
    settings = parse(text, "spec.yaml")
    override(settings, overrides)
    return [error.message for error in validator.iter_errors(settings)]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: str(path.relative_to(ROOT)))
def test_it_takes_every_experiment(validator: Any, path: Path) -> None:
    assert mistakes(validator, path.read_text()) == []


@pytest.mark.parametrize("block", DOCUMENTED, ids=str)
def test_it_takes_every_spec_of_the_documentation(validator: Any, block: Any) -> None:
    whole = (
        block.text if block.words == ("yaml",) else yaml.safe_dump(yaml.safe_load(BASE) | yaml.safe_load(block.text))
    )
    assert mistakes(validator, whole) == []


TAKEN = [
    "workload.batch=1..64 x2",
    "workload.batch=[16, 1..4]",
    "workload.iterations=[5, 10..20 step 5]",
    "workload.compute=[none, {mode: paced, pace: {2: [0.1 s, 0.2 s]}}]",
    "workload.chunk=64..256 x2 KiB",
    "workload.overlap=[none, layer]",
    "links.loss=[0, 1 %]",
    "links.delay=1..3 ms",
    "links.congestion_control=[reno, null]",
    "links.h0={rate: [100 Mbit/s, 200 Mbit/s]}",
    "links.ecn=true",
    "arms.0.topology=[star(hosts=3), 'star(hosts=[4,5])']",
    "arms.0.perturb={kind: straggle, probability: [1 %, 2 %], slowdown: 2}",
    "perturb=[C1, {kind: kill, nodes: h1, at: iteration 2}, {kind: hog, hosts: h0, at: 1 s}]",
    "perturb=N3",
    "repeats={until: 3 %, most: 9}",
    "where=[batch > 2]",
    "quiet=0",
    "failover=2 s",
    "lab=docker",
    "docker={cpus: 2, memory: 1 GiB}",
]
REFUSED = [
    "linkss={}",
    "links.rate=200",
    "links.rate=200 Mbits",
    "links.delay=[1 ms, 2]",
    "links.loss=2",
    "links.h0={rte: 1 Mbit/s}",
    "workload.kind=trained",
    "workload.iterations=0",
    "workload.iterations=ten",
    "workload.overlap=both",
    "workload.compute=fast",
    "workload.pace=1 s",
    "arms=[]",
    "arms.0.topology=3",
    "arms.0.labels=x",
    "perturb=C9",
    "perturb=[{kind: straggle, probability: 1 %, speed: 2}]",
    "perturb=[{probability: 1 %}]",
    "repeats=0",
    "docker={memory: 1}",
    "lab=[netns, docker]",
    "seed=-1",
]


@pytest.mark.parametrize("override", TAKEN)
def test_it_takes_sweeps_and_what_has_several_forms(validator: Any, override: str) -> None:
    assert mistakes(validator, SPEC, override) == []


@pytest.mark.parametrize("override", REFUSED)
def test_it_refuses_mistakes(validator: Any, override: str) -> None:
    assert mistakes(validator, SPEC, override)


def test_it_takes_what_is_read_before_the_schema(validator: Any) -> None:
    assert mistakes(validator, PROFILE, "workload.scale=fit") == []
    assert mistakes(validator, SWEEP) == []
    assert mistakes(validator, SPEC.partition("\n")[2]) == []  # without a name


def test_keys_are_explained() -> None:
    found = schema()
    assert set(LAB_OPTIONS) & OF_BUILT_IN <= set(found["properties"])
    groups = [found, *found["definitions"].values()]
    silent = [key for one in groups for key, value in one["properties"].items() if not value["description"]]
    assert silent == []
