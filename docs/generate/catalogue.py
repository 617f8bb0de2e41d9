"""The pages of schemes, topologies and models, from their registries."""

from __future__ import annotations

from collections.abc import Iterable

from docs.generate.markdown import table
from testbed.base.docstrings import code, prose
from testbed.topologies.build import families
from testbed.topologies.call import as_text
from testbed.topologies.parameters import Parameter
from testbed.workloads.catalogue import Entry, models
from testbed.workloads.profiles import TABLE_6_1
from testbed.workloads.sync.schemes import schemes


def schemes_page() -> str:
    parts = [
        "# Schemes\n\nA scheme is what an arm's `scheme` names. "
        "[Networks and schemes](../guides/networks-and-schemes.md) has a short list with examples; "
        "[Adding a scheme](../extend/scheme.md) shows how to write one.\n"
    ]
    for one in schemes().values():
        parts.append(f"## {code(one.name)}\n\n{prose(one.function.__doc__)}\n")
        parts += _parameters(one.parameters)
    return "\n".join(parts)


def topologies_page() -> str:
    parts = [
        "# Topologies\n\nA topology is what an arm's `topology` names. Each of them also takes `ina`, "
        "which says which switches add in the network. A topology may also be "
        "[a file of another tool](../guides/network-files.md).\n"
    ]
    for one in families().values():
        parts.append(f"## {code(one.name)}\n\n{prose(one.builder.__doc__)}\n")
        parts += _parameters(one.parameters)
    return "\n".join(parts)


def models_page() -> str:
    header = ("model", "what it is", "trained on", "published times", "parameters", "MiB", "layers", "tensors")
    return (
        "# Models\n\nA model with a data set can be trained (`kind: train`). A model can be played back if it has a "
        "profile (`kind: profile`). Sizes are those of its gradient in float32.\n\n"
        + table(header, map(_model, models()))
        + f"\nTimes are those of a forward and a backward pass over a batch, from {TABLE_6_1}. "
        "Give other times with `compute: {pace: {64: 0.5 s}}`.\n"
    )


def _parameters(parameters: Iterable[Parameter]) -> list[str]:
    rows = [
        (code(one.name), " or ".join([*map(code, one.choices), *filter(None, [one.kind])]), _default(one))
        for one in parameters
    ]
    return [table(("parameter", "takes", "default"), rows)] if rows else []


def _default(one: Parameter) -> str:
    if one.required:
        return "required"
    return "-" if one.default is None else code(as_text(one.default))


def _model(one: Entry) -> tuple[str, ...]:
    times = ", ".join(f"{batch}: {1e3 * seconds:g} ms" for batch, seconds in one.times_s.items())
    trained = ", ".join(map(code, one.datasets)) or "-"
    sizes = (f"{one.parameters:,}", f"{one.bytes / 2**20:.1f}", str(one.layers), str(one.tensors))
    return code(one.name), one.doc, trained, times or "-", *sizes
