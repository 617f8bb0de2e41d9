"""What tests of labs share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from testbed.lab.docker import image
from testbed.lab.docker.daemon import Daemon

from .dockerd import DaemonError, daemon, why_not


@pytest.fixture(scope="session")
def docker_address(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Iterator[str]:
    """A daemon that all processes of this test run have together, with the image of this machine made."""
    if reason := why_not():
        pytest.skip(reason)
    with ExitStack() as stack:
        folder = tmp_path_factory.getbasetemp().parent / f"dockerd-{testrun_uid[:8]}"
        try:
            address = stack.enter_context(daemon(folder))
        except DaemonError as error:
            pytest.skip(str(error))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DOCKER_HOST", address)
            image.make(Daemon())
        yield address


@pytest.fixture
def docker(docker_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a Docker daemon of the tests' own, which is the one that testbed takes meanwhile."""
    monkeypatch.setenv("DOCKER_HOST", docker_address)
    return docker_address
