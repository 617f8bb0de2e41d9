"""Servers with several NICs, as a PBox is, and which of these traffic passes (PHub thesis, sections 2.2 and 6.1.5)."""

from __future__ import annotations

from typing import Literal

EVERY_NIC = "every_nic"
ServerRouting = Literal["by_destination", "every_nic"]


def joined(src: int, src_nics: int, dst: int, dst_nics: int, routing: str) -> list[tuple[int, int]]:
    """Return the NICs, of ``src`` and of ``dst``, that each connection of two hosts joins.

    With ``every_nic`` there is a connection for each NIC of the one that has more. Otherwise there is one, over NIC h
    mod n of a server with n NICs, where h is the other host.
    """
    if routing == EVERY_NIC:
        return [(nic % src_nics, nic % dst_nics) for nic in range(max(src_nics, dst_nics))]
    return [(dst % src_nics, src % dst_nics)]
