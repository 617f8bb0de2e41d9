"""What the scheduler does when links change, and while they carry nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.planning.planner import Planner
from testbed.workloads.kinds.fabric.planning.traffic import Leg
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.processes.messages import Disband, Dropped, Gather, Give, Gone, Note, Order, Send
from testbed.workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a
from testbed.workloads.kinds.fabric.schemes.mlfabric_s import mlfabric_s

RATE_BPS, UPDATE_BYTES = 10**8, 1_250_000


def test_a_link_that_comes_back_is_used_at_once() -> None:
    plan = mlfabric_a(build("star(hosts=4)", rate_bps=RATE_BPS), [1], aggregators=0, window=0)
    planner = Planner(plan, Work(UPDATE_BYTES, 8, 0.0, 1, 1.0))
    worker, out = plan.workers[0], plan.topology.ports[plan.server][0]
    planner.ready(0, 0, 0.0, 0.0)
    assert [type(note) for _, note in planner.tick(0.0)][-1] is Send
    planner.rates({out: 0.0}, 0.05)
    planner.tick(0.05)
    planner.arrived([0], worker, plan.server, 0.1)
    planner.decided([(0, int(Fate.DIRECT))], 1, 0.1)
    assert not [note for _, note in planner.tick(0.1) if isinstance(note, Give)]
    assert planner.next_s == math.inf
    planner.rates({out: RATE_BPS}, 2.0)
    assert planner.next_s == 2.0
    (give,) = [note for _, note in planner.tick(2.0) if isinstance(note, Give)]
    assert [node for node, *_ in give.recipients] == [worker]


def told(planner: Planner, now_s: float) -> list[Note]:
    return [note for _, note in planner.tick(now_s)]


def test_a_transfer_is_told_once_the_end_of_the_one_before_it_is_near() -> None:
    """The first one takes 0.1 s, and is late."""
    plan = mlfabric_a(build("star(hosts=4)", rate_bps=RATE_BPS), [1], aggregators=0, window=0)
    planner = Planner(plan, Work(UPDATE_BYTES, 8, 0.0, 1, 1.0), hears_nears=True)
    for number in range(2):
        planner.ready(number, 0, 0.0, 0.0)
    assert [one.update for one in told(planner, 0.0) if isinstance(one, Send)] == [0]
    while planner.next_s < 0.15:
        assert not [one for one in told(planner, planner.next_s) if isinstance(one, Send)]
    leg = Leg(plan.workers[0], plan.server, (0,), 0)
    planner.nears(leg, 0.17, 0.15)
    (send,) = [one for one in told(planner, 0.161) if isinstance(one, Send)]
    assert send.update == 1
    assert send.wait_s == pytest.approx(0.009)


def cut_off(delay_bound: int, window_s: float = 0.0) -> tuple[Planner, int]:
    """A scheduler of three workers, and the link out of the first of them, which carries nothing."""
    plan = mlfabric_a(
        build("star(hosts=5)", rate_bps=RATE_BPS), [1], delay_bound=delay_bound, aggregators=0, window=window_s
    )
    planner = Planner(plan, Work(UPDATE_BYTES, 30, 0.0, 1, 1.0))
    out = plan.topology.ports[plan.workers[0]][0]
    planner.rates({out: 0.0}, 0.0)
    return planner, out


def test_an_update_waits_for_its_link_and_others_do_not_wait_for_it() -> None:
    planner, out = cut_off(delay_bound=30)
    planner.ready(0, 0, 0.0, 0.0)
    planner.ready(1, 0, 0.0, 0.0)
    notes = told(planner, 0.0)
    assert [one.updates for one in notes if isinstance(one, Order)] == [(1,)]
    assert not [one for one in notes if isinstance(one, Dropped)]
    planner.arrived([1], 1, 3, 0.1)
    planner.rates({out: RATE_BPS}, 1.0)
    assert planner.next_s <= 1.0
    notes = told(planner, 1.0)
    assert [one.updates for one in notes if isinstance(one, Order)] == [(0,)]
    assert [one.update for one in notes if isinstance(one, Send)] == [0]


def test_it_is_dropped_when_it_has_waited_for_too_many_others() -> None:
    planner, _ = cut_off(delay_bound=2)
    planner.ready(0, 0, 0.0, 0.0)
    assert not told(planner, 0.0)
    planner.ready(1, 0, 0.0, 0.1)
    assert not [one for one in told(planner, 0.1) if isinstance(one, Dropped)]
    planner.arrived([1], 1, 3, 0.2)
    planner.decided([(1, int(Fate.DIRECT))], 1, 0.2)
    planner.ready(2, 0, 0.0, 0.3)
    assert [one.update for one in told(planner, 0.3) if isinstance(one, Dropped)] == [0]


def test_a_link_that_changes_does_not_end_the_window_of_new_updates() -> None:
    planner, out = cut_off(delay_bound=30, window_s=0.5)
    planner.tick(0.0)
    planner.ready(1, 0, 0.0, 0.1)
    planner.rates({out: RATE_BPS}, 0.2)
    assert not told(planner, 0.2)
    assert planner.next_s == 0.6
    assert [one.update for one in told(planner, 0.6) if isinstance(one, Send)] == [1]


def summed() -> tuple[Planner, list[tuple[int, Note]], Gather, int]:
    """A planner whose workers' first updates were planned together, with at least one group; and who sums that."""
    plan = mlfabric_a(build("star(hosts=8)", rate_bps=RATE_BPS), [1], aggregators=2, window=0)
    planner = Planner(plan, Work(UPDATE_BYTES, 60, 0.0, 1, 1.0))
    for number in range(6):
        planner.ready(number, 0, 0.0, 0.0)
    said = planner.tick(0.0)
    while not any(isinstance(note, Gather) for _, note in said):
        said += planner.tick(planner.next_s)
    node, gather = next((node, note) for node, note in said if isinstance(note, Gather))
    return planner, said, gather, node


def test_the_fastest_aggregators_take_the_first_groups() -> None:
    """Of a host's two directions the slower one counts. Of three aggregators, the one that is drawn first is slow."""
    plan = mlfabric_a(build("star(hosts=8)", rate_bps=RATE_BPS), [1], aggregators=3, window=0, assign="fastest")
    ports = plan.topology.ports
    slow, slower, fast = plan.aggregators
    rates = {ports[slow][0] ^ 1: RATE_BPS / 2, ports[slower][0]: RATE_BPS / 4}
    planner = Planner(plan, Work(UPDATE_BYTES, 60, 0.0, 1, 1.0))
    planner.rates(rates, 0.0)
    assert list(planner._drawn(plan.aggregators, plan.servers)) == [fast, slow, slower]
    planner.rates(dict.fromkeys(rates, RATE_BPS) | {ports[fast][0]: RATE_BPS / 8}, 0.1)
    assert list(planner._drawn(plan.aggregators, plan.servers)) == [slow, slower, fast], "rates as they are by then"
    for number in range(6):
        planner.ready(number, 0, 0.2, 0.0)
    said = planner.tick(0.2)
    while not any(isinstance(note, Gather) for _, note in said):
        said += planner.tick(planner.next_s)
    assert next(node for node, note in said if isinstance(note, Gather)) == slow


def sent(said: Iterable[tuple[int, Note]]) -> set[int]:
    return {note.update for _, note in said if isinstance(note, Send)}


def until_quiet(planner: Planner, now_s: float) -> list[tuple[int, Note]]:
    said = planner.tick(now_s)
    while (next_s := planner.next_s) < now_s + 5:
        said += planner.tick(max(next_s, now_s))
        if len(said) > 500:
            break
    return said


def test_members_of_a_group_whose_aggregator_is_lost_are_sent_again() -> None:
    planner, _, gather, node = summed()
    own = planner._plan.workers.index(node)
    planner.lose(node, 0.01)
    said = until_quiet(planner, 0.01)
    assert (node, Disband(gather.group)) in said
    (gone,) = [note for _, note in said if isinstance(note, Gone)]
    assert gone.node == node
    assert set(gone.updates) <= {own}
    others = set(gather.members) - {own}
    assert others <= sent(said)
    assert not [note for _, note in said if isinstance(note, Order) and others & set(note.updates)], "they keep places"
    assert all(target != node for target, note in said if isinstance(note, Gather))
    again = [note for _, note in said if isinstance(note, Send) and note.update in others]
    assert {note.group for note in again} == {-1}, "what comes between them in the order may be in no sum with them"


def test_an_update_of_a_lost_worker_is_given_up_when_the_aggregator_that_has_it_is_lost_too() -> None:
    planner, _, gather, aggregator = summed()
    workers = planner._plan.workers
    number = next(one for one in gather.members if workers[one] != aggregator)
    worker, now_s = workers[number], 0.0
    while not planner.traffic.is_on_its_way(worker, aggregator, (number,)):
        now_s = planner.next_s
        planner.tick(now_s)
    now_s = max(now_s, planner.traffic.planned(worker, aggregator, (number,)).end_s)
    planner.arrived((number,), worker, aggregator, now_s)
    planner.lose(worker, now_s)
    assert (planner._plan.server, Gone(worker, ())) in planner.tick(now_s), "its sum is still to come"
    planner.lose(aggregator, now_s)
    said = until_quiet(planner, now_s)
    (gone,) = [note for _, note in said if isinstance(note, Gone)]
    assert set(gone.updates) == {number, workers.index(aggregator)}
    assert not {node for node, note in said if isinstance(note, Send)} & {worker, aggregator}


def test_what_the_server_had_is_not_sent_again() -> None:
    planner, _, gather, node = summed()
    planner.lose(node, 0.01)
    planner.decided([(number, int(Fate.AGGREGATED)) for number in gather.members], len(gather.members), 0.011)
    assert not sent(until_quiet(planner, 0.011)) & set(gather.members)


def test_a_lost_worker_takes_no_turns_and_its_update_is_given_up() -> None:
    plan = mlfabric_a(build("star(hosts=5)", rate_bps=RATE_BPS), [1], aggregators=0, window=0.1)
    planner = Planner(plan, Work(UPDATE_BYTES, 30, 0.0, 1, 1.0))
    planner.ready(0, 0, 0.0, 0.0)
    planner.ready(1, 0, 0.0, 0.0)
    planner.lose(plan.workers[1], 0.05)
    said = until_quiet(planner, 0.05)
    assert (plan.server, Gone(plan.workers[1], (1,))) in said
    assert sent(said) == {0}
    planner.ready(1, 0, 0.0, 0.06)  # what it said before
    assert sent(until_quiet(planner, 0.2)) == set()


def test_after_a_loss_nothing_goes_to_a_replica_and_the_end_waits_for_no_copies() -> None:
    plan = mlfabric_a(build("star(hosts=8)", rate_bps=RATE_BPS), [1], aggregators=2, window=0, divergence_updates=2)
    planner, lost = Planner(plan, Work(UPDATE_BYTES, 5, 0.0, 1, 1.0)), plan.aggregators[0]
    for number in range(5):
        planner.ready(number, 0, 1.0, 0.0)
    before = planner.tick(0.0)
    assert {note.target for _, note in before if isinstance(note, Send)} & {*plan.to_replica}
    assert not planner.is_replicated
    planner.leave_replica(0.001)
    planner.lose(lost, 0.001)
    said = until_quiet(planner, 0.001)
    targets = {note.target for _, note in said if isinstance(note, Send | Gather)}
    assert targets
    assert targets.isdisjoint(plan.to_replica)
    assert lost not in {node for node, note in said if isinstance(note, Send)}
    assert planner.is_replicated
    planner.arrived([3], plan.workers[3], plan.replica_aggregators[0], 0.1)  # it was on its way, and counts no more


def test_each_iteration_goes_to_its_root_while_the_sum_before_is_still_given() -> None:
    plan = mlfabric_s(build("star(hosts=6)", rate_bps=RATE_BPS), [1], aggregators=0, window=0, root="random")
    (root,), (following,) = plan.servers_at(0), plan.servers_at(1)
    assert root != following
    planner = Planner(plan, Work(UPDATE_BYTES, 15, 0.0, 1, 1.0))
    for number in range(5):
        planner.ready(number, 0, 0.0, 0.0)
    said = []
    for at in range(5):
        said += planner.tick(0.1 * at)
        for moved in [one for one in planner.traffic.moved if one.arrived_s is None]:
            planner.arrived(moved.planned.members, moved.planned.source, root, 0.1 * at + 0.1)
    assert {node for node, note in said if isinstance(note, Order)} == {root}
    sent = {node: note.target for node, note in said if isinstance(note, Send)}
    assert sent == dict.fromkeys(range(5), root)
    assert len(planner.traffic.moved) == 4, "the root's own needs no wire"
    planner.decided([(number, int(Fate.DIRECT)) for number in range(5)], 5, 0.5)
    ((node, give),) = [(node, note) for node, note in planner.tick(0.5) if isinstance(note, Give)]
    assert node == root
    assert root in [way[0][0] for way in give.ways], "its worker gets the sum without a wire"
    assert len(give.recipients) == 2, "the others wait for its link"
    (first,) = (node for node, *_ in give.recipients if node != root)
    planner.arrived((), root, first, 0.6)
    assert [node for node, note in planner.tick(0.6) if isinstance(note, Give)] == [root]
    planner.ready(5 + first, 5, 0.0, 0.61)
    assert [node for node, note in planner.tick(0.61) if isinstance(note, Order)] == [following]
