"""Tables in Parquet that somebody else may have written, read with bounds: a few kB can unpack to gigabytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, BinaryIO

from testbed.base.errors import OutputError
from testbed.files.foreign import UnfitError, opened

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MOST_COLUMNS = 100
UNPACKED, FREE_BYTES = 16, 2**20
"""A table has at most so many times its file's bytes, and what a small one may have besides. Clocks' readings hardly
compress: of ours it is 5 times."""
MOST_VALUES = 2**27
"""Values that one table may have, for a file may have holes: 32 columns of the most samples that a trial may have."""
LONGEST_FOOTER_BYTES = 2**24


def numbers(path: Path, below: Path, needed: Sequence[str], free_bytes: int = FREE_BYTES) -> pd.DataFrame:
    """The columns of numbers of the table in a file below a folder that is not trusted; the ``needed`` are among them.
    ``free_bytes`` is what it may have beyond what its file's size allows.

    Raises:
        UnfitError: it is no such table, or too large; the text says why.
        OSError: it cannot be opened.
    """
    import pandas as pd
    import pyarrow as pa  # half a second with pandas, which those that read no tables need not wait
    import pyarrow.parquet as pq

    with opened(path, below) as file:
        try:
            size_bytes = _checked_size(file)
            found = pq.ParquetFile(file, thrift_string_size_limit=2**24, thrift_container_size_limit=2**20)
            about, schema = found.metadata, found.schema_arrow  # checked before anything is unpacked
            most_bytes = min(UNPACKED * size_bytes, 8 * MOST_VALUES) + free_bytes
            if about.num_columns > MOST_COLUMNS or 8 * about.num_rows * about.num_columns > most_bytes:
                raise UnfitError(
                    f"has {about.num_rows:,} rows of {about.num_columns:,} columns, more than a file of its size should"
                )
            if len(set(schema.names)) < len(schema.names):
                raise UnfitError("damaged, two of its columns have one name")
            # Of a group as a whole: pyarrow ends the process where it is asked for a damaged chunk's own account.
            if sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups)) > most_bytes:
                raise UnfitError(f"unpacks to more than {most_bytes:,} bytes")
            # Without what pandas and others may have written about it, which would decide what is made of it.
            table = (
                found.read(_names(schema), use_threads=False).replace_schema_metadata(None).to_pandas(use_threads=False)
            )
        except UnfitError:
            raise
        except (OSError, ValueError, pa.ArrowException) as error:
            raise UnfitError(f"damaged, not Parquet ({error!s:.200})") from None
    lacking = [name for name in needed if name not in table]
    if lacking:
        raise UnfitError(f"damaged, the column {lacking[0]!r} is missing")
    assert isinstance(table, pd.DataFrame)
    return table


def packed(table: pd.DataFrame) -> bytes:
    """Return the file of a table, which :func:`numbers` reads: one whose rows are alike is not compressed."""
    small: bytes = table.to_parquet(index=False)
    if 8 * table.size <= UNPACKED * len(small) + FREE_BYTES:
        return small
    plain: bytes = table.to_parquet(index=False, compression=None, use_dictionary=False)
    return plain


def of_trial(
    path: Path,
    run_dir: Path,
    needed: Sequence[str],
    check: Callable[[pd.DataFrame], None],
    free_bytes: int = FREE_BYTES,
) -> pd.DataFrame | None:
    """A trial's table that a report can do without; None where there is none.

    Args:
        check: raises UnfitError of a table whose values cannot be those of a trial.
        free_bytes: as in :func:`numbers`.

    Raises:
        OutputError: it is damaged, or larger than a table may be.
    """
    try:
        found = numbers(path, run_dir, needed, free_bytes)
        check(found)
    except FileNotFoundError:
        return None
    except (OSError, UnfitError) as error:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        fix = f"rm -f {quote(str(path))}; the report does without it"
        raise OutputError(f"{path}: {why}", fix=fix) from None
    return found


def check_range(table: pd.DataFrame, names: Sequence[str], low: float, beyond: float, what: str) -> None:
    """
    Raises:
        UnfitError: a column has something else than values from ``low`` to below ``beyond``; names the column, and
            ``what`` it is to have.
    """
    for name in names:
        if not ((table[name] >= low) & (table[name] < beyond)).all():  # also false for NaN
            raise UnfitError(f"damaged, {name} has something else than {what}")


def check_whole(table: pd.DataFrame, names: Sequence[str]) -> None:
    """
    Raises:
        UnfitError: a column has other numbers than whole ones.
    """
    for name in names:
        if table[name].dtype.kind not in "iu":
            raise UnfitError(f"damaged, {name} has something else than whole numbers")


def _names(schema: pa.Schema) -> list[str]:
    """The columns of numbers. Others, such as workers' names, are not unpacked: a text may be of any length."""
    from pyarrow import types

    kinds = (types.is_integer, types.is_floating, types.is_boolean)
    return [field.name for field in schema if any(is_one(field.type) for is_one in kinds)]


def _checked_size(file: BinaryIO) -> int:
    """Bytes of a file that ends as Parquet does: with the length of its footer, and four letters."""
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(max(0, size_bytes - 8))
    end = file.read()
    file.seek(0)
    if end[4:] != b"PAR1" or int.from_bytes(end[:4], "little") > LONGEST_FOOTER_BYTES:
        raise UnfitError("damaged, not Parquet (it does not end like that)")
    return size_bytes
