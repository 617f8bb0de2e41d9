"""Which hosts jobs get that share a network, and when they begin."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import SpecError
from testbed.experiment.expand import trials
from testbed.experiment.planning import plan, text
from testbed.spec import read
from testbed.spec.jobs import JobKeys, singly
from testbed.trial.job import Job, Slot
from testbed.trial.model import Trial

HEAD = """
name: jobs
workload: {kind: profile, model: lenet5, scale: 100, batch: 16, iterations: 3, compute: none}
links: {rate: 100 Mbit/s}
repeats: 2
arms:
"""


def spec(jobs: str, topology: str = "star(hosts=6)") -> str:
    return f"{HEAD}  - {{label: mine, topology: '{topology}', jobs: [{jobs}]}}\n"


def trial_of(arm: str, workload: str = "compute: none") -> Trial:
    first, *_ = trials(read(f"{HEAD.replace('compute: none', workload)}  - {{{arm}}}\n", "spec.yaml", Path()))
    return first


def jobs_of(jobs: str, topology: str = "star(hosts=6)") -> dict[str, Job]:
    return {job.name: job for job in trial_of(f"label: mine, topology: '{topology}', jobs: [{jobs}]").jobs}


def slot(job: Job) -> Slot:
    assert job.slot is not None
    return job.slot


def test_a_number_takes_the_first_hosts_that_nobody_has_or_names() -> None:
    found = jobs_of("{name: a, scheme: ring, hosts: 2}, {name: b, scheme: ps, hosts: [h3, h0]}, "
                    "{name: c, scheme: ring, hosts: 2}")  # fmt: skip
    assert {name: slot(job).hosts for name, job in found.items()} == {"a": (1, 2), "b": (3, 0), "c": (4, 5)}
    assert [*found["b"].processes] == ["b/h3", "b/h0"], "ranks are in the order of the names"
    assert all(not slot(job).after and job.planned_s == 0 for job in found.values())


def test_who_finds_too_few_hosts_waits_for_those_that_are_free_first() -> None:
    found = jobs_of("{name: short, scheme: ring, hosts: 4}, {name: long, scheme: ring, hosts: 2, model: alexnet}, "
                    "{name: c, scheme: ring, hosts: 3, start: 1 ms}")  # fmt: skip
    assert slot(found["c"]).hosts == (0, 1, 2)
    assert slot(found["c"]).after == ("short",)
    assert found["c"].planned_s == pytest.approx(found["short"].jct_theory_s)
    assert slot(found["c"]).start_s == 0.001


def test_nobody_overtakes_who_waits() -> None:
    found = jobs_of("{name: a, scheme: ring, hosts: 4}, {name: all, scheme: ring, hosts: 6}, "
                    "{name: small, scheme: ring, hosts: 2}")  # fmt: skip
    assert found["small"].planned_s >= found["all"].planned_s > 0
    assert slot(found["small"]).after == ("all",)


def test_hosts_that_are_free_again_are_the_first_by_index() -> None:
    found = jobs_of("{name: a, scheme: ring, hosts: 2}, {name: b, scheme: ring, hosts: 2, start: 10 min}")
    assert slot(found["b"]).hosts == (0, 1)
    assert slot(found["b"]).after == ("a",), "it may take longer than predicted"
    assert found["b"].planned_s == 600


def test_copies_have_numbers_and_each_has_its_own_plan() -> None:
    found = jobs_of("{name: a, scheme: ring, hosts: 2, copies: 4}")
    assert [*found] == ["a-1", "a-2", "a-3", "a-4"]
    assert slot(found["a-4"]).after == ("a-1",)
    assert found["a-4"].plan.workers == found["a-1"].plan.workers == (0, 1)


def test_jobs_have_their_own_model_and_batch() -> None:
    found = jobs_of("{name: a, scheme: ring, hosts: 2}, {name: b, scheme: ring, hosts: 2, model: alexnet, batch: 8}")
    assert [(job.work.model, job.batch) for job in found.values()] == [("lenet5", 16), ("alexnet", 8)]
    assert found["b"].gradient_bytes > 10 * found["a"].gradient_bytes
    assert found["b"].training.seed == found["a"].training.seed


def test_a_job_on_all_hosts_has_the_network_of_the_arm() -> None:
    found = jobs_of("{name: a, scheme: bml, hosts: 4}", "bcube(n=2,k=2)")
    assert found["a"].world == 4
    with pytest.raises(SpecError, match=r"the job a: .*3 hosts of bcube"):
        jobs_of("{name: a, scheme: bml, hosts: 3}", "bcube(n=2,k=2)")


def test_identities_tell_jobs_apart() -> None:
    texts = [
        "{name: a, scheme: ring, hosts: 2}, {name: b, scheme: ring, hosts: 2}",
        "{name: a, scheme: ring, hosts: 2}, {name: b, scheme: ring, hosts: 2, start: 1 s}",
        "{name: a, scheme: ring, hosts: 2}, {name: b, scheme: ring, hosts: [h3, h4]}",
        "{name: a, scheme: ring, hosts: 2}, {name: b, scheme: ring, hosts: 2, model: alexnet}",
        "{name: a, scheme: ring, hosts: 2}, {name: c, scheme: ring, hosts: 2}",
        "{name: a, scheme: ring, hosts: 2}, {name: b, scheme: ps, hosts: 2}",
    ]
    found = [trials(read(spec(one), "spec.yaml", Path()))[0] for one in texts]
    assert len({trial.identity for trial in found}) == len(texts)
    assert {trial.id for trial in found} == {"mine-b16-r1"}


def test_perturbations_may_name_a_process_of_any_job() -> None:
    written = spec("{name: a, scheme: ring, hosts: 2}, {name: b, scheme: ring, hosts: 2}")
    kill = written + "perturb: {kind: kill, nodes: [b/h3], at: 1 s}\n"
    (first, _) = trials(read(kill, "spec.yaml", Path()))
    assert "b/h3" in first.processes
    with pytest.raises(SpecError, match="c/h3"):
        trials(read(kill.replace("b/h3", "c/h3"), "spec.yaml", Path()))


@pytest.mark.parametrize(("look_ahead", "waits_s"), [("", 3.0), (",look_ahead=true", 0.0)])
def test_circuits_of_a_job_are_patched_before_it_begins(look_ahead: str, waits_s: float) -> None:
    """Without look-ahead, patching begins when the hosts are free. With it, it is done by then."""
    topology = f"patch_panel(servers=5,degree=2,rings=[[0,1,2,3]],reconfiguration_s=3{look_ahead})"
    crossed = "{name: b, scheme: 'multi_ring(permutations=[[0,2,1,3]])', hosts: 4, rings: [[0,2,1,3]]}"
    found = jobs_of("{name: a, scheme: ring, hosts: 4, model: alexnet}, " + crossed, topology)
    first_s = found["a"].jct_theory_s
    assert first_s is not None
    assert first_s > 3
    assert found["b"].planned_s == pytest.approx(first_s + waits_s)
    one, other = (found[name].network.topology for name in "ab")
    assert one.panels is not None
    assert other.panels is not None
    assert slot(found["a"]).circuits is None
    assert one.panels.lit != other.panels.lit == slot(found["b"]).circuits
    assert len(other.paths(0, 2)[0].links) == 2, "one circuit"
    assert len(one.paths(0, 2)[0].links) == 4
    assert trials(read(spec(crossed, topology), "spec.yaml", Path()))[0].topology.panels == one.panels


def test_identities_tell_circuits_of_jobs_apart() -> None:
    texts = ["{name: a, scheme: ring, hosts: 4}", "{name: a, scheme: ring, hosts: 4, rings: [1]}"]
    topology = "patch_panel(servers=4,degree=2,rings=[1])"
    found = [trials(read(spec(one, topology), "spec.yaml", Path()))[0].identity for one in texts]
    assert found[0] != found[1]


def test_a_plan_says_where_and_when_jobs_run() -> None:
    found = plan(read(spec("{name: a, scheme: ring, hosts: 4}, {name: b, scheme: ps, hosts: 4}"), "spec.yaml", Path()))
    first, second = found["trials"][0]["jobs"]
    assert second["after"] == ["a"]
    assert second["planned_s"] == pytest.approx(first["jct_theory_s"])
    assert found["trials"][0]["jct_theory_s"] == pytest.approx(first["jct_theory_s"] + second["jct_theory_s"])
    assert "jobs of mine-b16-r1" in text(found)


ASKED = st.lists(
    st.builds(
        JobKeys.model_construct,
        name=st.just("x"),
        scheme=st.just("ring"),
        hosts=st.integers(2, 5),
        model=st.none(),
        batch=st.none(),
        start_s=st.sampled_from([0.0, 0.05, 0.3]),
        copies=st.integers(1, 2),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=15)
@given(ASKED)
def test_no_host_has_two_jobs_at_a_time(asked: list[JobKeys]) -> None:
    keys = [one.model_copy(update={"name": f"j{i}"}) for i, one in enumerate(asked)]
    written = ", ".join(
        f"{{name: {one.name}, scheme: ring, hosts: {one.hosts}, start: {one.start_s} s, copies: {one.copies}}}"
        for one in keys
    )
    found = jobs_of(written)
    assert [*found] == [one.name for one in singly(keys)]
    ends_s = {name: job.planned_s + (job.jct_theory_s or 0.0) for name, job in found.items()}
    for name, job in found.items():
        others = [
            other for other in found.values() if other.name != name and set(slot(other).hosts) & set(slot(job).hosts)
        ]
        earlier = [other for other in others if [*found].index(other.name) < [*found].index(name)]
        assert all(ends_s[other.name] <= job.planned_s for other in earlier)
        assert set(slot(job).after) <= {other.name for other in earlier}
        assert bool(slot(job).after) == bool(earlier)
        assert job.planned_s >= slot(job).start_s
        assert job.planned_s == slot(job).start_s or job.planned_s in {*ends_s.values()}


BOX = "topology: 'star(hosts=6,server_nics=2,routing=every_nic)'"
SERVED = "{name: a, scheme: service, hosts: [h3, h0]}, {name: b, scheme: service, hosts: 3}"


def test_hosts_and_processes_of_a_service_belong_to_no_job_and_serve_each_that_uses_it() -> None:
    trial = trial_of(f"{BOX}, service: pbox, jobs: [{SERVED}]")
    a, b = trial.jobs
    assert (slot(a).hosts, slot(b).hosts) == ((3, 0), (1, 2, 4)), "and not h5"
    assert slot(a).served_by == slot(b).served_by == (5,)
    assert {name: [part.job for part in process.parts] for name, process in trial.members.items()} == {
        **{"a/h3": ["a"], "a/h0": ["a"]},
        **{"h5.core0": ["a", "b"], "h5.core1": ["a", "b"], "h5.manager": ["a", "b"]},
        **{"b/h1": ["b"], "b/h2": ["b"], "b/h4": ["b"]},
    }


def test_connections_of_a_service_are_those_of_its_jobs_and_each_has_a_port() -> None:
    trial = trial_of(f"{BOX}, service: pbox, jobs: [{SERVED}]")
    core = trial.members["h5.core1"]
    assert core.meets == ("a/h3", "a/h0", "b/h1", "b/h2", "b/h4")
    ports = [
        trial.ports.of(trial.members[worker], trial.members[process])
        for process in ("h5.core0", "h5.core1", "h5.manager")
        for worker in trial.members[process].meets
    ]
    assert len(set(ports)) == len(ports) == 5 + 5 + 2


def test_a_job_that_has_a_service_for_itself_has_the_plan_of_its_scheme() -> None:
    alone = trial_of(f"{BOX}, scheme: pbox").job
    (served,) = trial_of(f"{BOX}, service: pbox, jobs: [{{name: a, scheme: service, hosts: 5}}]").jobs
    assert served.plan == alone.plan
    assert (served.cost.link_bytes == alone.cost.link_bytes).all()
    assert served.gst_theory_s == alone.gst_theory_s
    assert [each.removeprefix("a/") for each in served.processes] == [*alone.processes]


def test_each_job_of_a_service_sends_its_keys_over_all_nics_of_the_box() -> None:
    a, _ = trial_of(f"{BOX}, service: pbox(key_bytes=0), jobs: [{SERVED}]").jobs
    assert a.plan.workers == (3, 0)
    nics = [number for number, link in enumerate(a.network.topology.links) if 5 in (link.a, link.b)]
    moved = [a.cost.link_bytes[2 * number + way] for number in nics for way in (0, 1)]
    assert moved == pytest.approx([a.gradient_bytes] * 4), "half of each of two gradients"


def test_a_job_beside_a_service_may_have_a_scheme_of_its_own() -> None:
    mixed = SERVED.replace("b, scheme: service", "b, scheme: ring")
    trial = trial_of(f"{BOX}, service: pbox, jobs: [{mixed}]")
    _, b = trial.jobs
    assert (b.plan.scheme, slot(b).hosts, slot(b).served_by) == ("ring", (1, 2, 4), None)
    assert [part.job for part in trial.members["h5.core0"].parts] == ["a"]


def test_plan_says_which_jobs_a_service_has() -> None:
    shown = text(plan(read(f"{HEAD}  - {{{BOX}, service: pbox, jobs: [{SERVED}]}}\n", "spec.yaml", Path())))
    assert "service pbox" in shown
    assert "h3, h0" in shown
