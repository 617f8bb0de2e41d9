"""The command line. Commands import what they need when they run, so that ``testbed --help`` is quick."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from testbed.base import interrupt
from testbed.base.address_space import is_lack, too_little
from testbed.base.errors import TestbedError, UsageError, as_json
from testbed.base.exits import BAD_SPEC_OR_USAGE, INTERRUPTED, code_for
from testbed.base.printable import printable
from testbed.cli import (
    archive,
    clean,
    compare,
    containers,
    describe,
    experiment,
    find,
    hold,
    hosts,
    order,
    reproduce,
    schedule,
    specs,
    theory,
    trace,
    usage,
    watch,
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"testbed {version('testbed')}")
        raise typer.Exit


app = typer.Typer(
    name="testbed",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.callback()
def common(
    version: Annotated[  # its callback has used it
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """How fast does this gradient-synchronisation scheme train on this network?"""


app.command()(specs.new)
app.command()(specs.spec)
app.command()(experiment.run)
app.command()(experiment.plan)
app.command()(experiment.report)
app.command()(watch.watch)
app.command()(experiment.merge)
app.command()(compare.compare)
app.command()(compare.baseline)
app.command()(compare.history)
app.command()(archive.archive)
app.command()(describe.topo)
app.command()(describe.forest)
app.command()(describe.schemes)
app.command()(find.find)
app.command()(order.order)
app.command()(describe.models)
app.command()(describe.doctor)
app.command()(theory.theory)
app.command()(schedule.schedule)
app.command()(reproduce.reproduce)
app.command()(hold.up)
app.command()(containers.image)
app.command()(clean.clean)
app.command("exec", context_settings={"ignore_unknown_options": True})(hold.execute)
app.add_typer(hosts.app, name="hosts")
app.add_typer(trace.app, name="trace")
for known in (*app.registered_commands, *hosts.app.registered_commands, *trace.app.registered_commands):
    known.cls = usage.Command


LONGEST_LINE = 1000
"""The most characters of an error's line: what it quotes may be a value as long as its file."""


def main() -> None:
    """Run the command line; a mistake of the user's ends with a message and an exit code of ``testbed.base.exits``."""
    try:
        _call()
    except TestbedError as error:
        if "--json" in sys.argv[1:] and sys.argv[1] != "exec":  # a program reads standard output
            told = {name: text and _shown(text) for name, text in as_json(error).items()}
            print(json.dumps({"error": told}))
        print(_shown(f"error: {error}"), file=sys.stderr)
        sys.exit(code_for(error))


def _shown(text: str) -> str:
    """Make text fit for a terminal, with no line that is too long."""
    return "\n".join(map(_cut, printable(text).split("\n")))


def _call() -> None:
    """Run a command to its end, with all that it printed written, so that what cannot be written is told as any error.

    Raises:
        TestbedError: the command's, or :func:`testbed.base.streams.guard`'s.
    """
    _check_words(sys.argv[1:])
    try:
        code = app(prog_name="testbed", standalone_mode=False)
    except usage.MISUSE as error:
        if str(error).startswith("Usage:"):  # a group without a command shows its help
            print(error, file=sys.stderr)
            sys.exit(BAD_SPEC_OR_USAGE)
        raise usage.explained(error, " ".join(["testbed", *sys.argv[1:2]])) from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    except (MemoryError, ImportError, OSError, RuntimeError) as error:
        if not is_lack(error):
            raise
        raise too_little(error) from None
    if code == INTERRUPTED and interrupt.told():  # typer has made a code of it
        raise KeyboardInterrupt
    print(end="", flush=True)
    sys.exit(code)


def _check_words(words: Sequence[str]) -> None:
    """Check that all words are text: paths and names of ours are written into JSON, Parquet and pages, which hold text
    alone. What ``exec`` hands to a command is that command's affair.

    Raises:
        UsageError: one is not, or an option stands before the command.
    """
    if len(words) > 1 and words[0].startswith("--") and words[0] not in ("--help", "--version"):
        problem = f"the option {words[0].partition('=')[0]} stands before the command"
        raise UsageError(problem, fix="put it behind: testbed run SPEC --set KEY=VALUE")
    for word in words[:2] if words[:1] == ["exec"] else words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"the command line has {os.fsencode(word)!r:.200}, which is not {sys.getfilesystemencoding().upper()}",
                fix="give another name, or rename the file",
            ) from None


def _cut(line: str) -> str:
    """Shorten a line to its beginning and end, if it is too long."""
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"
