"""A trial's table of samples as it was recorded, read with bounds: a few kB of Parquet can unpack to gigabytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from testbed.files.foreign import UnfitError, opened

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyarrow.parquet import FileMetaData

COLUMNS = ("rank", "iteration", "start_s", "ready_s", "sum_s", "end_s", "loss")
"""What a table must have."""
MOMENTS = ("start_s", "ready_s", "sum_s", "end_s")
MOST_COLUMNS = 100
UNPACKED, FREE_BYTES = 16, 2**20
"""A table has at most so many times its file's bytes, and what a small one may have besides. Clocks' readings hardly
compress: of ours it is 5 times."""
MOST_VALUES = 2**27
"""In one table, for a file may have holes: 32 columns of the most samples that a trial may have."""
LONGEST_FOOTER_BYTES = 2**24
MOST_IN_ALL = 2**28
"""Values in all tables of a run: two gigabytes of memory."""


def read(path: Path, below: Path) -> pd.DataFrame:
    """The numbers of the table in a file below a folder that is not trusted, by iteration and rank.

    Raises:
        UnfitError: it is no such table, or too large; the text says why.
        OSError: it cannot be opened.
    """
    import pandas as pd  # half a second, which those that read no samples need not wait
    import pyarrow as pa
    import pyarrow.parquet as pq

    with opened(path, below) as file:
        try:
            size_bytes = _checked_size(file)
            found = pq.ParquetFile(file, thrift_string_size_limit=2**24, thrift_container_size_limit=2**20)
            _check(found.metadata, found.schema_arrow, min(UNPACKED * size_bytes, 8 * MOST_VALUES) + FREE_BYTES)
            # Without what pandas and others may have written about it, which would decide what is made of it.
            table = (
                found.read(_numbers(found.schema_arrow), use_threads=False)
                .replace_schema_metadata(None)
                .to_pandas(use_threads=False)
            )
        except UnfitError:
            raise
        except (OSError, ValueError, pa.ArrowException) as error:
            raise UnfitError(f"damaged, not Parquet ({error!s:.200})") from None
    lacking = [name for name in COLUMNS if name not in table]
    if lacking:
        raise UnfitError(f"damaged, the column {lacking[0]!r} is missing")
    ordered = table.sort_values(["iteration", "rank"], ignore_index=True)
    _check_values(ordered)
    assert isinstance(ordered, pd.DataFrame)
    return ordered


def _numbers(schema: pa.Schema) -> list[str]:
    """The columns of numbers. Others, such as workers' names, are not unpacked: a text may be of any length."""
    from pyarrow import types

    kinds = (types.is_integer, types.is_floating, types.is_boolean)
    return [field.name for field in schema if any(is_one(field.type) for is_one in kinds)]


def _checked_size(file: BinaryIO) -> int:
    """Bytes of a file that ends as Parquet does: with the length of its footer, and four letters.

    Raises:
        UnfitError: it does not, or its footer is longer than ours can be.
    """
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(max(0, size_bytes - 8))
    end = file.read()
    file.seek(0)
    if end[4:] != b"PAR1" or int.from_bytes(end[:4], "little") > LONGEST_FOOTER_BYTES:
        raise UnfitError("damaged, not Parquet (it does not end like that)")
    return size_bytes


def _check(about: FileMetaData, schema: pa.Schema, most_bytes: int) -> None:
    """What a file says of itself, before anything is unpacked.

    Raises:
        UnfitError: it has more than a table of samples has.
    """
    if about.num_columns > MOST_COLUMNS or 8 * about.num_rows * about.num_columns > most_bytes:
        raise UnfitError(
            f"has {about.num_rows:,} rows of {about.num_columns:,} columns, more than a file of its size should"
        )
    if len(set(schema.names)) < len(schema.names):
        raise UnfitError("damaged, two of its columns have one name")
    # Of a group as a whole: pyarrow ends the process where it is asked for a damaged chunk's own account.
    if sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups)) > most_bytes:
        raise UnfitError(f"unpacks to more than {most_bytes:,} bytes")


def _check_values(table: pd.DataFrame) -> None:
    """
    Raises:
        UnfitError: values cannot be those of a trial; names the column.
    """
    import numpy as np

    for name in ("rank", "iteration"):
        if table[name].dtype.kind not in "iu" or (table[name] < 0).any():
            raise UnfitError(f"damaged, {name} has something else than whole numbers from 0 on")
    for name in MOMENTS:
        if not (table[name].abs() < 1e12).all():  # also false for NaN
            raise UnfitError(f"damaged, {name} has something else than times")
    ranks, iterations = table["rank"].to_numpy(), table["iteration"].to_numpy()
    if ((ranks[1:] == ranks[:-1]) & (iterations[1:] == iterations[:-1])).any():
        raise UnfitError("damaged, a worker has an iteration twice")
    if len(np.unique(ranks)) * len(np.unique(iterations)) > UNPACKED * len(table) + FREE_BYTES:
        raise UnfitError(f"damaged, {len(table):,} samples are of too many workers and iterations")
