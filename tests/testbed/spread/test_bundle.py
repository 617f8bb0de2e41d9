"""Archives that travel between machines are read as files of others are."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from testbed.files.foreign import UnfitError
from testbed.spread import bundle
from testbed.spread.bundle import pack, unpack
from testbed.trial.inputs import MOST_BYTES


def packed(name: str, kind: bytes = tarfile.REGTYPE) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    return made.getvalue()


def test_files_come_back_as_they_were(tmp_path: Path) -> None:
    assert unpack(pack({"trials/a.json": b"{}", "logs/a/x": b"1"}), tmp_path) == ["trials/a.json", "logs/a/x"]
    assert (tmp_path / "trials/a.json").read_bytes() == b"{}"


@pytest.mark.parametrize(
    "sent",
    [
        packed("../outside"),
        packed("trials/../../outside"),
        packed("/outside"),
        packed("trials/link", tarfile.SYMTYPE),
        packed("trials/link", tarfile.LNKTYPE),
        packed("trials/pipe", tarfile.FIFOTYPE),
        b"no archive",
        None,
    ],
    ids=["above", "above_again", "absolute", "link", "hard_link", "pipe", "no_archive", "nothing"],
)
def test_nothing_but_files_below_the_folder_is_written(tmp_path: Path, sent: object) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(UnfitError):
        unpack(sent, inside)
    assert [*tmp_path.rglob("*")] == [inside]


def test_the_files_of_a_spec_have_room() -> None:
    assert bundle.LARGEST_BYTES == 2 * MOST_BYTES


def test_too_much_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "LARGEST_BYTES", 1000)
    with pytest.raises(UnfitError, match="sent 1,001 bytes, and 1,000 are the most"):
        pack({"a": bytes(1001)})
    with pytest.raises(UnfitError, match="are the most"):
        unpack(bytes(1001), tmp_path)
