"""What tests of labs share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import pytest

from testbed.base.errors import LabError
from testbed.lab.base import Lab
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


L = TypeVar("L", bound=Lab)


class Idle:
    """Labs in which nothing is up, for tests one after the other: starting one takes longer than most tests."""

    def __init__(self) -> None:
        self._labs: dict[str, Lab] = {}

    @contextmanager
    def taken(self, name: str, make: Callable[[], L]) -> Iterator[L]:
        """The lab of this name, made if there is none; it is kept unless the test has ended it."""
        lab: L = self._labs.pop(name, None) or make()  # type: ignore[assignment]
        try:
            yield lab
        except BaseException:
            lab.close()
            raise
        try:
            lab.down()
        except LabError:
            lab.close()
        else:
            self._labs[name] = lab

    def close(self) -> None:
        while self._labs:
            self._labs.popitem()[1].close()


@pytest.fixture(scope="session")
def idle() -> Iterator[Idle]:
    labs = Idle()
    yield labs
    labs.close()


@pytest.fixture
def docker(docker_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a Docker daemon of the tests' own, which is the one that testbed takes meanwhile."""
    monkeypatch.setenv("DOCKER_HOST", docker_address)
    return docker_address
