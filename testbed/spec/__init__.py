"""The experiment as a person writes it: YAML in, a checked :class:`Spec` out.

``yaml`` reads text strictly and applies ``--set``, ``axes`` finds what is swept (``ranges``), ``grid`` makes
every point of it that conditions leave (``where``), ``model`` is the schema of each (``links``, ``arm``,
``options``, ``perturb`` and ``workload`` have its parts), ``explain`` words its errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from testbed.base.errors import SpecError, UsageError
from testbed.spec.arm import Arm
from testbed.spec.grid import Grid, grid
from testbed.spec.model import LONGEST_NAME, Spec
from testbed.spec.sought import NOTHING_CHOSEN, Chosen, Found, Sought, put
from testbed.spec.text import NAME
from testbed.spec.yaml import override, parse, read_text

FIT = "fit"
"""Word in place of a number that is to be found: a profile's scale, the least that this machine carries
(:mod:`testbed.experiment.fit`), or the paces of training, which this machine keeps (the same)."""
STAND_IN_S = 0.001
"""Pace (s) with which a spec is checked until one is chosen."""
__all__ = ["Arm", "Source", "Spec", "load", "read"]


@dataclass(frozen=True)
class Source:
    """A spec and where it came from.

    ``text`` is the file's content, ``overrides`` what ``--set`` changed, ``folder`` the directory that relative paths
    in the spec start from. ``chosen`` is what was chosen in place of what is written: a scale and paces for this
    machine, and what was found for arms. ``wants_fit`` says that the spec asks for a scale and none was chosen yet,
    ``wants_pace`` the same of paces, and ``sought`` what is still to be found for arms, by their numbers
    (:mod:`testbed.experiment.finding`): it cannot run so.
    ``begun_as`` is the experiment's name in a run that has begun: the spec may have had it from its file, and may have
    conditions that only older versions took (:func:`testbed.spec.grid.grid`).
    """

    name: str
    text: str
    folder: Path
    overrides: tuple[str, ...]
    grid: Grid
    chosen: Chosen = NOTHING_CHOSEN
    wants_fit: bool = False
    wants_pace: bool = False
    sought: Mapping[int, Sought] = field(default_factory=dict)
    begun_as: str = ""

    @property
    def fitted(self) -> float | None:
        """Scale that was chosen."""
        return self.chosen.scale

    def scaled(self, scale: float) -> Source:
        """Copy it with another scale of its profile.

        Raises:
            SpecError: it cannot be.
        """
        return self.as_chosen(replace(self.chosen, scale=scale))

    def paced(self, pace_s: Mapping[int, float]) -> Source:
        """Copy it with paces of training, by batch.

        Raises:
            SpecError: it cannot be.
        """
        return self.as_chosen(replace(self.chosen, pace_s=pace_s))

    def with_found(self, arms: Found) -> Source:
        """Copy it with what was found for arms.

        Raises:
            SpecError: it cannot be.
        """
        return self.as_chosen(replace(self.chosen, arms=arms))

    def as_chosen(self, chosen: Chosen) -> Source:
        """Copy it with what was chosen in place of what is written.

        Raises:
            SpecError: it cannot be.
        """
        return read(self.text, self.name, self.folder, self.overrides, chosen, self.begun_as)

    @property
    def spec(self) -> Spec:
        """The spec; where fields are swept, at the first point."""
        return self.grid.spec


def load(path: Path, overrides: Sequence[str] = ()) -> Source:
    """Read and check a spec's file.

    Raises:
        SpecError: the file cannot be read, or makes no sense; every mistake is listed.
        UsageError: an override is not ``key=value``.
    """
    return read(read_text(path), path.name, path.parent, overrides)


def read(
    text: str,
    name: str,
    folder: Path,
    overrides: Sequence[str] = (),
    chosen: Chosen = NOTHING_CHOSEN,
    begun_as: str = "",
) -> Source:
    """Check a spec's text; errors call it ``name``. ``chosen`` takes the place of what is written; ``begun_as`` is as
    for :class:`Source`.

    Raises:
        SpecError: it makes no sense; every mistake is listed.
        UsageError: an override is not ``key=value``.
    """
    settings = parse(text, name)
    texts = {(): text, **override(settings, overrides)}
    wants_fit = _replace_scale(settings, chosen.scale)
    wants_pace = _replace_pace(settings, chosen.pace_s)
    try:
        sought = put(settings, chosen.arms)
    except SpecError as error:
        raise SpecError(f"{name}: {error.problem}", fix=error.fix) from None
    if "name" not in settings:
        settings["name"] = begun_as or _named_as(Path(name))
    found = grid(settings, name, texts, folder, has_begun=bool(begun_as))
    return Source(name, text, folder, tuple(overrides), found, chosen, wants_fit, wants_pace, sought, begun_as)


def _named_as(file: Path) -> str:
    """
    Raises:
        SpecError: the file's name cannot name an experiment.
    """
    if not _is_name(file.stem):
        raise SpecError(
            f"{file.name}: it has no name, and its file's cannot name a directory",
            fix=f"add one of at most {LONGEST_NAME} letters, digits, '.', '_' and '-', such as name: mine",
        )
    return file.stem


def check_name(name: str) -> None:
    """
    Raises:
        UsageError: no experiment can be called so.
    """
    if not _is_name(name):
        fix = f"give one of at most {LONGEST_NAME} letters, digits, '.', '_' and '-', such as mine"
        raise UsageError(f"{name!r} cannot name an experiment", fix=fix)


def _is_name(text: str) -> bool:
    return re.fullmatch(NAME, text) is not None and len(text) <= LONGEST_NAME


def _replace_scale(settings: dict[object, object], fitted: float | None) -> bool:
    """Put a number where a profile's scale is to be; return whether one has still to be found for ``fit``, for which 1
    stands until then."""
    work = settings.get("workload")
    if not isinstance(work, dict) or work.get("kind") != "profile":
        return False
    wanted = work.get("scale") == FIT
    if fitted is not None:
        work["scale"] = fitted
    elif wanted:
        work["scale"] = 1.0
    return wanted and fitted is None


def _replace_pace(settings: dict[object, object], fitted: Mapping[int, float]) -> bool:
    """Put times where the paces of training are to be; return whether they have still to be found for ``fit``, for
    which :data:`STAND_IN_S` stands until then."""
    work = settings.get("workload")
    if not isinstance(work, dict) or work.get("kind", "train") != "train":
        return False
    compute = work.get("compute")
    if not isinstance(compute, dict) or compute.get("pace") != FIT:
        return False
    batch = work.get("batch")
    batches = [size for size in (batch if isinstance(batch, list) else [batch]) if isinstance(size, int)]
    compute["pace"] = {size: f"{fitted.get(size, STAND_IN_S):.9f} s" for size in batches}
    return not fitted.keys() >= set(batches)
