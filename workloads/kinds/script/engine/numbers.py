"""The types of numbers that calls have, as numpy has them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]


@cache
def dtype_of(name: str) -> np.dtype[Any]:
    """Return numpy's type for a name in :data:`.calls.DTYPES`. Numpy lacks bfloat16, which the package ml_dtypes
    adds."""
    if name == "bfloat16":
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    return np.dtype(np.uint8 if name == "other" else name)


def raw(numbers: Numbers) -> memoryview:
    """View the bytes of an array; types that numpy does not know itself have no buffer of their own."""
    return numbers.view(np.uint8).data if numbers.size else memoryview(bytearray())
