"""Settings that an arm leaves to be found: a strategy, and TopoOpt's network and scheme for it.

Until it is found, plain settings stand for it, with which all else is checked. What was found takes their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.base.errors import SpecError
from testbed.topologies.call import parse
from testbed.topologies.parameters import at_least, bind, parameters_of
from testbed.topologies.topoopt.selection import rings_that_fit

Found = Mapping[int, Mapping[str, Any]]
"""Settings that were found, by arm: its strategy, and with ``topoopt`` its topology and scheme. After a search also its
:data:`COURSE`."""
SETTINGS = ("topology", "scheme", "strategy")
COURSE = "search"
"""Key of a search's course: ``steps``; ``costs_s``, each improvement of the best, as its step and the seconds of an
iteration; and with ``topoopt`` ``rounds_s``, the best after each round."""
SEARCH, TOPOOPT = "search(steps=2000)", "topoopt(servers=12,degree=4)"


@dataclass(frozen=True)
class Chosen:
    """Settings that were chosen when a run began, in place of what is written.

    Attributes:
        scale: of a profile; None where it is the written one.
        arms: what was found for them.
        pace_s: by batch, the pace of training; empty where it is the written one.
    """

    scale: float | None = None
    arms: Found = field(default_factory=dict)
    pace_s: Mapping[int, float] = field(default_factory=dict)


NOTHING_CHOSEN = Chosen()


@dataclass(frozen=True)
class Search:
    """A search for a strategy; ``seed`` is that of its random choices."""

    steps: int = 2000
    seed: int = 0


@dataclass(frozen=True)
class Panels:
    """A network of patch panels that is to be found, for so many servers with so many interfaces each; with up to
    ``paths`` routes between two servers that no circuit joins."""

    servers: int
    degree: int
    paths: int = 1


@dataclass(frozen=True)
class Sought:
    """Part of an arm that is to be found.

    Attributes:
        panels: None where the arm has a network.
        search: None where the arm has a strategy, which is ``given`` then.
    """

    panels: Panels | None
    search: Search | None
    given: Any


def put(settings: Mapping[object, object], found: Found) -> dict[int, Sought]:
    """Replace what is to be found, in place: by what was found, or by what stands for it until then.

    Returns what is still to be found, by arm.

    Raises:
        SpecError: an expression of it cannot be read, the arm has a scheme or jobs where a scheme is to be found, or no
            ring joins so many servers of that degree.
    """
    sought: dict[int, Sought] = {}
    arms = settings.get("arms")
    for number, arm in enumerate(arms if isinstance(arms, list) else ()):
        if not isinstance(arm, dict):
            continue
        try:
            wanted = _sought(arm)
        except SpecError as error:
            raise SpecError(f"arms.{number}: {error.problem}", fix=error.fix) from None
        if wanted is None:
            continue
        arm.setdefault("label", _label(arm))
        if number in found:
            arm.update({name: one for name, one in found[number].items() if name in SETTINGS})
        else:
            sought[number] = wanted
            arm.update(_stand_in(wanted, number))
    return sought


def _sought(arm: Mapping[Any, Any]) -> Sought | None:
    """
    Raises:
        SpecError: as :func:`put`.
    """
    panels = _read(arm.get("topology"), Panels, TOPOOPT)
    search = _read(arm.get("strategy"), Search, SEARCH)
    if panels is None and search is None:
        return None
    if panels is not None and arm.get("jobs"):
        raise SpecError(
            "topoopt finds a network for one training, and this arm has jobs",
            fix="write a patch_panel, and give each job the rings and circuits that testbed find prints for it",
        )
    if panels is not None and arm.get("scheme"):
        raise SpecError("topoopt finds the scheme, too", fix="leave out the scheme")
    if panels is not None:
        rings_that_fit(panels.servers, panels.degree)
        at_least("topoopt", 1, paths=panels.paths)
    return Sought(panels, search, None if search else arm.get("strategy", "data"))


def _read(text: object, made: Any, example: str) -> Any:
    """Read an expression; None where it is another one."""
    name = example.split("(", maxsplit=1)[0]
    if not isinstance(text, str) or text.split("(", maxsplit=1)[0].strip() != name:
        return None
    parameters = parameters_of(made, 0)
    call = parse(text, example, lambda _: [one.name for one in parameters])
    return made(**bind(name, parameters, call.arguments, SpecError))


def _label(arm: Mapping[Any, Any]) -> str:
    strategy = arm.get("strategy", "data")
    held = f" with strategy {strategy}" if isinstance(strategy, str) else ""
    return "".join(f"{arm.get('scheme', '')} on {arm.get('topology', '')}{held}".removeprefix(" on ").split("'"))[:80]


def _stand_in(wanted: Sought, number: int) -> dict[str, Any]:
    """Make settings of an arm of as many hosts and interfaces; all holds on them that does not depend on what is found.
    Those of one ``number`` differ from those of another, as arms must."""
    strategy = {"rest": "all"} if wanted.search else wanted.given
    if wanted.panels is None:
        return {"strategy": strategy}
    servers, degree = wanted.panels.servers, wanted.panels.degree
    topology = f"patch_panel(servers={servers},degree={degree},rings=[1])"
    return {"topology": topology, "scheme": f"multi_ring(strides={[1] * (number + 1)})", "strategy": strategy}
