"""What does each part of synchronisation add to the time of an iteration?"""

from __future__ import annotations

import pandas as pd

from testbed.analysis.numbers.repeats import GST, ITERATIONS
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study, believed, notes
from testbed.analysis.report.question import Key, Question

LEAST = "#dcc988"
PARTS = (("compute_s", "computing", plot.COMPUTE), ("least_s", "least time for the bytes", LEAST), ("more_s", "", ""))
DEFINED = (
    "A bar is an iteration, of median time. Computing lasts until the last worker has its gradient, and has the "
    "optimiser's step where workers take it. The links need the least time for the bytes that are then to be sent. "
    "The rest is what GST is longer than that, in the arm's colour."
)


def parts(study: Study) -> Question | None:
    """A bar for each cell: computing, then what its bytes add to that, then all else."""
    groups = [] if study.along else study.having(_is_known)
    if not groups:
        return None
    cells = [cell for group in groups for cell in group.cells]
    times = [_parts(cell) for cell in cells]
    identities = [plot.identity(cell, None, _judged_by(cell)) for cell in cells]
    frame = pd.DataFrame(identity | row for identity, row in zip(identities, times, strict=True))

    def figure(group: Group, start: int) -> plot.Figure:
        traces = [
            plot.bar(
                (start + y, start + y + 1),
                y,
                name,
                shade or plot.colour(study.run, cell.label),
                cell.valid_in(_judged_by(cell)),
                what or "beyond the least time",
            )
            for y, cell in enumerate(group.cells)
            for name, what, shade in PARTS
        ]
        span = plot.from_zero(frame["iteration_s"], room=1.08)
        return plot.timed(
            plot.rows_figure(traces, group.cells, "of an iteration (s)", span, _judged_by),
            "x",
            frame["iteration_s"].max(),
        )

    asked = sum(cell.middle("gst_median_s") is not None for group in study.groups for cell in group.cells)
    of = "" if len(cells) == asked else f"; known of {len(cells)} of {asked}"
    with_gst = [cell for cell in cells if cell.valid_in(GST)]
    left_out = believed(with_gst, ITERATIONS)[1]
    shares = [
        (row["more_s"] / row["iteration_s"], cell)
        for cell, row in zip(cells, times, strict=True)
        if cell not in left_out
    ]
    keys = (Key(what, shade) for _, what, shade in PARTS if what)
    return Question(
        "overhead",
        "What does synchronisation add to an iteration?",
        frame,
        plot.panels("overhead", groups, figure),
        (
            f"Share of an iteration beyond computing and the least time for the bytes: "
            f"{words.each(shares, '{:.1%}'.format, GST)}{of}.",
            *words.not_told(with_gst, ITERATIONS),
        ),
        DEFINED + notes(cells, "overhead"),
        (*plot.legend(study.run, None), *keys),
    )


def _judged_by(cell: MeasuredCell) -> str:
    """The number that the parts of an iteration are judged by: of the two that they are from, one that is not VALID."""
    return next((number for number in (GST, ITERATIONS) if not cell.valid_in(number)), GST)


def _is_known(cell: MeasuredCell) -> bool:
    return bool(cell.middle("iteration_median_s") and cell.middle("gst_median_s") and cell.middle("gst_ratio"))


def _parts(cell: MeasuredCell) -> dict[str, float]:
    iteration_s, gst_s, ratio = (
        cell.middle(name) or 0.0 for name in ("iteration_median_s", "gst_median_s", "gst_ratio")
    )
    least_s = min(gst_s, gst_s / ratio)
    return {
        "iteration_s": iteration_s,
        "compute_s": max(0.0, iteration_s - gst_s),
        "least_s": least_s,
        "more_s": gst_s - least_s,
    }
