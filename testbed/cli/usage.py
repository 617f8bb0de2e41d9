"""Words of a command line: how a command's usage names them, and mistakes in them, told as all other mistakes are."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand

from testbed.base.errors import UsageError
from testbed.base.nearest import nearest

MISUSE: type[Exception] = typer.BadParameter.__mro__[1]
"""The base of all errors about a command line's words, which Typer exports only through this one."""


class Command(TyperCommand):
    """A command whose help has no types of Python, no ``x>=4``, and no braces around arguments that are required."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                vars(parameter)["display_type_rich"] = lambda **_: None
            vars(parameter)["_get_number_range_help_str"] = partial(_limits, parameter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except MISUSE as error:
            vars(error)["ctx"] = ctx  # an option without a value is told without its command
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]


def explained(error: Any, command: str) -> UsageError:
    """Tell a mistake in the words of ``command``: what is wrong, what is allowed, and the words that mend it."""
    kind, message, context = type(error).__name__, error.format_message(), error.ctx
    command = context.command_path if context else command
    if kind == "MissingParameter":
        about = error.param.help.rstrip(".")
        problem = f"no {_named(error.param)} is given: {about[0].lower()}{about[1:]}"
        return UsageError(problem, fix=f"write it as {_form(context)}; {command} -h explains it")
    if kind == "NoSuchOption":
        from testbed.api.keys import schema  # pydantic takes longer to load than the rest

        known = [option for parameter in context.command.params for option in parameter.opts]
        fix = nearest(error.option_name, known)
        if "--set" in known and (key := error.option_name.lstrip("-").replace("-", "_")) in schema()["properties"]:
            fix = f"write it as --set {key}=VALUE"
        elif not fix.startswith("did you mean"):
            fix = f"{command} -h lists its options"
        return UsageError(f"{command} has no option {error.option_name}", fix=fix)
    if kind == "BadOptionUsage" and "requires an argument" in message:
        option = next(each for each in context.command.params if error.option_name in each.opts)
        about = option.help.partition("; default")[0].partition(". ")[0].rstrip(".")
        fix = f"write it as {error.option_name} {option.metavar}: {about[0].lower()}{about[1:]}"
        return UsageError(f"{error.option_name} has no value", fix=fix)
    if kind == "BadParameter":
        given = next((each["input"] for each in getattr(error.__cause__, "errors", list)()), "")
        limits = _limits(error.param)
        return UsageError(
            f"{' '.join([error.param.opts[0], str(given)]).strip()} is impossible",
            fix=", ".join(filter(None, ["give a whole number", limits])),
        )
    if message.startswith("No such command"):
        word = message.split("'")[1]
        return UsageError(f"{command} has no command {word!r}", fix=nearest(word, list(context.command.commands)))
    if message.startswith("Got unexpected extra argument"):
        extra = message.partition("(")[2].partition("(")[2].rstrip(").")
        return UsageError(
            f"{command} has no place for {extra!r}", fix=f"write it as {_form(context)}; quote text that has spaces"
        )
    return UsageError(message[0].lower() + message[1:].rstrip("."), fix=f"{command} -h explains it")


def _limits(parameter: Any) -> str:
    """The words for a number's range: ``at least 4``; empty where it has none."""
    bounds = (("at least", parameter.min), ("at most", parameter.max))
    return ", ".join(f"{words} {limit}" for words, limit in bounds if limit is not None)


def _named(parameter: Any) -> str:
    """The words for a parameter: ``SPEC``, or ``--out FILE``."""
    option = [parameter.opts[0]] if parameter.param_type_name == "option" else []
    return " ".join([*option, parameter.metavar])


def _form(context: Any) -> str:
    """The shortest words that a command takes: its arguments, and the options that it needs."""
    needed = [each for each in context.command.params if each.required and each.param_type_name == "option"]
    arguments = context.command.collect_usage_pieces(context)[1:]
    return " ".join([context.command_path, *arguments, *map(_named, needed)])
