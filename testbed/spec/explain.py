"""Errors of pydantic turned into ours: which key, which value, what is allowed, what mends it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args, get_origin

from pydantic import ValidationError

from testbed.base.errors import SpecError
from testbed.base.groups import Group, keys_of, limit_text, tag
from testbed.base.listing import shortened
from testbed.base.nearest import nearest
from testbed.base.units import truth_text, value_text
from testbed.perturb.registry import PERTURBATIONS
from testbed.spec.model import REPEATS, Spec
from testbed.spec.ranges import is_range
from testbed.spec.workload.kinds import KINDS
from testbed.spec.yaml import word_at

Path = tuple[str | int, ...]
Texts: TypeAlias = Mapping[Path, str]
"""Texts in which settings are written, by where these are: a file's at ``()``, and each of ``--set``'s."""
NO_TEXTS: Texts = {}

_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "string_unicode": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "bool_type": "true or false",
    "dict_type": "keys and values",
    "model_type": "keys and values",
}
"""Words for a value that is missing, by pydantic's type of error."""


_UNIONS: dict[str, Mapping[str, type[Group]]] = {"workload": KINDS, "perturb": PERTURBATIONS, "repeats": REPEATS}
"""Groups that may be at a key, by the word that each one's ``kind`` has."""
_TAGS = {tag(kind): kind for union in _UNIONS.values() for kind in union}
"""Kinds by the tag that pydantic puts into a mistake's path after such a key: the kind by which the rest is to be
read."""
_WRONG_KIND = "union_tag_invalid"
_KEY = "[key]"
"""Word that pydantic puts after a key of a mapping that is wrong itself."""

ANY_TEXT = "'text'"
"""Example of a text of which no other example is known."""
SHORT = {"lab": "--backend", "quiet": "--quiet", "retries": "--retries"}
"""Options that are short for ``--set``, by the key that they set."""
MOST_MEANT = 3
"""The most places of a key that are suggested."""
MOST_SHOWN = 8
"""The most mistakes that are listed; with more, the file is probably something else than a spec."""


def explain(
    error: ValidationError,
    name: str,
    texts: Texts = NO_TEXTS,
    at: Path = (),
    root: type[Group] = Spec,
) -> list[SpecError]:
    """Convert the errors, each to a SpecError.

    Args:
        name: what the spec is called.
        texts: the texts that the settings are written in, by where they are (:data:`Texts`).
        at: where what was checked is in the spec.
        root: the group that the whole file is.
    """
    schema = _Schema(root)
    told, meant = [], set()
    for item in error.errors(include_url=False):
        path = at + tuple(key for key in item["loc"] if key != _KEY)
        if path and isinstance(path[-1], int) and _word_at(path[:-1], texts) is not None:
            path = path[:-1]  # a list may be written as its only item
        problem, fix = _describe(item, path, schema, texts)
        if item["type"] == "extra_forbidden":
            meant.add((item["loc"][:-1], fix))
        told.append((item, path, problem, fix))
    errors = []
    for item, path, problem, fix in told:
        *group, key = item["loc"] or (None,)
        if item["type"] == "missing" and ((*group,), f"did you mean {key!r}?") in meant:
            continue  # the key was misspelt: the error about the unknown key names it
        path += ("kind",) if item["type"] == _WRONG_KIND else ()
        errors.append(SpecError(f"{place(path, name, texts)}: {problem}", fix=fix))
    return errors


def place(path: Path, name: str, texts: Texts = NO_TEXTS) -> str:
    """Say where a value came from: ``spec.yaml: links.rate``, or ``--set: links.rate`` where that gave the value."""
    path = tuple(key for key in path if key not in _TAGS)
    source = name
    if _is_set(path, texts):
        source = f"--set or {SHORT[str(path[0])]}" if path[0] in SHORT else "--set"
    return f"{source}: {'.'.join(map(str, path))}" if path else source


def _is_set(path: Path, texts: Texts) -> bool:
    """Whether ``--set`` gave what is at a path, which has no tags."""
    return any(given and path[: len(given)] == given for given in texts)


def together(errors: Sequence[SpecError]) -> SpecError:
    """Make one error that lists all, or the first of them and how many more there are."""
    if len(errors) == 1:
        return errors[0]
    return SpecError(shortened([str(error) for error in errors], MOST_SHOWN, "\n", "more mistakes"))


def _describe(item: Any, path: Path, schema: _Schema, texts: Texts) -> tuple[str, str]:
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    if kind == "testbed":
        return context["problem"], context["fix"]
    if kind in ("extra_forbidden", "invalid_key"):  # the latter is a number
        return _unknown_key(path, schema)
    if kind == _WRONG_KIND:
        word, kinds = context["tag"][1:-1], list(_union(path))
        if word in ("True", "False"):  # YAML's no, off, yes and on
            word = _word_at((*path, "kind"), texts) or word
        return f"{word!r} is not one of: {', '.join(kinds)}", nearest(word, kinds)
    if kind == "missing":
        return "missing", f"add it, such as {path[-1]}: {schema.example(path)}"
    if kind == "literal_error":
        allowed = _words(schema.field(path))
        written = _word_at(path, texts) if isinstance(value, bool) else None
        told = repr(written) if written else value_text(value)
        return f"{told} is not one of: {', '.join(allowed)}", nearest(str(value), allowed)
    if kind == "string_pattern_mismatch":
        return f"{value!r} cannot name a directory", "use letters, digits, '.', '_' and '-'"
    if kind in _LIMITS:
        (sign, key), word = _LIMITS[kind], None if isinstance(value, str) else _word_at(path, texts)
        told = word if word and not is_range(word) else value_text(value)
        return f"{told} is impossible", f"give {sign} {limit_text(context[key], schema.field(path))}"
    if kind == "too_long":
        return f"a list of {context['actual_length']}", f"give at most {context['max_length']}"
    if kind == "too_short":
        return f"an empty {'group' if isinstance(value, dict) else 'list'}", f"give at least {context['min_length']}"
    path = path[:-1] if path[-1] in _TAGS else path
    if kind == "model_type" and schema.names_other(path):
        return _not_other(path, schema)
    if item["loc"][-1] == _KEY:  # the mapping's example has a key, too
        path = path[:-1]
    key = "" if isinstance(path[-1], int) else f"{path[-1]}: "
    form = key + schema.example(path)
    written = _word_at(path, texts) if kind == "string_type" else None
    if kind == "string_type" and (read := _read_as(value, written)):
        meaning, word = read
        quoted = f"'{written or word}'"
        other = "" if form.endswith(ANY_TEXT) else f", or write it as {form}"
        whole = tuple(key for key in path if key not in _TAGS)
        if whole not in texts and _is_set(whole, texts):  # a part of what --set gives cannot be set by itself
            return f"{meaning} is not text", f"quote it there: {quoted}"
        if _is_set(whole, texts):  # a shell takes quotes away
            return f"{meaning} is not text", f'quote it: --set "{".".join(map(str, whole))}={quoted}"'
        return f"{meaning} is not text", f"quote it: {key}{quoted}{other}"
    if kind == "string_type" and isinstance(value, list):
        items = [_word_at((*path, i), texts) for i in range(len(value))]
        if words := [word for word in items if word]:  # YAML's no and yes were read as truth values
            return f"[{', '.join(words)}] is not text", f"write one text, in quotes: {key}'{words[0]}'"
    problem = "empty text" if kind == "string_too_short" else f"{value_text(value)} is not {_EXPECTED[kind]}"
    return problem, f"write it as {form}"


def _read_as(value: object, written: str | None) -> tuple[str, str] | None:
    """Say what YAML takes an unquoted word for, and give such a word; None of a value that no single word gives.

    YAML 1.1 reads ``no`` and ``off`` as false, ``yes`` and ``on`` as true, and ``null`` and ``~`` as no value.
    """
    if value is None and written:
        return "an empty value (as null and ~ are in YAML)", written
    if isinstance(value, bool):
        return truth_text(value), "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value}", f"{value}"
    return (f"the date {value}", f"{value}") if isinstance(value, datetime.date) else None


def _word_at(path: Path, texts: Texts) -> str | None:
    """Return the word that is written at a path; None where it is not known."""
    path = tuple(key for key in path if key not in _TAGS)
    given = max((given for given in texts if path[: len(given)] == given), key=len, default=None)
    return None if given is None else word_at(texts[given], path[len(given) :])


def _unknown_key(path: Path, schema: _Schema) -> tuple[str, str]:
    """Describe a key that no kind has, or one that only others have."""
    *group, key = path
    others = [kind for kind, fields in _union(path).items() if key in keys_of(fields)]
    if group and group[-1] in _TAGS and others:
        return f"kind {str(group[-1])[1:-1]} has no such key", f"remove it, or write kind: {' or '.join(others)}"
    from testbed.spec.reference import places  # a mistake alone needs it

    if not group and schema.root is Spec and (elsewhere := places().get(str(key))):
        return "unknown key", f"did you mean {' or '.join(map(repr, elsewhere[:MOST_MEANT]))}?"
    return "unknown key", nearest(str(key), schema.keys(tuple(group)))


def _not_other(path: Path, schema: _Schema) -> tuple[str, str]:
    """Describe a key that no group has, and whose value has no keys either."""
    key = str(path[-1])
    meant = nearest(key, schema.keys(path[:-1]))
    if meant.startswith("did you mean"):
        return "unknown key", meant
    first = schema.keys(path)[0]
    inner = schema.example((*path, first))
    return "unknown key", f"{meant}; or for links of their own write {key}: {{{first}: {inner}}}"


def _union(path: Path) -> Mapping[str, type[Group]]:
    """Kinds that are possible at ``path``."""
    return next((_UNIONS[key] for key in reversed(path) if isinstance(key, str) and key in _UNIONS), {})


_LIMITS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
    "string_too_long": ("text of at most as many letters as", "max_length"),
}


def known_keys(path: Path) -> list[str]:
    """Keys that the group at ``path`` of a spec may hold."""
    return _Schema(Spec).keys(path)


@dataclass(frozen=True)
class _Schema:
    """Schema of a file whose keys are those of ``root``."""

    root: type[Group]

    def keys(self, path: Path) -> list[str]:
        """Keys that the group at ``path`` may hold."""
        group = self.group(path)
        return keys_of(group) if group else []

    def group(self, path: Path) -> type[Group] | None:
        """Find the group at ``path``, None where there is none."""
        group: type[Group] | None = self.root
        keys, before = iter(path), ""
        for key in keys:
            if key in _TAGS:  # workloads and perturbations have kinds of the same name
                group = _UNIONS[before][_TAGS[str(key)]]
            if isinstance(key, int) or group is None or key in _TAGS:
                continue
            before = key
            field = field_of(group, key)
            if field and _is_mapping(field):
                next(keys, None)  # a name of the user's choice
            group = next(_groups(field), None) if field else group.others
        return group

    def field(self, path: Path) -> Any:
        """Find the field whose value is at ``path``, None where no group has it."""
        words = [key for key in path if isinstance(key, str)]
        group = self.group(tuple(words[:-1]))
        return field_of(group, words[-1]) if group else None

    def names_other(self, path: Path) -> bool:
        """Whether the last key is none that its group has, and so names something that has keys of its own."""
        group = self.group(path[:-1])
        return group is not None and group.others is not None and field_of(group, str(path[-1])) is None

    def example(self, path: Path) -> str:
        """Write an example of what is at ``path``."""
        if isinstance(path[-1], int):
            return self.example(path[:-1]).strip("[]")
        field = self.field(path)
        within = self.field(path[:-1]) if len(path) > 1 else None
        if field is None and self.keys(path):
            return f"{{{', '.join(f'{key}: ...' for key in self.keys(path))}}}"
        if field is None and within and within.examples and _is_mapping(within):
            return str(within.examples[0]).strip("{}").partition(": ")[2]  # of a name of the user's choice
        if field is None:
            return "1"
        if field.examples:
            return str(field.examples[0])
        if isinstance(field.default, str | int | float) and field.default != "":
            return str(field.default)
        if field.default == "":
            return ANY_TEXT
        if words := _words(field):
            return str(words[0])
        return f"{{{', '.join(f'{key}: ...' for key in self.keys(path))}}}"


def _groups(field: Any) -> Iterator[type[Group]]:
    """Groups that a field's value may be."""
    kinds = [field.annotation, *get_args(field.annotation)]
    return (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Group))


def field_of(group: type[Group], key: str) -> Any:
    """Find the field that a key of a spec is, None where there is none."""
    return next((field for name, field in group.model_fields.items() if key in (field.alias, name)), None)


def _is_mapping(field: Any) -> bool:
    """Whether a field's value has keys of the user's choice."""
    return any(get_origin(kind) is dict for kind in (field.annotation, *get_args(field.annotation)))


def _words(field: Any) -> list[str]:
    """Words of which a field's value is one."""
    kinds = [field.annotation, *get_args(field.annotation)]
    return [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
