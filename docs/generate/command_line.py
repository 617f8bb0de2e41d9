"""The page of the command line, from the commands that typer makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperArgument

from docs.generate.markdown import table
from testbed.base.docstrings import code
from testbed.cli import app

INTRODUCTION = """\
# Command line

`--json` makes a command print what programs want. [Exit codes](exit-codes.md) has a page of its own. `testbed COMMAND
-h` prints what this page says of a command.
"""


def page() -> str:
    return "\n".join([INTRODUCTION, *(_section(context) for context in contexts())])


def contexts() -> Iterator[Any]:
    """Click's context of each command that does something. (Some versions of typer bring a Click of their own.)"""
    group = typer.main.get_command(app)
    yield from _below(group.make_context("testbed", [], resilient_parsing=True))


def _below(context: Any) -> Iterator[Any]:
    if not hasattr(context.command, "commands"):
        yield context
        return
    for name, command in context.command.commands.items():
        yield from _below(command.make_context(name, [], parent=context, resilient_parsing=True))


def _section(context: Any) -> str:
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    rows = [one.get_help_record(context) for one in sorted(command.params, key=_is_option)]
    parts = [f"## {code(context.command_path)}\n", f"```text\n{usage}\n```\n", f"{command.help or ''}\n"]
    return "\n".join([*parts, table(("", "meaning"), [(code(names), text) for names, text in filter(None, rows)])])


def _is_option(parameter: Any) -> bool:
    return not isinstance(parameter, TyperArgument)
