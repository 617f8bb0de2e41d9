"""``testbed new`` and ``spec``: a spec to begin with, and what it may hold."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.output import AsJson, print_json, show, wrote


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of the experiment and its file; default mine.", show_default=False)
    ] = "mine",
    template: Annotated[
        str, typer.Option("--from", metavar="TEMPLATE", help="quickstart, sweep, profile, script or gate.")
    ] = "quickstart",
) -> None:
    """Write a commented spec to begin with.

    NAME.yaml runs as it is; change it as you like.

    testbed.schema.json beside it is for editors: VS Code with the YAML extension completes and explains keys.
    """
    from testbed.api.keys import begin

    path, *others = begin(name, template, Path())
    wrote("spec", path)
    print(f"beside it: {', '.join(map(str, others))}")
    print("next:")
    for command in ("plan", "run"):
        print(f"  testbed {command} {shlex.quote(str(path))}")


def spec(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Such as links or workload.compute; default all.")] = "",
    json_schema: Annotated[bool, typer.Option("--json-schema", help="Print a JSON Schema for editors.")] = False,
    as_json: AsJson = False,
) -> None:
    """Explain the keys of a spec.

    Each with its type, unit, default, example and meaning.
    """
    from testbed.api.keys import keys, schema
    from testbed.base.errors import UsageError

    if json_schema and key:
        raise UsageError("--json-schema is of the whole spec", fix=f"leave out {key}, or --json-schema")
    if json_schema:
        print_json(schema())
        return
    found = keys(key)
    if as_json:
        print_json([one for shown in found for one in shown.as_json()])
    else:
        show("\n\n".join(map(str, found)))
