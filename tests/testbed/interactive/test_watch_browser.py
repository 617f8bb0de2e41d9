"""A run that goes on, watched in a real browser: trials come, the place in the page stays, and the button ends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chromium import EXECUTABLE, Chromium
from testbed.experiment.runner import Stopped
from testbed.interactive.watch import pages
from testbed.interactive.watch.looking import stamp
from testbed.run_directory.layout import STOP
from tests.patience import PATIENCE_S, until

from .watched import going_on, served

pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="needs the Debian package chromium")

SAYS = "document.querySelector('#says').textContent"
BUTTON = "document.querySelector('#stop')"
FRAME = "document.querySelector('iframe')"
PAGE = f"{FRAME}.contentDocument"
FOLD = f"[...{PAGE}.querySelectorAll('details')].find((one) => one.textContent.includes('Every fidelity check'))"
NEWEST = f"{FRAME}.contentWindow.location.search === '?{{}}' && {PAGE}.readyState === 'complete'"

SLOW_S = 4 * PATIENCE_S
"""A page is made by a process that imports pandas, at the lowest priority."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("chromium")) as one:
        yield one


def test_a_run_is_watched_and_stopped(browser: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "NICENESS", 0)  # or a page takes too long on a busy machine
    monkeypatch.setattr(pages, "REST_S", 0.0)
    monkeypatch.setattr(pages, "REST_PER_S", 0)
    run = tmp_path / "run"

    def shows(script: str) -> Any:
        """Once the page has it, which looks more often than every other second here."""
        return until(lambda: browser.run(f"look().then(() => {script})"), SLOW_S, look_every_s=0.2)

    with going_on(run, monkeypatch) as trials:
        until(lambda: trials.ids)
        with served(run) as server:
            browser.size(1000, 500)
            browser.open(server.address)
            shows(f"{SAYS} === 'Running: {trials.ids[0]}; trials finished: 0 of 6'")
            trials.let(2)
            until(lambda: len(trials.ids) == 3, SLOW_S)
            shows(f"{SAYS}.endsWith('finished: 2 of 6')")
            shows(NEWEST.format(stamp(run)))
            assert browser.run(f"{PAGE}.querySelectorAll('#summary tbody tr').length") == 2

            assert browser.run(f"{FOLD}.open") is False
            browser.run(f"{FOLD}.open = true")
            browser.run(f"{FRAME}.contentWindow.scrollTo(0, 300)")
            trials.let()
            until(lambda: len(trials.ids) == 4, SLOW_S)
            shows(NEWEST.format(stamp(run)))
            assert browser.run(f"{FRAME}.contentWindow.scrollY") == 300
            assert browser.run(f"{FOLD}.open") is True

            browser.run("document.querySelector('a[href^=last]').click()")
            shows(f"{PAGE}.querySelector('#gantt .plot-container') !== null")
            browser.run("document.querySelector('a[href=logs]').click()")
            shows(f"{PAGE}.querySelectorAll('li').length === 4")
            browser.run(f"{PAGE}.querySelector('a').click()")
            shows(f"{PAGE}.body?.textContent.includes('a line of {trials.ids[3]}')")
            with (run / "logs" / trials.ids[3] / "h0.log").open("a") as log:
                log.write("<b>and one more</b>")
            shows(f"{PAGE}.body?.textContent.endsWith('<b>and one more</b>')")

            assert not (run / STOP).exists()
            browser.run(f"{BUTTON}.click()")
            until((run / STOP).exists)
            shows(f"{SAYS}.includes('the run ends after this trial') && {BUTTON}.disabled")
            trials.let(3)
            assert isinstance(trials.wait(), Stopped)
            shows(f"{SAYS} === 'No run goes on here; trials finished: 4 of 6'")
        until(lambda: browser.run(f"{SAYS}.includes('testbed watch does not answer')"))
    own = (server.address, "about:", "blob:", "data:")
    assert [address for address in browser.requests if not address.startswith(own)] == []
    ended = [one for one in browser.complaints if "ERR_CONNECTION_REFUSED" not in one]
    assert ended == []
