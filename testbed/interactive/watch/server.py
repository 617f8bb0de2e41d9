"""Server of a run's report on loopback, for whoever knows the address.

Every address begins with a token that is drawn at random for each start, so other users of this machine find nothing.
The token is in the path and in no cookie: a browser sends a cookie of 127.0.0.1 to every port there, other users'
included. Names other than 127.0.0.1 and localhost are refused, so that no web page can get here by a name of its own
that is made to lead here (DNS rebinding), and what changes something must come from a page of ours.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast
from zlib import crc32

from tornado.http1connection import HTTP1Connection
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from testbed.analysis.html import template
from testbed.base.errors import DiskFullError, OutputError, UsageError
from testbed.base.printable import printable
from testbed.experiment.runner import ask_to_stop
from testbed.files.foreign import UnfitError
from testbed.interactive.watch import looking
from testbed.interactive.watch.door import SILENT_S, Door
from testbed.interactive.watch.pages import Pages
from testbed.interactive.watch.render import PAGES

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 32
LARGEST_REQUEST_BYTES = 16 * 1024
PACKAGE = "testbed.interactive.watch"
CLOSED = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
"""Policy that lets a page load and do nothing but what is added to it."""
REPORT = f"{CLOSED}; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""Policy of the report (``analysis/templates/head.html``), and the rest of ours."""


SHELL = "connect-src 'self'; frame-src 'self'; img-src data:"
NAMED = (OutputError, DiskFullError, UnfitError)
"""Errors that a request may meet and is told of."""


@dataclass(frozen=True)
class Watched:
    """A run that is served: what handlers know."""

    run: Path
    token: str
    port: int
    pages: Pages

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names by which a request may call us."""
        return f"{LOOPBACK}:{self.port}", f"localhost:{self.port}"


async def serve(run: Path, port: int | None, ready: Callable[[str], object]) -> None:
    """Serve a run until the task is cancelled; ``ready`` is told the address.

    Raises:
        UsageError: the port cannot be had.
    """
    logging.getLogger("tornado.general").setLevel(logging.CRITICAL)  # requests that are none, of whomever
    try:
        sockets = bind_sockets(port or 0, LOOPBACK)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"--port {port}: {reason}", fix="name another, or leave --port out") from None
    token = secrets.token_urlsafe(TOKEN_BYTES)
    watched = Watched(run, token, sockets[0].getsockname()[1], Pages(run))
    served = application(watched)
    server = HTTPServer(
        served,
        max_header_size=LARGEST_REQUEST_BYTES,
        max_body_size=LARGEST_REQUEST_BYTES,
        idle_connection_timeout=SILENT_S,
        body_timeout=SILENT_S,
    )
    door = Door(server)
    served.settings["door"] = door
    door.open(sockets)
    ready(watched.address)
    try:
        await asyncio.Event().wait()
    finally:
        door.close()
        await server.close_all_connections()


def application(watched: Watched) -> Application:
    """Make the application: all that is served. The first part of each address is the token."""
    routes: dict[str, type[Handler]] = {
        "": Shell,
        "state": Now,
        "stop": Stop,
        f"({'|'.join(PAGES)})": Made,
        "logs": Logs,
        "log/([^/]+)/([^/]+)": Log,
    }
    return Application(
        [(f"/([^/]+)/{path}", handler, {"watched": watched}) for path, handler in routes.items()],
        default_handler_class=Handler,
        default_handler_args={"watched": watched},
        log_function=lambda _: None,
    )


class Handler(RequestHandler):
    """Handler that refuses whoever does not know the token; has no page of its own."""

    policy = CLOSED

    def initialize(self, watched: Watched) -> None:
        self.watched = watched

    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", self.policy)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")
        self.clear_header("Server")

    def prepare(self) -> None:
        if self.request.host not in self.watched.hosts:
            raise HTTPError(HTTPStatus.FORBIDDEN)
        given = self.path_args[0] if self.path_args else ""
        if not secrets.compare_digest(given.encode(), self.watched.token.encode()):
            raise HTTPError(HTTPStatus.NOT_FOUND)
        self.settings["door"].know(cast(HTTP1Connection, self.request.connection).stream)

    def compute_etag(self) -> None:
        """Make no tag: the browser keeps nothing; the pages that change have tags of their own."""

    def log_exception(self, *error: Any) -> None:
        """Log an error, but for ours, of which whoever asks is told."""
        if not isinstance(error[1], NAMED):
            super().log_exception(*error)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None, None))[1]
        told = HTTPStatus(status_code).phrase
        if isinstance(error, NAMED):
            self.set_status(HTTPStatus.CONFLICT)
            told = printable(str(error))
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{told}\n")


class Shell(Handler):
    """Page with the bar, and a frame below it for one of the other pages."""

    async def get(self, _: str) -> None:
        nonce = secrets.token_urlsafe()
        own = f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
        self.set_header("Content-Security-Policy", f"{CLOSED}; {own}; {SHELL}")
        name = printable(self.watched.run.resolve().name)
        self.write(template(PACKAGE, "watch.html").render(nonce=nonce, name=name))


class Now(Handler):
    """State of the run, for the bar."""

    async def get(self, _: str) -> None:
        state = looking.look(self.watched.run)
        can_stop = state.goes_on is not False and not state.asked_to_stop
        self.write({"says": str(state), "can_stop": can_stop})


class Stop(Handler):
    """Request that has the run end after its trial."""

    async def post(self, _: str) -> None:
        if self.request.headers.get("Origin") not in [f"http://{host}" for host in self.watched.hosts]:
            raise HTTPError(HTTPStatus.FORBIDDEN)
        ask_to_stop(self.watched.run)


class View(Handler):
    """A page that changes. Its version is the query of its address, and a HEAD request is told the newest."""

    async def get(self, _: str, *names: str) -> None:
        content, version = await self.content(*names)
        if self.request.query:
            self.write(content)
        else:
            self.redirect(f"{self.request.path}?{version}")

    async def head(self, _: str, *names: str) -> None:
        self.set_header("ETag", f'"{await self.version(*names)}"')

    async def content(self, *names: str) -> tuple[str | bytes, str]:
        """Return the page and its version."""
        raise NotImplementedError

    async def version(self, *names: str) -> str:
        """Version of the page as it would be now; empty if that is not known yet."""
        return (await self.content(*names))[1]


class Made(View):
    """A page that takes time to make. The run's own ``report.html`` is not served: anybody may have written it."""

    policy = REPORT

    async def content(self, *names: str) -> tuple[str | bytes, str]:
        page = await self.watched.pages.newest(*names)
        return page.content, page.version

    async def version(self, *names: str) -> str:
        return self.watched.pages.version(*names)


class Logs(View):
    """Page with the list of logs."""

    async def content(self, *_: str) -> tuple[str | bytes, str]:
        found = looking.logs(self.watched.run)
        page = template(PACKAGE, "logs.html").render(logs=found, most=looking.MOST_LISTED)
        return page, f"{crc32(page.encode()):x}"


class Log(View):
    """Page with the end of a log, as plain text: nothing in it is markup."""

    async def content(self, *names: str) -> tuple[str | bytes, str]:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        return looking.log(self.watched.run, *names)
