"""What tests of labs share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from testbed.lab.docker import image
from testbed.lab.docker.daemon import Daemon

from .dockerd import daemon, why_not


@pytest.fixture(scope="session")
def docker_address(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Iterator[str]:
    """A daemon that all processes of this test run have together, with the image of this machine made."""
    if reason := why_not():
        pytest.skip(reason)
    with daemon(tmp_path_factory.getbasetemp().parent / f"dockerd-{testrun_uid[:8]}") as address:
        before = os.environ.get("DOCKER_HOST")
        os.environ["DOCKER_HOST"] = address
        try:
            image.make(Daemon())
        finally:
            del os.environ["DOCKER_HOST"]
            if before is not None:
                os.environ["DOCKER_HOST"] = before
        yield address


@pytest.fixture
def docker(docker_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a Docker daemon of the tests' own, which is the one that testbed takes meanwhile."""
    monkeypatch.setenv("DOCKER_HOST", docker_address)
    return docker_address
