"""report.html: a run as one page that needs no network, for laptop, phone and paper; the same run, the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from analysis import figures, settings, tables, words
from analysis.load import Run, Trial, load
from testbed.errors import TestbedError
from testbed.files import write_bytes
from testbed.units import size_text
from topologies.build import build
from topologies.draw import svg

_DASH_SVG = {
    "solid": "",
    "dash": "7 4",
    "dot": "2 3",
    "dashdot": "7 3 2 3",
    "longdash": "12 4",
    "longdashdot": "12 3 2 3",
}


@dataclass(frozen=True)
class Figure:
    """One Plotly figure: the id of its place in the page, its caption and its description as JSON."""

    id: str
    caption: str
    json: Markup


@dataclass(frozen=True)
class Section:
    """Figures of one quantity, and what is seen in them."""

    figures: tuple[Figure, ...]
    seen: tuple[str, ...]


@dataclass(frozen=True)
class Drawing:
    """Bytes per link on the topology, or why it cannot be drawn."""

    title: str
    picture: Markup
    problem: str
    seen: str


@dataclass(frozen=True)
class Key:
    """An arm in a legend: its colour and the dashes of its line."""

    label: str
    colour: str
    dashes: str


def write(run_dir: Path) -> Path:
    """Write ``report.html`` into a run directory, atomically, and return its path. Same input, same bytes.

    Raises:
        OutputError: this is not a run directory, a file of it is damaged, or the report cannot be written.
        DiskFullError: no room is left.
    """
    path = run_dir / "report.html"
    write_bytes(path, render(load(run_dir)).encode())
    return path


def render(run: Run) -> str:
    """The page. Whatever comes from the run is escaped."""
    environment = Environment(
        loader=PackageLoader("analysis"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        run=run,
        finding=words.finding(run),
        believable=words.is_believable(run),
        doubts=words.doubts(run),
        counts=words.counts(run),
        scale=words.scale(run),
        keys=[Key(label, figures.colour(run, label), _DASH_SVG[figures.dash(run, label)]) for label in run.labels],
        colours={label: figures.colour(run, label) for label in run.labels},
        compute=figures.COMPUTE,
        verdicts=tables.verdicts(run),
        checks=tables.checks(run),
        waits=tables.waits(run) if any(trial.samples is not None for trial in run.finished) else None,
        bandwidths=tables.bandwidths(run),
        sections=_sections(run),
        drawings=_drawings(run),
        events=settings.events(run),
        environment=settings.environment(run),
        labs=settings.labs(run),
        plotly=Markup(get_plotlyjs()),
        source=_source,
    )


def _source(name: str) -> Markup:
    """A style sheet or script of ours, to stand inside the page."""
    return Markup(Path(__file__).with_name("templates").joinpath(name).read_text(encoding="utf-8"))


def _sections(run: Run) -> dict[str, Section]:
    """By quantity; empty where no trial finished, and times alone for a command."""
    if not run.finished:
        return {}
    batches = [batch for batch in run.batches if any(trial.batch == batch for trial in run.finished)]
    sync: list[Figure] = []
    for n in batches:
        sync.append(_figure(f"gst-{n}", f"{_per_worker(n)}: seconds", figures.gst(run, n)))
        if any(trial.metrics.gst_theory_s for trial in run.finished if trial.batch == n):
            sync.append(_figure(f"gst-ratio-{n}", f"{_per_worker(n)}: over theory", figures.gst_over_theory(run, n)))
    jct = tuple(_figure(f"jct-{n}", _per_worker(n), figures.jct(run, n)) for n in batches)
    sections = {"jct": Section(jct, tuple(words.jct(run)))}
    if all(trial.samples is None for trial in run.finished):  # a command's iterations are its own affair
        return sections
    return sections | {
        "gst": Section(tuple(sync), tuple(words.gst(run))),
        "loss": Section(
            tuple(_figure(f"loss-{n}", _per_worker(n), figures.loss(run, n)) for n in batches if _learnt(run, n)),
            tuple(words.loss(run)),
        ),
    }


def _learnt(run: Run, batch: int) -> bool:
    """Whether any trial of the batch has losses; profiles have none."""
    return any(words.loss_curve(trial) is not None for trial in run.finished if trial.batch == batch)


def _figure(name: str, caption: str, json: str) -> Figure:
    return Figure(name, caption, Markup(json))


def _per_worker(batch: int) -> str:
    return f"Batch {batch} per worker" if batch else "The command"


def _drawings(run: Run) -> tuple[Drawing, ...]:
    """One for each network and scheme, of its first finished trial, all on one scale of colours."""
    shown: dict[tuple[str, str], Trial] = {}
    for trial in run.finished:
        if trial.links:
            shown.setdefault((trial.topology, trial.scheme), trial)
    highest = max((link.bytes for trial in shown.values() for link in trial.links), default=0)
    return tuple(_drawing(trial, highest) for trial in shown.values())


def _drawing(trial: Trial, highest: int) -> Drawing:
    title = words.name(trial) + (f": {trial.means}" if trial.means else "")
    picture, problem = Markup(""), ""
    try:
        topology = build(trial.topology, rate_bps=int(trial.links[0].rate_bps))
        values: dict[int, Any] = {link.link: link.bytes for link in trial.links}
        picture = Markup(svg(topology, values, label="bytes per link", as_text=size_text, highest=highest))
    except TestbedError as error:  # a user's own network whose file is elsewhere now, or one too large to draw
        problem = f"Not drawn: {error.problem}."
    return Drawing(title, picture, problem, words.links(trial.links))
