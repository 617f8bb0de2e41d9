"""Perturbations as a spec gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter

from testbed.spec.perturb import Perturbation, Perturbations


@pytest.fixture
def read() -> Callable[..., list[Perturbation]]:
    """Check a list of them."""
    return lambda *given: TypeAdapter(Perturbations).validate_python(list[Any](given))
