"""Whether a trial's record is made of the fields that the data dictionary defines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from testbed.analysis.dictionary import JOB, RECORD


def faults(record: object) -> list[str]:
    """List what a trial's JSON has that the dictionary does not define, or of another kind; by path."""
    found = []
    for path, value in (leaf for part in _parts(record) for leaf in _leaves(part)):
        field = RECORD.get(path)
        if field is None:
            found.append(f"{path}: no such field")
        elif value is not None and not field.kind.has(value):
            found.append(f"{path} is {value!r:.40}, no {field.kind.name}")
    return found


def _parts(record: object) -> Iterator[object]:
    """A record with what its jobs have for themselves; and the rest of each job, which is as of a trial."""
    jobs = record.get("jobs") if isinstance(record, Mapping) else None
    if not isinstance(record, Mapping) or not jobs:
        yield record
        return
    own = {name.removesuffix("[]") for name in JOB}
    yield {**record, "jobs": [{key: value for key, value in job.items() if key in own} for job in jobs]}
    yield from ({key: value for key, value in job.items() if key not in own} for job in jobs)


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Each value that is neither an object nor a list, with its path; of an object that is null, nothing."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{_any(path, str(key))}".strip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, f"{path}[]")
    elif value is not None or not any(known.startswith((f"{path}.", f"{path}[]")) for known in RECORD):
        yield path, value


def _any(path: str, key: str) -> str:
    """``*`` where any key may stand that has no definition of its own."""
    own = f"{path}.{key}"
    if any(known == own or known.startswith((f"{own}.", f"{own}[")) for known in RECORD):
        return key
    return "*" if any(known.startswith(f"{path}.*") for known in RECORD) else key
