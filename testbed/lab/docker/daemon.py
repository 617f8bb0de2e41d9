"""The Docker daemon of this machine: verbs over Docker's Python SDK, and its errors in our words.

Everything that is made carries labels: to which lab it belongs, and which process has made it. Only what carries them
is ever removed.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from testbed.base.errors import LabError, MissingToolError, PrivilegeError, UsageError
from testbed.base.extras import install

if TYPE_CHECKING:
    from docker import APIClient

PACKAGE = "docker"
NO_HEALTHCHECK = {"test": ["NONE"]}
"""Setting that overrides the program that an image may have for Docker to run in each of its containers, again and
again."""
MOST_SAID = 4000
"""The most characters that are kept of what a command in an image prints."""
LAB, NODE, OWNER = "testbed.lab", "testbed.node", "testbed.owner"
"""Labels: the lab's id, the node's name, and the process that has made it."""
DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
LOCAL = "unix://"
TIMEOUT_S = 60
GONE = (404, 409)
"""Statuses with which Docker answers when a thing to be removed has gone, or is going."""


@dataclass(frozen=True)
class Owner:
    """A process, told from every other that has or will have its number.

    ``started_ticks`` is its start since boot, ``boot`` this start of the kernel, ``namespace`` that of its PID.
    """

    pid: int
    started_ticks: int
    boot: str
    namespace: int

    @classmethod
    def of(cls, pid: int) -> Owner | None:
        """Identify the process that has this number now."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return cls(pid, int(fields[19]), boot, Path("/proc/self/ns/pid").stat().st_ino)

    def __str__(self) -> str:
        return f"{self.pid}/{self.started_ticks}/{self.boot}/{self.namespace}"

    @classmethod
    def parse(cls, text: str) -> Owner:
        """Raises ValueError: it is not what ``str`` gives."""
        pid, started_ticks, boot, namespace = text.split("/")
        return cls(int(pid), int(started_ticks), boot, int(namespace))

    def may_live(self) -> bool:
        """Whether the process is there; True where it cannot be seen from here, in another container."""
        here = Owner.of(os.getpid())
        assert here is not None
        if self.boot != here.boot:
            return False
        return self.namespace != here.namespace or Owner.of(self.pid) == self


@dataclass(frozen=True)
class Marked:
    """A container that carries our labels."""

    id: str
    name: str
    lab: str
    owner: Owner
    state: str
    """State as Docker says it: ``created``, ``running``, ``exited``, ..."""


class Daemon:
    """A connection to the daemon; methods may be called from several threads.

    Raises:
        MissingToolError: Docker's Python package is not installed, or no daemon answers.
        PrivilegeError: this user may not talk to it.
        UsageError: it runs on another machine.
    """

    def __init__(self) -> None:
        if importlib.util.find_spec(PACKAGE) is None:
            raise MissingToolError("the Python package docker is not installed", fix=install("docker"))
        from docker import APIClient

        self.address = os.environ.get("DOCKER_HOST") or DEFAULT_ADDRESS
        if not self.address.startswith(LOCAL):
            raise UsageError(
                f"DOCKER_HOST is {self.address}: the Docker daemon must be on this machine, whose files and network "
                "the containers share",
                fix=f"unset it, or set it to the daemon's socket, such as {DEFAULT_ADDRESS}",
            )
        self._check_socket(Path(self.address.removeprefix(LOCAL)))
        with self._said("connect"):
            self.api: APIClient = APIClient(base_url=self.address, version="auto", timeout=TIMEOUT_S)

    def _check_socket(self, path: Path) -> None:
        if not path.exists():
            raise self._absent()
        if not os.access(path, os.R_OK | os.W_OK):
            raise PrivilegeError(
                f"this user may not talk to the Docker daemon at {path}", fix="run as root, or join the group docker"
            )

    def _absent(self) -> MissingToolError:
        return MissingToolError(
            f"no Docker daemon answers at {self.address}",
            fix="start it: sudo systemctl start docker (install it: sudo apt-get install docker.io), "
            "or set DOCKER_HOST to its socket",
        )

    def image(self, name: str) -> dict[str, Any] | None:
        """Return Docker's description of an image; None where there is none of that name."""
        from docker.errors import NotFound

        with self._said(f"look for image {name}"):
            try:
                return cast(dict[str, Any], self.api.inspect_image(name))  # type: ignore[no-untyped-call]
            except NotFound:
                return None

    def load(self, archive: bytes, repository: str, tag: str) -> None:
        """Make an image of a file system."""
        with self._said(f"make image {repository}:{tag}"):
            self.api.import_image_from_data(archive, repository=repository, tag=tag)

    def start(self, name: str, image: str, settings: Mapping[str, Any], host: Mapping[str, Any]) -> str:
        """Make a container and start it; return its id. ``settings`` and ``host`` are as in Docker's API. Raises
        LabError: Docker refuses, or drops a limit."""
        with self._said(f"start container {name}"):
            config = self.api.create_host_config(**host)
            made = self.api.create_container(image, name=name, host_config=config, **settings)
            dropped = [text for text in made.get("Warnings") or () if "discarded" in text.lower()]
            if dropped:
                self.remove(made["Id"])
                raise LabError(f"Docker: {'; '.join(dropped)}", fix="use a kernel with that cgroup controller")
            self.api.start(made["Id"])
            return str(made["Id"])

    def output(self, image: str, command: list[str], host: Mapping[str, Any], owner: Mapping[str, str]) -> str:
        """Run a command in a container that is removed afterwards, and return its output and errors; for what takes a
        moment. Raises LabError: Docker cannot start it, or it does not end."""
        from requests.exceptions import ConnectionError, ReadTimeout

        with self._said(f"run {command[0]} in image {image}"):
            config = self.api.create_host_config(**host)
            made = self.api.create_container(
                image,
                name=container_name(owner[LAB], owner[NODE]),
                entrypoint=command,
                host_config=config,
                labels=dict(owner),
                healthcheck=NO_HEALTHCHECK,
            )
            try:
                self.api.start(made["Id"])
                try:
                    self.api.wait(made["Id"], timeout=TIMEOUT_S)
                except (ConnectionError, ReadTimeout) as error:
                    if "timed out" not in str(error):
                        raise
                    raise LabError(
                        f"{command[0]} in image {image!r} did not end within {TIMEOUT_S:g} s",
                        fix="see what the image starts, or name another",
                    ) from None
                return bytes(self.api.logs(made["Id"])).decode(errors="replace").strip()[-MOST_SAID:]
            finally:
                self.remove(made["Id"])

    def remove(self, container: str) -> None:
        """Kill and remove a container, if it is there."""
        from docker.errors import APIError

        with self._said(f"remove container {container[:12]}"):
            try:
                self.api.remove_container(container, force=True, v=True)
            except APIError as error:
                if error.status_code not in GONE:
                    raise

    def marked(self, lab: str | None = None) -> list[Marked]:
        """List every container that carries our labels, or those of one lab."""
        with self._said("list containers"):
            label = LAB if lab is None else f"{LAB}={lab}"
            found = self.api.containers(all=True, filters={"label": label})
        return list(_marked(found))

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        """Raises LabError: what Docker says when it cannot do so; MissingToolError: it is not there any more."""
        import requests
        from docker.errors import APIError, DockerException

        try:
            yield
        except APIError as error:
            raise LabError(f"Docker cannot {what}: {error.explanation or error}", fix="see what it says") from None
        except requests.exceptions.ReadTimeout:
            raise LabError(
                f"Docker cannot {what}: no answer for {TIMEOUT_S:g} s", fix="see whether the daemon hangs"
            ) from None
        except (DockerException, requests.exceptions.ConnectionError):
            raise self._absent() from None


def container_name(lab: str, node: str) -> str:
    """Name of a container that carries our labels; no image can say how its containers are called."""
    return f"testbed-{lab}-{node}"


def labels(lab: str, node: str) -> dict[str, str]:
    """Labels of a container that this process makes."""
    return {LAB: lab, NODE: node, OWNER: str(Owner.of(os.getpid()))}


def _marked(found: list[dict[str, Any]]) -> Iterator[Marked]:
    for one in found:
        try:
            owner = Owner.parse(one["Labels"].get(OWNER, ""))
        except ValueError:  # somebody else's label of the same name
            continue
        name = one["Names"][0].removeprefix("/") if one["Names"] else one["Id"][:12]
        if name != container_name(one["Labels"][LAB], one["Labels"].get(NODE, "")):
            continue  # an image can carry labels, which all its containers have, whoever starts them
        yield Marked(one["Id"], name, one["Labels"][LAB], owner, one["State"])
