"""Specs and changes as Python gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.api.spec import words_of
from testbed.base.errors import OutputError, SpecError
from testbed.spec.yaml import override

from ..conftest import SPEC


def test_changes_are_what_the_command_line_takes() -> None:
    changes = {"links.rate": "100 Mbit/s", "batch": [1, 2], "pace": {16: "0.3 s"}, "on": True, "none": None, "n": 5}
    texts = {"links": {"sweep": ["1 Gbit/s"]}, "text": "5"}
    with words_of("mine.yaml", changes | texts) as words:
        assert words[-2:] == ["--", "mine.yaml"]
        settings: dict[object, object] = {}
        override(settings, [word.removeprefix("--set=") for word in words[:-2] if "links={" not in word])
    assert settings == {
        "links": {"rate": "100 Mbit/s"},
        "batch": [1, 2],
        "pace": {16: "0.3 s"},
        "on": True,
        "none": None,
        "n": 5,
        "text": 5,
    }


def test_a_dict_is_a_file_here_and_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = yaml.safe_load(SPEC)
    shared = ["a"] * 2
    with words_of({**spec, "one": shared, "other": shared}, None) as words:
        path = Path(words[-1])
        assert path.parent == tmp_path
        assert yaml.safe_load(path.read_text()) == {**spec, "one": shared, "other": shared}
        assert "&" not in path.read_text()  # specs have no aliases
    assert list(tmp_path.iterdir()) == []


def test_errors_do_not_name_the_file_of_a_dict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as error, words_of({"name": "x"}, None) as words:
        raise SpecError(f"{Path(words[-1]).name}: links: missing", fix="add it")
    assert str(error.value) == "the dict: links: missing\n  fix: add it"


def test_what_yaml_cannot_write_is_refused() -> None:
    itself: dict[str, Any] = {}
    itself["again"] = itself
    for value in (object(), itself):
        with (
            pytest.raises(SpecError, match="set: seed: cannot be written as YAML"),
            words_of("x.yaml", {"seed": value}),
        ):
            pass


def test_a_directory_that_cannot_be_written_to_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/proc")
    with pytest.raises(OutputError, match="a dict is written into a file here"), words_of({"name": "x"}, None):
        pass


def test_a_dict_has_no_file_whose_name_it_could_have() -> None:
    with pytest.raises(SpecError, match="the dict: name: missing"), words_of({"seed": 1}, None):
        pass
    with words_of({"name": "x"}, None), words_of({}, {"name": "x"}):
        pass
