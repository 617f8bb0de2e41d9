"""Methods that torch.compile leaves alone. While it runs a model, it looks at each Python function that begins, also at
one that C++ calls. DDP asks for a broadcast when it builds its buckets anew, where PyTorch's own group has no Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

Kind = TypeVar("Kind", bound=type)
_SKIP = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)


def untraced(kind: Kind) -> Kind:
    """Have torch.compile run the methods of a class, and all that they call, as they are."""
    for method in vars(kind).values():
        skip(method.fget if isinstance(method, property) else method)
    return kind


def skip(function: Callable[..., Any] | Any) -> None:
    """Have torch.compile run a function as it is; whatever has no code stays as it is, too."""
    if (code := getattr(function, "__code__", None)) is not None:
        set_code_exec_strategy(code, _SKIP)
