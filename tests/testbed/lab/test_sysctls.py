"""Where the kernel's settings of many namespaces are found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.lab.netns.kernel_interface import kernel, sysctls
from testbed.lab.netns.kernel_interface.sysctls import NAMESPACES_A_ROOT, ROOT, Roots

FILE = "ipv4/tcp_orphan_retries"


@pytest.mark.lab
def test_so_many_namespaces_share_a_file_system() -> None:
    open_before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - what counts is their number
    with Roots() as roots:
        found = [roots.next() for _ in range(NAMESPACES_A_ROOT)]
        assert set(found) == {ROOT}
        own = roots.next()
        assert own != ROOT
        assert sysctls.read(FILE, own) == sysctls.read(FILE)
        first = os.stat(own).st_dev  # noqa: PTH116
        assert {roots.next() for _ in range(NAMESPACES_A_ROOT - 1)} == {own}
        assert os.stat(roots.next()).st_dev not in (first, os.stat(ROOT).st_dev)  # noqa: PTH116
        assert len(os.listdir("/proc/self/fd")) == open_before + 1  # noqa: PTH208
    assert len(os.listdir("/proc/self/fd")) == open_before  # noqa: PTH208
    assert not Path(own).exists()


def test_kernels_that_refuse_them_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise PermissionError

    monkeypatch.setattr(kernel, "proc", refuse)
    with Roots() as roots:
        assert {roots.next() for _ in range(3 * NAMESPACES_A_ROOT)} == {ROOT}
