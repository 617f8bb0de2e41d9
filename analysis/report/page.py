"""The report as one page that needs no network, for laptop, phone and paper."""

from __future__ import annotations

from markupsafe import Markup

from testbed.analysis import dictionary
from testbed.analysis.html import packed, plotly, source, template
from testbed.analysis.recorded import Run
from testbed.analysis.report import headline, plot, settings, tables, words
from testbed.analysis.report.questions import answered


def render(run: Run) -> str:
    """The page. Whatever comes from the run is escaped."""
    questions = answered(run)
    return template("testbed.analysis.report", "report.html").render(
        run=run,
        finding=headline.first_sentence(run),
        elsewhere=headline.elsewhere(run),
        left_out=headline.left_out(run),
        against=words.against(run) if run.labels else "",
        unreliable=headline.unreliable(run),
        doubts=words.doubts(run),
        simulated=words.simulated(run),
        counts=words.counts(run),
        pill=tables.verdict(run),
        unstruck=words.unstruck(run),
        unlike=headline.unlike(run),
        of_pairs=words.of_pairs(run),
        scale=words.scale(run),
        colours={label: plot.colour(run, label) for label in run.labels},
        spec_differences=settings.of_specs(run.parts),
        environment_differences=settings.of_environments(run.parts),
        units=tables.UNITS,
        summary=tables.summary(run),
        troubles=tables.troubles(run),
        again=tables.again(run),
        questions=questions,
        bandwidths=tables.bandwidths(run),
        trials=tables.trials(run),
        verdicts=tables.verdicts(run),
        checks=tables.checks(run),
        events=settings.events(run),
        environment=settings.environment(run),
        labs=settings.labs(run),
        specs=[(part.name, part.spec) for part in run.parts or (run,) if part.spec],
        plotly=plotly() if any(panel.figure for q in questions for panel in q.panels) else None,
        markup=Markup,
        packed=packed,
        dictionary=[(file, *told) for file, told in dictionary.FILES.items()],
        style=source("testbed.analysis.report", "report.css"),
        script=source("testbed.analysis.report", "report.js"),
    )
