"""A carrier and a neighbour of which the test sends each byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from testbed.workloads.kinds.script.collectives.calls import Call, What
from testbed.workloads.kinds.script.collectives.shapes import EARLY_BYTES, direct
from testbed.workloads.kinds.script.engine.carrier import _BEGIN, _BYE, _CONTROL, Carrier
from testbed.workloads.kinds.script.engine.operation import SUM, Ending, Operation
from tests.patience import PATIENCE_S, until

CALL = Call(What.SEND, "other", 2 * EARLY_BYTES)
KEY = (0, 0)


@pytest.fixture
def pair() -> Iterator[tuple[Carrier, socket.socket]]:
    """A carrier on node 0, and the other end of its connection with node 1."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    carrier = Carrier(0, ["h0", "h1"], {1: ours})
    thread = threading.Thread(target=carrier.run)
    thread.start()
    with theirs:
        yield carrier, theirs
        carrier.leave()
        theirs.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_call_is_made_while_its_first_chunk_comes(pair: tuple[Carrier, socket.socket]) -> None:
    carrier, theirs = pair
    sent = np.random.default_rng(1).integers(0, 256, CALL.nbytes, np.uint8)
    shape = direct(carrier._names, (1, 0), CALL, EARLY_BYTES, 0)
    signature = CALL.encode()
    theirs.sendall(carrier._word(KEY, _CONTROL | _BEGIN, len(signature)) + signature)
    theirs.sendall(carrier._word(KEY, SUM, EARLY_BYTES) + sent[: EARLY_BYTES // 2].tobytes())
    until(lambda: bool(carrier._into))
    array, ended = np.zeros(CALL.nbytes, np.uint8), threading.Event()
    begun, errors = threading.Event(), list[BaseException | None]()

    def done(error: BaseException | None) -> None:
        errors.append(error)
        ended.set()

    carrier.submit(Operation(KEY, shape, "h0", array, Ending(done, begun.set)))
    assert begun.wait(PATIENCE_S)
    theirs.sendall(sent[EARLY_BYTES // 2 : EARLY_BYTES].tobytes())
    theirs.sendall(carrier._word(KEY, SUM | 1, EARLY_BYTES) + sent[EARLY_BYTES:].tobytes())
    assert ended.wait(PATIENCE_S)
    assert errors == [None]
    assert (array == sent).all()


def test_headers_and_news_of_calls_are_no_payload(pair: tuple[Carrier, socket.socket]) -> None:
    carrier, theirs = pair
    call, ended = Call(What.SEND, "other", 10), threading.Event()
    shape, signature = direct(carrier._names, (0, 1), call, EARLY_BYTES, 0), call.encode()
    carrier.submit(Operation(KEY, shape, "h0", np.zeros(10, np.uint8), Ending(lambda _: ended.set())))
    theirs.sendall(carrier._word(KEY, _CONTROL | _BEGIN, len(signature)) + signature)
    assert ended.wait(PATIENCE_S)
    carrier.leave()
    theirs.sendall(carrier._word((1, 0), _CONTROL | _BYE, 0))
    until(lambda: bool(carrier.totals))
    assert carrier.totals["sent"][1].payload_bytes == 10
    assert carrier.totals["wire_bytes"] > 10 + len(signature)


def test_no_chunk_is_kept_that_is_larger(pair: tuple[Carrier, socket.socket]) -> None:
    carrier, theirs = pair
    theirs.sendall(carrier._word(KEY, SUM, EARLY_BYTES + 1))
    until(lambda: carrier.error is not None)
    assert "got chunk 0 of call 0 of group 0 from h1, and does not expect it" in str(carrier.error)
