"""A headless Chromium, driven through its DevTools protocol over a pipe: what a page shows, says and asks for.

https://chromedevtools.github.io/devtools-protocol; with ``--remote-debugging-pipe`` messages are JSON, each ended by a
zero byte, on descriptors 3 (to the browser) and 4 (from it), so no port is opened.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser")
SWITCHES = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--no-default-browser-check", "--remote-debugging-pipe"),
)
TIMEOUT_S = 60.0
SILENT = {"log", "debug", "info"}


class Chromium:
    """One page in a browser of its own; use in ``with``.

    Attributes:
        complaints: what the console has said so far, but for plain logs.
        requests: the addresses that the page has asked for, its own among them.
    """

    def __init__(self, profile: Path) -> None:
        """``profile`` is a folder for what the browser keeps."""
        assert EXECUTABLE
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        self._numbers = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._unread = b""
        self._start([EXECUTABLE, *SWITCHES, f"--user-data-dir={profile}", "about:blank"])
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    _session: str | None = None

    def _start(self, command: Sequence[str]) -> None:
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        script = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chromium", *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        os.close(theirs_in)
        os.close(theirs_out)

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """Show pages in a window of this size (CSS pixels) from now on."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def open(self, address: str) -> float:
        """Show a page; returns how long it took to load (s).

        Raises:
            TimeoutError: it takes longer than TIMEOUT_S.
        """
        self._loaded = False
        began = time.monotonic()
        self._call("Page.navigate", url=address)
        while not self._loaded:
            self._read(began + TIMEOUT_S)
        return time.monotonic() - began

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page; a promise's, once it has one.

        Raises:
            RuntimeError: it throws.
        """
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"]))
        return found["result"].get("value")

    def colours(self, scheme: str) -> None:
        """Which colours the user prefers from now on, ``light`` or ``dark``."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, width: int, height: int, top: int = 0) -> bytes:
        """The left part of the page from ``top`` on (CSS pixels), as a PNG."""
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])

    def save_downloads(self, folder: Path) -> None:
        """Where downloads go from now on."""
        self._call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def press(self, key: str) -> None:
        """A key on the keyboard: ``Tab``, ``Enter``."""
        codes = {"Tab": 9, "Enter": 13}
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **more)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + TIMEOUT_S
        while number not in self._answers:
            self._read(until)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self, until: float) -> None:
        """Take in what the browser has said, waiting for it until that moment."""
        if not select.select([self._from], [], [], max(0.0, until - time.monotonic()))[0]:
            raise TimeoutError("Chromium does not answer")
        piece = os.read(self._from, 2**20)
        if not piece:
            raise RuntimeError(f"Chromium ended with status {self._process.wait()}")
        *messages, self._unread = (self._unread + piece).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self._note(message["method"], message["params"])

    def _note(self, event: str, told: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        elif event == "Log.entryAdded" and told["entry"]["level"] not in ("verbose", "info"):
            self.complaints.append(told["entry"]["text"])
        elif event == "Runtime.consoleAPICalled" and told["type"] not in SILENT:
            self.complaints.append(json.dumps(told["args"]))
