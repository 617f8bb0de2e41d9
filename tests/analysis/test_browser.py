"""report.html in a real browser: nothing complains, every figure is drawn, nothing sticks out, on laptop and phone."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from analysis import report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = {"laptop": (1366, 768), "phone": (390, 844)}

FRAMES = """<!DOCTYPE html><title>frames</title>
<style>iframe {{ border: 0; }}</style>
{frames}
<pre id="seen"></pre>
<script>
function look(frame) {{
  const page = frame.contentDocument;
  for (const details of page.querySelectorAll("details")) details.open = true;
  return {{
    width: page.documentElement.scrollWidth,
    plots: page.querySelectorAll(".plot").length,
    drawn: page.querySelectorAll(".plot > .plot-container").length,
    marks: page.querySelectorAll(".plot .point, .plot .js-line, .plot .box").length,
    drawings: page.querySelectorAll(".drawings svg").length,
  }};
}}
addEventListener("load", () => setTimeout(() => {{
  const seen = {{}};
  for (const frame of document.querySelectorAll("iframe")) seen[frame.id] = look(frame);
  document.getElementById("seen").textContent = JSON.stringify(seen);
}}, 1000));
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs the Debian package chromium")
def test_it_works_on_a_laptop_and_on_a_phone(run_dir: Path, tmp_path: Path) -> None:
    report.write(run_dir)
    seen, complaints = open_in_frames(run_dir / "report.html", tmp_path)
    assert complaints == []
    for name, (width, _) in WIDTHS.items():
        assert seen[name]["width"] <= width
        assert seen[name]["drawn"] == seen[name]["plots"] == 8
        assert seen[name]["marks"] > 100
        assert seen[name]["drawings"] == 3


def open_in_frames(page: Path, tmp_path: Path) -> tuple[dict[str, Any], list[str]]:
    """What each frame shows once everything is drawn, and whatever the browser's console said."""
    frames = "\n".join(
        f'<iframe id="{name}" width="{width}" height="{height}" src="{page.as_uri()}"></iframe>'
        for name, (width, height) in WIDTHS.items()
    )
    outer = tmp_path / "frames.html"
    outer.write_text(FRAMES.format(frames=frames))
    command = [
        str(CHROMIUM),
        *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync"),
        *("--disable-background-networking", "--disable-component-update", "--allow-file-access-from-files"),
        *(f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1400,900", "--enable-logging=stderr", "--v=0"),
        *("--virtual-time-budget=30000", "--dump-dom", outer.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout[:2000]
    return json.loads(html.unescape(found[1])), [line for line in done.stderr.splitlines() if "CONSOLE" in line]
