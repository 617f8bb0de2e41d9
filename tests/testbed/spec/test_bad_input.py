"""What a user reads after a mistake, word for word: each case's text and exit code are in golden/NAME.txt.

Set GOLDEN=write to write them anew, and read the difference before keeping it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.spec.yaml import A_SPEC
from testbed.workloads.lda import files
from testbed.workloads.trace import chakra
from testbed.workloads.trace.graph import Collective, Kind, Node
from tests import own

from ..conftest import PROFILE, SPEC, Called

GOLDEN = Path(__file__).parents[1] / "golden"

TRAIN = """\
  model: lenet5
  dataset: digits
  batch: [2]
  iterations: 3
  compute: none
"""
RING = "topology: star(hosts=3), scheme: ring"
FAST = "links: {rate: 40 Gbit/s}"
PLAYED = "workload: {kind: profile, model: vgg19, batch: 32, iterations: 3}"
ARMS = "arms: [{topology: star(hosts=5), scheme: ring}]"


def _jobs(jobs: str) -> str:
    return f"jobs: [{jobs}]"


def _on_star(jobs: str) -> str:
    """An arm's keys with these jobs in place of a scheme."""
    return f"topology: star(hosts=3), {_jobs(jobs)}"


CHANGES: dict[str, tuple[str, str]] = {
    "unknown_key": ("iterations: 3", "iteratons: 3"),
    "unknown_key_of_another_group": ("seed: 1", "seed: 1\nbatch: 16"),
    "unknown_key_far_from_all": ("iterations: 3", "iterations: 3\n  zzz: 1"),
    "kind_unknown": ("model: lenet5", "kind: profil\n  model: lenet5"),
    "kind_that_is_a_list": ("model: lenet5", "kind: [train]\n  model: lenet5"),
    "key_of_another_kind": ("model: lenet5", "kind: profile\n  model: vgg19"),
    "model_that_is_only_played": ("model: lenet5", "model: vgg19"),
    "number_for_the_workload": ("workload:\n", "workload: 7\nworkload_was:\n"),
    "missing_key": ("  iterations: 3\n", ""),
    "missing_links": ("links: {rate: 200 Mbit/s}\n", ""),
    "overlap_off": ("  iterations: 3\n", "  iterations: 3\n  overlap: off\n"),
    "label_no": ("label: PS", "label: no"),
    "label_on": ("label: PS", "label: on"),
    "order_no": ("label: PS", "label: PS, order: no"),
    "kind_off": ("arms:\n", "perturb: [{kind: off, at: 1 s}]\narms:\n"),
    "lab_off": ("arms:\n", "lab: off\narms:\n"),
    "name_off_of_a_group_alone": (
        "arms:\n",
        "perturb: {kind: straggle, name: off, probability: 10 %, slowdown: 2}\narms:\n",
    ),
    "label_null": ("label: PS", "label: null"),
    "label_empty": ("label: PS", "label:"),
    "label_of_a_version": ("label: PS", "label: 1.10"),
    "label_that_is_a_number": ("label: PS", "label: 12"),
    "label_that_is_a_list": ("label: PS", "label: [a]"),
    "label_that_is_a_list_of_yes_and_no": ("label: PS", "label: [no, yes, 'on', 12]"),
    "name_on": ("name: small", "name: on"),
    "name_no": ("name: small", "name: no"),
    "command_empty_without_its_kind": (
        SPEC[SPEC.index("workload:") : SPEC.index("arms:")],
        "workload: {command: []}\n",
    ),
    "key_that_yaml_reads_as_false": ("label: PS", "no: PS"),
    "wrong_type": ("iterations: 3", "iterations: many"),
    "text_for_a_group": ("links: {rate: 200 Mbit/s}", "links: fast"),
    "number_for_a_list_entry": ("  - {label: PS", "  - 7\n  - {label: PS"),
    "true_for_a_number": ("iterations: 3", "iterations: true"),
    "iterations_0": ("iterations: 3", "iterations: 0"),
    "batch_0": ("batch: [2]", "batch: [2, 0]"),
    "batch_0_alone": ("batch: [2]", "batch: 0"),
    "batch_alone_that_is_no_number": ("batch: [2]", "batch: many"),
    "batch_empty": ("batch: [2]", "batch: []"),
    "batch_twice": ("batch: [2]", "batch: [2, 2]"),
    "warmup_of_all": ("iterations: 3", "iterations: 3\n  warmup: 3"),
    "learning_rate_negative": ("compute: none", "compute: none\n  learning_rate: -0.1"),
    "learning_rate_nan": ("compute: none", "compute: none\n  learning_rate: .nan"),
    "momentum_1": ("compute: none", "compute: none\n  momentum: 1"),
    "nesterov_without_momentum": ("compute: none", "compute: none\n  optimiser: nesterov\n  momentum: 0"),
    "optimiser_unknown": ("compute: none", "compute: none\n  optimiser: adam"),
    "nesterov_under_a_scheduler": (
        "compute: none\narms:",
        "compute: real\n  optimiser: nesterov\narms:\n  - {topology: star(hosts=4), scheme: mlfabric_a(delay_bound=3)}",
    ),
    "rate_without_unit": ("200 Mbit/s", "200"),
    "rate_negative": ("200 Mbit/s", "-200 Mbit/s"),
    "rate_above_the_emulated": ("200 Mbit/s", "40 Gbit/s"),
    "rate_below_the_emulated": ("200 Mbit/s", "9 kbit/s"),
    "uplink_above_the_emulated": (
        "rate: 200 Mbit/s}",
        "rate: 20 Gbit/s}  # an uplink must carry four hosts",
    ),
    "delay_negative": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, delay: -1 ms"),
    "delay_long": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, delay: 11 s"),
    "jitter_without_unit": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, jitter: 2"),
    "loss_over_1": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, loss: 1.5"),
    "loss_of_all_packets": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, loss: 100 %"),
    "loss_without_percent": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, loss: 1"),
    "loss_no": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, loss: no"),
    "loss_negative": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, loss: -1 %"),
    "reorder_without_a_delay": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, reorder: 1 %"),
    "queue_smaller_than_a_packet": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, queue: 1 kB"),
    "small_queues_of_a_byte": ("rate: 200 Mbit/s}", "rate: 200 Mbit/s, small_queues: 1 B}"),
    "full_packets_above_small_queues": (
        "rate: 200 Mbit/s}",
        "rate: 200 Mbit/s, small_queues: 8 KiB, full_packets: 16 KiB}",
    ),
    "mtu_tiny": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, mtu: 60"),
    "links_key_misspelt": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, dealy: 5 ms"),
    "links_of_no_node": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, h9: {rate: 5 Mbit/s}"),
    "links_of_no_rack": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, rack 3: {rate: 5 Mbit/s}"),
    "links_own_key_misspelt": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, h0: {raet: 5 Mbit/s}"),
    "links_own_without_keys": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, h0: 5 Mbit/s"),
    "links_own_empty": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, h0: {}"),
    "links_own_that_disagree": (
        "rate: 200 Mbit/s",
        "rate: 200 Mbit/s, h0: {delay: 1 ms}, s0: {delay: 2 ms, rate: 5 Mbit/s}",
    ),
    "links_own_below_the_emulated": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, h0: {rate: 5 kbit/s}"),
    "links_own_reorder_without_a_delay": (
        "rate: 200 Mbit/s",
        "rate: 200 Mbit/s, delay: 1 ms, reorder: 1 %, h0: {delay: 0 s}",
    ),
    "ecn_is_a_number": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, ecn: 5"),
    "ecn_beyond_the_queue": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, queue: 64 kB, ecn: true"),
    "congestion_control_unknown": ("rate: 200 Mbit/s", "rate: 200 Mbit/s, congestion_control: cubik"),
    "lab_unknown": ("seed: 1", "seed: 1\nlab: netsn"),
    "docker_without_cpus": ("seed: 1", "seed: 1\ndocker: {cpus: 0}"),
    "docker_with_little_memory": ("seed: 1", "seed: 1\ndocker: {memory: 1 MiB}"),
    "docker_memory_without_unit": ("seed: 1", "seed: 1\ndocker: {memory: 1}"),
    "docker_unknown_key": ("seed: 1", "seed: 1\ndocker: {cpu: 2}"),
    "docker_for_text": ("seed: 1", "seed: 1\ndocker: mine"),
    "machines_for_text": ("seed: 1", "seed: 1\nmachines: {place: node1}"),
    "machines_number_for_a_name": ("seed: 1", "seed: 1\nmachines: {place: {h0: 1}}"),
    "machines_unknown_key": ("seed: 1", "seed: 1\nmachines: {places: {h0: node1}}"),
    "seed_negative": ("seed: 1", "seed: -1"),
    "name_is_a_path": ("name: small", "name: ../small"),
    "timeout_0": ("timeout: 20 s", "timeout: 0 s"),
    "failover_0": ("timeout: 20 s", "timeout: 20 s\nfailover: 0 s"),
    "failover_above_the_timeout": ("scheme: ring}\ntimeout: 20 s", "scheme: rina}\ntimeout: 20 s\nfailover: 30 s"),
    "failover_in_an_iteration": ("scheme: ring}\ntimeout: 20 s", "scheme: rina}\ntimeout: 20 s\nfailover: 30 ms"),
    "failover_that_no_scheme_takes": ("timeout: 20 s", "timeout: 20 s\nfailover: 3 s"),
    "chunk_cuts_a_float": ("compute: none", "compute: none\n  chunk: 1002 B"),
    "compute_unknown": ("compute: none", "compute: pased"),
    "scale_for_training": ("compute: none", "compute: none\n  scale: 10"),
    "overlap_both_for_training": ("compute: none", "compute: none\n  overlap: both"),
    "real_with_a_pace": ("compute: none", "compute: {mode: real, pace: {2: 0.1 s}}"),
    "paced_without_a_pace": ("compute: none", "compute: paced"),
    "pace_missing_for_a_batch": (
        "batch: [2]\n  iterations: 3\n  compute: none",
        "batch: [2, 4]\n  iterations: 3\n  compute: {mode: paced, pace: {2: 0.1 s}}",
    ),
    "synchronisation_above_the_timeout": ("200 Mbit/s", "1 Mbit/s"),
    "one_worker": ("hosts=3), scheme: ring", "hosts=1), scheme: ring"),
    "pace_without_a_batch": ("compute: none", "compute: {mode: paced, pace: 0.3 s}"),
    "pace_by_a_word": ("compute: none", "compute: {mode: paced, pace: {mean: 0.3 s}}"),
    "pace_above_the_timeout": ("compute: none", "compute: {mode: paced, pace: {2: 30 s}}"),
    "model_unknown": ("model: lenet5", "model: lenet"),
    "dataset_unknown": ("dataset: digits", "dataset: digit"),
    "dataset_of_another_model": ("model: lenet5", "model: bert_tiny"),
    "topology_with_an_open_bracket": ("topology: star(hosts=3), scheme: ps", "topology: star(hosts=3, scheme: ps"),
    "topology_unreadable": ("topology: star(hosts=3), scheme: ps", "topology: star(3), scheme: ps"),
    "topology_unknown": ("topology: star(hosts=3), scheme: ps", "topology: stra(hosts=3), scheme: ps"),
    "bcube_k_0": ("topology: star(hosts=3), scheme: ps", 'topology: "bcube(n=3,k=0)", scheme: ps'),
    "scheme_unknown": ("scheme: ring", "scheme: rign"),
    "scheme_unknown_parameter": ("scheme: ring", "scheme: ring(depth=2)"),
    "library_with_an_unknown_algorithm": ("scheme: ring", "scheme: openmpi(algorithm=rign)"),
    "library_on_hosts_with_several_nics": ("star(hosts=3), scheme: ring", '"bcube(n=3,k=2)", scheme: gloo'),
    **{
        f"every_nic_of_{name}": (
            "star(hosts=3), scheme: ring",
            f'"star(hosts=3,server_nics=2,routing=every_nic)", scheme: {scheme}',
        )
        for name, scheme in {"a_library": "gloo", "a_scheduler": "mlfabric_s"}.items()
    },
    "every_nic_of_one_connection": (
        "compute: none\narms:",
        'compute: real\narms:\n  - {topology: "star(hosts=3,server_nics=2,routing=every_nic)", scheme: async_ps}',
    ),
    "segmented_ring_without_segments": ("scheme: ring", "scheme: openmpi(algorithm=segmented_ring)"),
    "asynchronous_that_computes_once": ("scheme: ring", "scheme: async_ps"),
    "asynchronous_steps": (
        "compute: none\narms:",
        "compute: real\nperturb: [{kind: jitter, of: step, sigma: 1 ms}]\narms:\n"
        "  - {topology: star(hosts=3), scheme: ssp}",
    ),
    "asynchronous_circuits": (
        "compute: none\narms:",
        "compute: real\narms:\n  - {topology: 'patch_panel(servers=4,degree=2)', scheme: async_ps, "
        "perturb: [{kind: circuits, at: 1 s, rings: [3]}]}",
    ),
    "asynchronous_failover": ("compute: none", "compute: real\nfailover: 3 s"),
    "asynchronous_command": (TRAIN, "  kind: command\n  command: python train.py\n"),
    "asynchronous_servers_beyond_hosts": ("scheme: ring", "scheme: async_ps(servers=3)"),
    "asynchronous_replicas_beyond_hosts": ("scheme: ring", "scheme: 'async_ps(servers=2,replication=chain)'"),
    "asynchronous_replicas_without_hosts": (
        "star(hosts=3), scheme: ring",
        "star(hosts=2), scheme: ssp(replication=chain)",
    ),
    "asynchronous_replication_unknown": ("scheme: ring", "scheme: async_ps(replication=tree)"),
    "asynchronous_servers_below_one": ("scheme: ring", "scheme: 'ssp(staleness=1,servers=0)'"),
    "fabric_that_computes_once": ("star(hosts=3), scheme: ring", "star(hosts=4), scheme: mlfabric_a"),
    "fabric_sync_that_computes_once": ("star(hosts=3), scheme: ring", "star(hosts=4), scheme: mlfabric_s"),
    "pbox_that_computes_once": ("star(hosts=3), scheme: ring", "star(hosts=4), scheme: pbox"),
    "fabric_with_a_delay_bound_of_0": ("scheme: ring", "scheme: mlfabric_a(delay_bound=0)"),
    "fabric_with_too_many_aggregators": ("scheme: ring", "scheme: mlfabric_a(aggregators=3)"),
    "fabric_with_too_many_servers": ("star(hosts=3), scheme: ring", "star(hosts=4), scheme: mlfabric_a(servers=3)"),
    "fabric_replica_of_several_servers": (
        "star(hosts=3), scheme: ring",
        "star(hosts=5), scheme: 'mlfabric_a(servers=2,divergence_bound=9)'",
    ),
    "fabric_divergence_without_replica": ("scheme: ring", "scheme: 'mlfabric_a(replica_aggregators=1)'"),
    "fabric_with_too_many_aggregators_of_the_replica": (
        "star(hosts=3), scheme: ring",
        "star(hosts=4), scheme: 'mlfabric_a(aggregators=1,divergence_bound=9,replica_aggregators=1)'",
    ),
    "fabric_replica_on_too_few_hosts": ("scheme: ring", "scheme: mlfabric_a(divergence_bound=9)"),
    "fabric_divergence_of_0": ("star(hosts=3), scheme: ring", "star(hosts=4), scheme: mlfabric_a(divergence_bound=0)"),
    "fabric_divergence_of_no_updates": (
        "star(hosts=3), scheme: ring",
        "star(hosts=4), scheme: mlfabric_a(divergence_updates=0)",
    ),
    "fabric_divergence_bounded_twice": (
        "star(hosts=3), scheme: ring",
        "star(hosts=4), scheme: 'mlfabric_a(divergence_bound=9,divergence_updates=9)'",
    ),
    "fabric_on_too_few_hosts": ("star(hosts=3), scheme: ring", "star(hosts=2), scheme: mlfabric_a"),
    "fabric_window_negative": ("scheme: ring", "scheme: mlfabric_a(window=-0.1)"),
    "fabric_with_c_of_0": ("star(hosts=3), scheme: ring", "star(hosts=4), scheme: mlfabric_a(c=0)"),
    "fabric_staleness_negative": ("star(hosts=3), scheme: ring", "star(hosts=4), scheme: mlfabric_ssp(staleness=-1)"),
    "fabric_with_several_paths": ("star(hosts=3), scheme: ring", '"fat_tree(k=4,routing=ecmp)", scheme: mlfabric_a'),
    "checkpoint_every_0": (RING, RING + ", checkpoint: {every: 0, rate: 180 MB/s}"),
    "checkpoint_rate_of_a_link": (RING, RING + ", checkpoint: {every: 2, rate: 180 Mbit/s}"),
    "checkpoint_spread_beyond_workers": (RING, RING + ", checkpoint: {every: 2, rate: 180 MB/s, spread: 4}"),
    "checkpoint_beyond_the_timeout": (RING, RING + ", checkpoint: {every: 2, rate: 300 kB/s}"),
    "checkpoint_of_an_arm_twice": (RING, RING + "}\n  - {" + RING),
    "jobs_beside_a_scheme": (RING, f"{RING}, {_jobs('{name: a, scheme: ring, hosts: 2}')}"),
    "service_that_is_not_there": (RING, _on_star("{name: a, scheme: service, hosts: 2}")),
    "service_beside_a_scheme": (RING, f"{RING}, service: pbox"),
    "service_without_a_job": (RING, _on_star("{name: a, scheme: ring, hosts: 2}") + ", service: pbox"),
    "service_that_is_named": (RING, _on_star("{name: a, scheme: service, hosts: [h0, h2]}") + ", service: pbox"),
    "service_that_leaves_too_few": (RING, _on_star("{name: a, scheme: service, hosts: 3}") + ", service: pbox"),
    "service_that_leaves_none": (
        RING,
        "topology: star(hosts=1), service: pbox, jobs: [{name: a, scheme: service, hosts: 2}]",
    ),
    "service_that_leaves_one_worker": (RING, _on_star("{name: a, scheme: service, hosts: 1}") + ", service: pbox"),
    "service_without_a_box": (
        RING,
        _on_star("{name: a, scheme: service, hosts: 2}") + ", service: pbox(colocated=true)",
    ),
    "service_that_is_a_ring": (RING, _on_star("{name: a, scheme: service, hosts: 2}") + ", service: ring"),
    "jobs_of_a_program": (
        TRAIN + f"arms:\n  - {{label: PS, topology: star(hosts=3), scheme: ps}}\n  - {{label: ring, {RING}}}",
        f"  kind: command\n  command: python train.py\narms:\n  - {{{_on_star('{name: a, scheme: ring, hosts: 2}')}}}",
    ),
    "jobs_with_a_checkpoint": (
        RING,
        _on_star("{name: a, scheme: ring, hosts: 2}") + ", checkpoint: {every: 2, rate: 1 MB/s}",
    ),
    "job_without_hosts": (RING, _on_star("{name: a, scheme: ring}")),
    "job_hosts_0": (RING, _on_star("{name: a, scheme: ring, hosts: 0}")),
    "job_hosts_1": (RING, _on_star("{name: a, scheme: ring, hosts: 1}")),
    "job_hosts_empty": (RING, _on_star("{name: a, scheme: ring, hosts: []}")),
    "job_hosts_text": (RING, _on_star("{name: a, scheme: ring, hosts: all}")),
    "job_hosts_unknown": (RING, _on_star("{name: a, scheme: ring, hosts: [h0, h9]}")),
    "job_hosts_twice": (RING, _on_star("{name: a, scheme: ring, hosts: [h0, h0]}")),
    "job_hosts_a_switch": (RING, _on_star("{name: a, scheme: ring, hosts: [h0, s0]}")),
    "job_hosts_of_another": (
        RING,
        _on_star("{name: a, scheme: ring, hosts: [h0, h1]}, {name: b, scheme: ring, hosts: [h1, h2]}"),
    ),
    "job_hosts_beyond_the_network": (RING, _on_star("{name: a, scheme: ring, hosts: 4}")),
    "job_hosts_beyond_what_is_left": (
        RING,
        _on_star("{name: a, scheme: ring, hosts: [h0, h1]}, {name: b, scheme: ring, hosts: 2}"),
    ),
    "job_names_twice": (
        RING,
        _on_star("{name: a-1, scheme: ring, hosts: 2}, {name: a, scheme: ring, hosts: 2, copies: 2}"),
    ),
    "job_name_with_a_slash": (RING, _on_star("{name: a/b, scheme: ring, hosts: 2}")),
    "job_start_negative": (RING, _on_star("{name: a, scheme: ring, hosts: 2, start: -1 s}")),
    "job_start_without_unit": (RING, _on_star("{name: a, scheme: ring, hosts: 2, start: 3}")),
    "job_copies_0": (RING, _on_star("{name: a, scheme: ring, hosts: 2, copies: 0}")),
    "job_copies_beyond": (
        RING,
        _on_star("{name: a, scheme: ring, hosts: 2, copies: 60}, {name: b, scheme: ps, hosts: 2, copies: 60}"),
    ),
    "job_scheme_unknown": (RING, _on_star("{name: a, scheme: rign, hosts: 2}")),
    "order_twice": (RING, f"{RING}, order: [h0, h0, h1]"),
    "order_of_an_unknown_host": (RING, f"{RING}, order: [h0, h1, h7]"),
    "order_without_a_host": (RING, f"{RING}, order: [h0, h2]"),
    "order_of_bml": (RING, 'topology: "bcube(n=3,k=2)", scheme: bml, order: random(1)'),
    "order_of_ps": ("scheme: ps}", "scheme: ps, order: [h2, h1, h0]}"),
    "order_and_jobs": (RING, _on_star("{name: a, scheme: ring, hosts: 2}") + ", order: random(1)"),
    "order_best_of_ps": ("scheme: ps}", "scheme: ps, order: best}"),
    "order_best_of_a_tree": (RING, "topology: star(hosts=3), scheme: tree, order: percentile(30)"),
    "order_percentile_130": (RING, f"{RING}, order: percentile(130)"),
    "order_halving_of_12": (RING, "topology: star(hosts=12), scheme: halving_doubling, order: best"),
    "order_of_an_unknown_cost": (RING, f'{RING}, order: "best(cost=rign)"'),
    "order_of_an_unknown_model": (RING, f'{RING}, order: "worst(model=cubic)"'),
    "order_best_and_probed_groups": (
        RING,
        'topology: star(hosts=4), scheme: "two_level(groups=probed)", order: "best(cost=ring)"',
    ),
    "order_unknown": (RING, f"{RING}, order: radnom(1)"),
    "order_without_a_draw": (RING, f"{RING}, order: random"),
    "order_that_is_a_number": (RING, f"{RING}, order: 3"),
    "job_scheme_of_a_library": (RING, _on_star("{name: a, scheme: gloo, hosts: 2}")),
    "job_scheme_that_is_asynchronous": (RING, _on_star("{name: a, scheme: async_ps, hosts: 3}")),
    "job_model_unknown": (RING, _on_star("{name: a, scheme: ring, hosts: 2, model: lenet9}")),
    "job_batch_beside_several": (
        SPEC[SPEC.index("batch: [2]") : SPEC.index(RING) + len(RING)],
        "batch: [2, 4]\n  iterations: 3\n  compute: none\narms:\n  - {label: ring, "
        + _on_star("{name: a, scheme: ring, hosts: 2, batch: 8}"),
    ),
    "jobs_with_a_strategy": (RING, _on_star("{name: a, scheme: ring, hosts: 2}") + ", strategy: data"),
    "job_searching_a_strategy": (RING, _on_star("{name: a, scheme: ring, hosts: 2, strategy: search(steps=9)}")),
    "job_strategy_of_no_model": (RING, _on_star("{name: a, scheme: ring, hosts: 2, strategy: data}")),
    "job_circuits_without_panels": (RING, _on_star("{name: a, scheme: ring, hosts: 2, rings: [1]}")),
    "job_ring_that_misses_hosts": (
        RING,
        _on_star("{name: a, scheme: ring, hosts: 4, rings: [2]}").replace(
            "star(hosts=3)", "'patch_panel(servers=4,degree=2,rings=[1])'"
        ),
    ),
    "job_circuits_on_different_panels": (
        RING,
        _on_star(
            "{name: a, scheme: ring, hosts: 2, circuits: [[0-1]]}, {name: b, scheme: ring, hosts: 4, rings: [1]}"
        ).replace("star(hosts=3)", "'patch_panel(servers=4,degree=2,rings=[1],look_ahead=true)'"),
    ),
    "jobs_that_cross_on_panels": (
        RING,
        _on_star("{name: a, scheme: ring, hosts: [h0, h2]}, {name: b, scheme: ring, hosts: [h1, h3]}").replace(
            "star(hosts=3)", "'patch_panel(servers=4,degree=2,rings=[1])'"
        ),
    ),
    "jobs_with_circuits_that_move": (
        RING,
        _on_star("{name: a, scheme: ring, hosts: [h0, h1]}").replace(
            "star(hosts=3)", "'patch_panel(servers=4,degree=2,rings=[1])'"
        )
        + ", perturb: [{kind: circuits, at: 1 s, rings: [1]}]",
    ),
    "jobs_with_a_moment_of_an_iteration": (
        RING,
        _on_star("{name: a, scheme: ring, hosts: 2}")
        + ", perturb: [{kind: rate, links: h0, rate: 50 Mbit/s, at: iteration 2}]",
    ),
    "jobs_that_leave_one_host_to_interference": (
        RING,
        _on_star("{name: a, scheme: ring, hosts: 2}") + ", perturb: [{kind: interference}]",
    ),
    "jobs_that_share_a_connection": (
        RING,
        _on_star("{name: a, scheme: atp, hosts: [h0, h2]}, {name: b, scheme: atp, hosts: [h1, h3]}").replace(
            "star(hosts=3)", "'spine_leaf(racks=2,hosts_per_rack=2,spines=1,ina=all)'"
        ),
    ),
    "ssp_staleness_negative": ("scheme: ring", "scheme: ssp(staleness=-1)"),
    "arm_without_scheme": ("star(hosts=3), scheme: ring", "star(hosts=3)"),
    "command_not_found": (TRAIN, "  kind: command\n  command: pyhton train.py\n"),
    "command_not_in_the_directory": (TRAIN, "  kind: command\n  command: ./train.sh\n"),
    "command_empty": (TRAIN, "  kind: command\n  command: ''\n"),
    "command_word_of_yaml": (TRAIN, "  kind: command\n  command: no\n"),
    "command_empty_list": (TRAIN, "  kind: command\n  command: []\n"),
    "command_empty_word": (TRAIN, "  kind: command\n  command: ['']\n"),
    "command_with_a_python_in_containers": (
        TRAIN,
        "  kind: command\n  command: python -c pass\n  python: /opt/venv/bin/python\nlab: docker\n",
    ),
    "command_without_an_end": (TRAIN, "  kind: command\n  command: python -c 'print(1)\n"),
    "command_is_a_number": (TRAIN, "  kind: command\n  command: 7\n"),
    "command_on_hosts_with_several_nics": (
        TRAIN,
        "  kind: command\n  command: python wrong.py\n",
    ),
    "command_on_every_nic": (TRAIN, "  kind: command\n  command: python wrong.py\n"),
    "command_with_jobs": (
        f"{TRAIN}arms:\n  - {{label: PS, topology: star(hosts=3), scheme: ps}}",
        f"  kind: command\n  command: python train.py\narms:\n  - {{{_on_star('{name: a, hosts: 3, scheme: ring}')}}}",
    ),
    "command_inputs_not_there": (
        TRAIN,
        "  kind: command\n  command: python wrong.py\n  inputs: [wrong.py, modle.py]\n",
    ),
    "command_inputs_like_none": (TRAIN, "  kind: command\n  command: python wrong.py\n  inputs: 'lib/**/*.py'\n"),
    "command_inputs_without_a_name": (TRAIN, "  kind: command\n  command: python train.py\n  inputs: ['']\n"),
    "command_outputs_above": (TRAIN, "  kind: command\n  command: python train.py\n  outputs: [a/../../x]\n"),
    "command_outputs_absolute": (TRAIN, "  kind: command\n  command: python train.py\n  outputs: [/tmp/x]\n"),
    "command_outputs_empty": (TRAIN, "  kind: command\n  command: python train.py\n  outputs: []\n"),
    "command_outputs_all": (TRAIN, "  kind: command\n  command: python train.py\n  outputs: [./]\n"),
    "command_outputs_is_a_mapping": (TRAIN, "  kind: command\n  command: python train.py\n  outputs: {a: b}\n"),
    "outputs_without_a_command": (TRAIN, f"{TRAIN}  outputs: [checkpoints/]\n"),
    "command_with_a_batch": (TRAIN, "  kind: command\n  command: python train.py\n  batch: 16\n"),
    "scheme_on_a_wrong_topology": ("scheme: ring", "scheme: bml"),
    "two_level_alpha": ("scheme: ring", "scheme: two_level(alpha=3)"),
    "two_level_elasticity": ("scheme: ring", "scheme: two_level(elasticity=0.5)"),
    "two_level_too_many_groups": (RING, 'topology: star(hosts=16), scheme: "two_level(groups=random,k=20)"'),
    "two_level_truth_of_no_cloud": (RING, 'topology: star(hosts=16), scheme: "two_level(groups=truth)"'),
    "two_level_setting_without_a_use": ("scheme: ring", "scheme: two_level(k=2)"),
    "two_level_groups_of_another_form": ("scheme: ring", 'scheme: "two_level(groups=[h0,h1,h2])"'),
    "two_level_groups_of_unknown_hosts": ("scheme: ring", 'scheme: "two_level(groups=[[h0,h1],[h3]])"'),
    "two_level_classes_negative": ("scheme: ring", "scheme: two_level(classes=-1)"),
    "two_level_tuned_with_jobs": (
        RING,
        _on_star('{name: a, scheme: "two_level(groups=[[0,1]],tune=true)", hosts: 2}'),
    ),
    "two_level_tuned_with_jitter": (
        "label: ring, topology: star(hosts=3), scheme: ring",
        'label: ring, topology: star(hosts=3), scheme: "two_level(groups=[[0,1,2]],tune=true)", '
        "perturb: [{kind: jitter, sigma: 5 ms, of: step}]",
    ),
    "scheme_file_missing": ("scheme: ring", "scheme: ./mine.py:my_scheme"),
    "scheme_that_is_wrong": ("scheme: ring", "scheme: ./wrong.py:forgets_one"),
    "more_classes_than_floats": ("scheme: ring", "scheme: ./wrong.py:too_many"),
    "arms_the_same": ("{label: ring, topology: star(hosts=3), scheme: ring}", "{topology: star(hosts=3), scheme: ps}"),
    "arms_the_same_at_one_rate": (
        "{label: ring, topology: star(hosts=3), scheme: ring}",
        "{topology: star(hosts=3), scheme: ps, rate: 200 Mbit/s}",
    ),
    "arm_rate_too_high": ("label: ring,", "label: ring, rate: 100000 Gbit/s,"),
    "arm_rate_without_unit": ("label: ring,", "label: ring, rate: 100,"),
    "label_of_two_lines": ("label: ring", 'label: "ring\\nPS"'),
    "label_with_an_escape": ("label: ring", 'label: "\\e[31mring\\a"'),
    "label_that_turns_what_follows": ("label: ring", 'label: "\\u202egnir"'),
    "scheme_with_an_escape": ("scheme: ring", 'scheme: "\\e[31mring"'),
    "labels_the_same": ("label: ring", "label: PS"),
    "several_arms_wrong": ("star(hosts=3)", "star(hosts=0)"),
    "key_twice": ("seed: 1", "seed: 1\nseed: 2"),
    "panel_parallel_circuits_of_a_scheduler": (
        "compute: none\narms:",
        "compute: real\narms:\n  - {topology: 'patch_panel(servers=4,degree=4,rings=[1,1])', "
        "scheme: mlfabric_a(delay_bound=3)}",
    ),
    "panel_parallel_circuits_of_one_connection": (
        "compute: none\narms:",
        "compute: real\narms:\n  - {topology: 'patch_panel(servers=4,degree=4,rings=[1,1])', scheme: async_ps}",
    ),
    **{
        f"panel_{name}": (
            "topology: star(hosts=3), scheme: ring",
            f'topology: "patch_panel({network})", scheme: ring{more}',
        )
        for name, network, more in (
            ("ring_without_ports", "servers=6,degree=2,rings=[1,[0,2,4,1,3,5]]", ""),
            ("port_used_twice", "servers=4,degree=1,circuits=[[0-1,1-2]]", ""),
            ("server_unreachable", "servers=4,degree=1,circuits=[[0-1,2-3]]", ""),
            ("moved_apart", "servers=4,degree=2", ", perturb: [{kind: circuits, at: 1 s, circuits: [[0-1, 2-3]]}]"),
            ("flip_into_the_dark", "servers=4,degree=2,look_ahead=true", ", perturb: [{kind: circuits, flip: all}]"),
            ("flip_without_look_ahead", "servers=4,degree=2", ", perturb: [{kind: circuits, flip: all}]"),
            ("moved_nowhere", "servers=4,degree=2", ", perturb: [{kind: circuits, at: 1 s}]"),
            ("moved_to_no_ring", "servers=4,degree=2", ", perturb: [{kind: circuits, rings: [2]}]"),
        )
    },
    "panel_on_a_star": ("seed: 1", "seed: 1\nperturb: [{kind: circuits, rings: [1]}]"),
    **{
        f"sweep_{name}": ("200 Mbit/s", given)
        for name, given in {
            "value_without_unit": "[100 Mbit/s, 200]",
            "nothing": "[]",
            "value_twice": "[1 Gbit/s, 1000 Mbit/s]",
            "list_in_a_list": "[[1 Mbit/s]]",
            "range_backwards": "200..100 Mbit/s",
            "range_unreadable": "100 Mbit/s..200 Mbit/s",
            "range_that_never_ends": "1..1000000 Mbit/s",
            "range_of_other_units": "1..3 MB",
            "rate_that_cannot_be": "[200 Mbit/s, 99 Gbit/s]",
        }.items()
    },
    **{
        f"sweep_{name}": ("star(hosts=3), scheme: ring", given)
        for name, given in {
            "hosts_twice": "'star(hosts=[2,2])', scheme: ring",
            "hosts_too_few": "'star(hosts=1..2)', scheme: ring",
            "unknown_parameter": "star(hosts=3), scheme: 'ring(depth=[1,2])'",
        }.items()
    },
    **{
        f"where_{name}": ("200 Mbit/s}", f"[100 Mbit/s, 200 Mbit/s]}}\nwhere: {given}")
        for name, given in {
            "unknown_name": "rat > 100 Mbit/s",
            "unreadable": "[rate > , rate < 3]",
            "code": "__import__('os').system('id') == 0",
            "text_without_quotes": "label == ring",
            "of_other_types": "rate > 'fast'",
            "leaves_nothing": "rate > 1 Gbit/s",
            "is_a_number": "3",
        }.items()
    },
    **{
        f"until_{name}": ("seed: 1", f"seed: 1\nrepeats: {given}")
        for name, given in {
            "without_a_limit": "{most: 5}",
            "0": "{until: 0 %}",
            "least_above_most": "{until: 3 %, least: 9, most: 4}",
            "unknown_key": "{until: 3 %, mots: 5}",
            "misspelt": "{untill: 3 %}",
            "text": "until 3 %",
        }.items()
    },
    "sweep_of_names": ("name: small", "name: [a, b]"),
    "sweep_of_labs": ("seed: 1", "seed: 1\nlab: [netns, mininet]"),
    "sweep_too_large": ("seed: 1", "seed: 1..1000\nrepeats: 9"),
    "sweep_far_too_large": ("seed: 1", "seed: 1..1000\nstart_timeout: 20..99 s"),
    "expression_with_brackets_in_braces": (
        "topology: star(hosts=3), scheme: ring",
        "topology: star(hosts=3), scheme: multi_ring(strides=[1,2])",
    ),
    "expression_with_a_comma_in_braces": (
        "topology: star(hosts=3), scheme: ring",
        "topology: bcube(n=3,k=2), scheme: ring",
    ),
    "alias": ("seed: 1", "seed: &s 1\nrepeats: *s"),
    "python_tag": ("seed: 1", "seed: !!python/object/apply:os.getpid []"),
    "month_13": ("name: small", "name: 2024-13-45"),
    "empty_group": ("links: {rate: 200 Mbit/s}", "links:"),
    "empty_value": ("200 Mbit/s", ""),
    "many_mistakes": ("name: small", "\n".join(f"user{i}: x" for i in range(20))),
    "batch_huge": ("batch: [2]", "batch: [10000000]"),
    **{
        f"fabric_kills_a_server_with_a_checkpoint_{name}": (
            "compute: none\narms:\n",
            f"compute: {{mode: paced, pace: {{2: 0.1 s}}}}\narms:\n  - topology: star(hosts=6)\n    scheme: {scheme}\n"
            f"    checkpoint: {{every: 4, rate: 1 GB/s}}\n    perturb: [{{kind: kill, nodes: [{nodes}], at: 1 s}}]\n",
        )
        for name, scheme, nodes in (
            ("of_several", "mlfabric_a(servers=2)", "h3"),
            ("and_a_worker", "mlfabric_a", "h4, h0"),
        )
    },
    "not_yaml": ("links: {rate", "links: {{rate"),
    "yaml_tab": ("  iterations: 3", "\titerations: 3"),
    "yaml_indented_less": ("  iterations: 3", " iterations: 3"),
    "yaml_indented_more": ("  iterations: 3", "   iterations: 3"),
    "yaml_list_and_keys": ("  - {label: PS", "  label: PS\n  - {label: PS"),
    "yaml_entries_indented_unlike": ("  - {label: PS", "- {label: PS"),
    "yaml_colon_in_text": ("name: small", "name: small: 2"),
    "yaml_text_after_a_quote": ("name: small", "name: 'it's'"),
    "yaml_quote_open": ("label: PS", "label: 'PS"),
    "yaml_value_with_at": ("name: small", "name: @small"),
    "yaml_no_comma": ("label: PS,", "label: PS"),
    "yaml_bracket_open": ("seed: 1", "labels: {seed: 1\nname: second"),
    "yaml_key_without_colon": ("seed: 1", "seed 1\nlab: netns"),
    "yaml_second_document": ("seed: 1", "---\nseed: 1"),
    "yaml_a_program": ("name: small", "import torch"),
    **{
        f"perturb_{name}": ("seed: 1", f"seed: 1\nperturb: [{given}]")
        for name, given in {
            "unknown_name": "C4",
            "range_downwards": "{kind: down, links: h9..h2, at: 1 s}",
            "range_of_one_end": "{kind: down, links: h0..29, at: 1 s}",
            "range_too_long": "{kind: down, links: h0..h9999, at: 1 s}",
            "range_of_no_hosts": "{kind: down, links: h1..h4, at: 1 s}",
            "name_with_a_tab": '{kind: freeze, hosts: h0, name: "to\\tfreeze"}',
            "unknown_kind": "{kind: stragle, probability: 10 %}",
            "without_kind": "{probability: 10 %}",
            "missing_key": "{kind: rates}",
            "key_of_another": "{kind: down, links: h0, probability: 10 %}",
            "share_above_the_whole": "{kind: straggle, probability: 120 %, slowdown: 2}",
            "slowdown_below_1": "{kind: slow, workers: h0, slowdown: 0.5}",
            "slow_where_nothing_takes_time": "C1",
            "unknown_host": "{kind: freeze, hosts: h9}",
            "unknown_nic": "{kind: down, links: 'h0:eth7'}",
            "switch_for_a_host": "{kind: hog, hosts: s0}",
            "ends_before_it_begins": "{kind: down, links: h0, at: 3 s, until: 2 s}",
            "moment_unreadable": "{kind: kill, nodes: h0, at: soon}",
            "iteration_that_never_comes": "{kind: kill, nodes: h0, at: iteration 9}",
            "rate_above_the_links": "{kind: rate, links: h0, rate: 1 Gbit/s}",
            "rate_and_share": "{kind: rate, links: h0, rate: 1 Mbit/s, share: 10 %}",
            "chances_that_miss_1": "{kind: rates, shares: {10 %: 0.5, 100 %: 0.4}}",
            "loss_without_percent": "{kind: impair, links: h0, loss: 1}",
            "impairs_nothing": "{kind: impair, links: h0}",
            "reorder_without_delay": "{kind: impair, links: h0, reorder: 1 %}",
            "flow_to_itself": "{kind: background, from: h0, to: h0}",
            "interference_without_jobs": "{kind: interference}",
            "interference_of_no_flow": "{kind: interference, flows: 0}",
            "interference_that_is_too_short": "{kind: interference, mean_on: 10 ms}",
        }.items()
    },
}
"""What is replaced in a spec that is right, and by what."""

PROFILE_CHANGES: dict[str, tuple[str, str]] = {
    "profile_model_unknown": ("vgg19", "vg19"),
    "profile_model_that_only_trains": ("vgg19", "resnet8"),
    "profile_without_any_time": ("vgg19", "vgg16"),
    "profile_without_a_time_for_the_batch": ("batch: 32", "batch: [32, 64]"),
    "profile_computed_for_real": ("scale: 200", "scale: 200, compute: real"),
    "profile_with_a_learning_rate": ("scale: 200", "scale: 200, learning_rate: 0.1"),
    "profile_flops_without_unit": ("scale: 200", "scale: 200, compute: {flops: 10}"),
    "profile_flops_without_time": ("scale: 200", "scale: 200, compute: {mode: none, flops: 10 TFLOP/s}"),
    "scale_below_1": ("scale: 200", "scale: 0.5"),
    "scale_with_a_unit": ("scale: 200", "scale: 200 x"),
    "scale_too_small_for_the_rate": ("scale: 200", "scale: 1"),
    "scale_too_large_for_the_rate": ("40 Gbit/s", "1 Mbit/s"),
    "scale_that_leaves_fewer_floats_than_classes": (
        "40 Gbit/s}\nworkload: {kind: profile, model: vgg19, batch: 32, iterations: 3, scale: 200}",
        "40 Gbit/s}\nworkload: {kind: profile, model: lenet5, batch: 32, iterations: 3, scale: 1e+6, compute: none}",
    ),
    "bucket_bytes_without_overlap": ("scale: 200", "scale: 200, bucket_bytes: 25 MB"),
    "bucket_bytes_without_unit": ("scale: 200", "scale: 200, overlap: layer, bucket_bytes: 25"),
    "priority_without_overlap": ("scale: 200", "scale: 200, priority: layer"),
    "priority_where_switches_add": (
        "scale: 200}\narms:\n  - {topology: star(hosts=5), scheme: ring}",
        "scale: 200, overlap: layer, priority: layer}\narms:\n"
        "  - {topology: 'star(hosts=5,ina=all)', scheme: switchml}",
    ),
    "overlap_both_where_a_library_sends": (
        "scale: 200}\narms:\n  - {topology: star(hosts=5), scheme: ring}",
        "scale: 200, overlap: both}\narms:\n  - {topology: star(hosts=5), scheme: gloo}",
    ),
    "scale_too_coarse": (
        "{topology: star(hosts=5), scheme: ring}",
        "{topology: 'star(hosts=5,ina=all)', scheme: rina(scale=0.01)}",
    ),
    "scale_too_fine": (
        "{topology: star(hosts=5), scheme: ring}",
        "{topology: 'star(hosts=5,ina=all)', scheme: atp(scale=1e9)}",
    ),
    "asynchronous_overlap": (
        "scale: 200}\narms:",
        "scale: 200, overlap: layer}\narms:\n  - {topology: star(hosts=5), scheme: ssp}",
    ),
    "fabric_overlap": (
        "scale: 200}\narms:",
        "scale: 200, overlap: layer}\narms:\n  - {topology: star(hosts=5), scheme: mlfabric_a}",
    ),
    **{
        f"fabric_profile_that_computes_nothing_{scheme}": (
            "scale: 200}\narms:",
            f"scale: 200, compute: none}}\narms:\n  - {{topology: star(hosts=5), scheme: mlfabric_{scheme}}}",
        )
        for scheme in ("a", "ssp", "s")
    },
    "fabric_failover_of_several_servers": (
        "scale: 200}\narms:\n  - {topology: star(hosts=5), scheme: ring}",
        "scale: 200}\nfailover: 2 s\narms:\n  - {topology: star(hosts=5), scheme: mlfabric_a(servers=2)}",
    ),
    "fabric_sync_failover": (
        "scale: 200}\narms:\n  - {topology: star(hosts=5), scheme: ring}",
        "scale: 200}\nfailover: 2 s\narms:\n  - {topology: star(hosts=5), scheme: mlfabric_s}",
    ),
    "fabric_sync_overlap": (
        "scale: 200}\narms:",
        "scale: 200, overlap: both}\narms:\n  - {topology: star(hosts=5), scheme: mlfabric_s}",
    ),
    **{
        f"simulator_{name}": (PROFILE[: PROFILE.index("retries")], f"name: played\nlab: simulator\n{text}\n")
        for name, text in {
            "command": f"{FAST}\nworkload: {{kind: command, command: sleep 1}}\narms: [{{topology: star(hosts=5)}}]",
            "compute_real": f"{FAST}\nworkload: {{model: lenet5, dataset: digits, batch: 2, iterations: 3}}\n{ARMS}",
            "trained": f"{FAST}\nworkload: {{model: lenet5, dataset: digits, batch: 2, iterations: 3, compute: none}}\n"
            f"{ARMS}",
            "loss": f"links: {{rate: 40 Gbit/s, loss: 1 %}}\n{PLAYED}\n{ARMS}",
            "kill": f"{FAST}\n{PLAYED}\nperturb: [{{kind: kill, nodes: [h1], at: 1 s}}]\n{ARMS}",
            "hog": f"{FAST}\n{PLAYED}\nperturb: [{{kind: hog, hosts: [h1]}}]\n{ARMS}",
            "impair_loss": f"{FAST}\n{PLAYED}\nperturb: [{{kind: impair, delay: 1 ms, loss: 1 %}}]\n{ARMS}",
            "reconfigure": f"{FAST}\nworkload: {{kind: profile, model: dlrm_dedicated, batch: 64, iterations: 3, "
            "scale: 100, compute: {pace: {64: 100 ms}}}\nperturb: [{kind: reconfigure}]\n"
            "arms: [{topology: 'patch_panel(servers=6,degree=2)', scheme: ring, strategy: data}]",
            "openmpi": f"{FAST}\n{PLAYED}\narms: [{{topology: star(hosts=5), scheme: openmpi}}]",
            "layers_of_a_box": f"{FAST}\n{PLAYED[:-1]}, overlap: layer}}\n"
            "arms: [{topology: star(hosts=5), scheme: pbox}]",
            "too_many_hosts": f"{FAST}\n{PLAYED}\narms: [{{topology: star(hosts=70000), scheme: ring}}]",
            "too_fast": f"links: {{rate: 200000 Gbit/s}}\n{PLAYED}\n{ARMS}",
            "too_many_messages": f"{FAST}\nworkload: {{kind: profile, model: vgg19, batch: 32, iterations: 3, "
            "chunk: 4 KiB}\narms: [{topology: star(hosts=1000), scheme: tree}]",
            "too_many_messages_of_jobs": f"{FAST}\nworkload: {{kind: profile, model: vgg19, batch: 32, iterations: 3, "
            "chunk: 4 KiB}\narms: [{topology: star(hosts=1000), jobs: ["
            "{name: a, scheme: tree, hosts: 250, copies: 4}]}]",
            "large_without_a_rotation": f"{FAST}\n{PLAYED}\narms: [{{topology: star(hosts=65536), "
            "scheme: halving_doubling}]",
            "large_with_a_slow_link": "links: {rate: 40 Gbit/s, h5-s0: {rate: 20 Gbit/s}}\n"
            f"{PLAYED}\narms: [{{topology: star(hosts=9000), scheme: ring}}]",
            "large_with_priority": f"{FAST}\n{PLAYED[:-1]}, overlap: layer, priority: layer}}\narms: ["
            "{topology: star(hosts=1500), scheme: ring}]",
            "large_with_stragglers": f"{FAST}\n{PLAYED[:-1]}, compute: {{mode: paced, pace: {{32: 1 s}}}}}}\nperturb: ["
            "{kind: straggle, probability: 0.1, slowdown: 2}]\narms: [{topology: star(hosts=1500), scheme: ring}]",
            "box_beside_trees": f"{FAST}\n{PLAYED}\narms: [{{topology: star(hosts=5), jobs: ["
            "{name: a, scheme: ring, hosts: 2}, {name: b, scheme: pbox, hosts: 3}]}]",
        }.items()
    },
    "fabric_sync_root": ("star(hosts=5), scheme: ring", "star(hosts=5), scheme: mlfabric_s(root=h0)"),
    "fabric_sync_root_of_one": ("star(hosts=5), scheme: ring", "star(hosts=2), scheme: mlfabric_s(root=random)"),
    "fabric_sync_root_aggregators": (
        "star(hosts=5), scheme: ring",
        "star(hosts=4), scheme: 'mlfabric_s(root=random,aggregators=4)'",
    ),
    "fabric_sync_root_servers": (
        "star(hosts=5), scheme: ring",
        "star(hosts=5), scheme: 'mlfabric_s(root=random,servers=2)'",
    ),
    "fabric_sync_root_replica": (
        "star(hosts=5), scheme: ring",
        "star(hosts=6), scheme: 'mlfabric_s(root=random,divergence_updates=4)'",
    ),
    "fabric_sync_switches": ("star(hosts=5), scheme: ring", "'star(hosts=5,ina=all)', scheme: mlfabric_s"),
    "fabric_rate_of_a_profile": ("scheme: ring", "scheme: mlfabric_a(rate=adaptive)"),
    "pbox_cuts_a_float": ("star(hosts=5), scheme: ring", "star(hosts=5), scheme: pbox(key_bytes=6)"),
    "pbox_without_cores": ("star(hosts=5), scheme: ring", "star(hosts=5), scheme: pbox(cores=0)"),
    "pbox_colocated_by_worker": ("scheme: ring", "scheme: 'pbox(colocated=true,affinity=worker)'"),
    "pbox_wide_by_worker": ("scheme: ring", "scheme: 'pbox(aggregation=wide,affinity=worker)'"),
    "pbox_of_one_rack": ("scheme: ring", "scheme: pbox(boxes=rack)"),
    "pbox_across_of_one_box": ("scheme: ring", "scheme: pbox(across=ring)"),
    "pbox_across_wide": ("scheme: ring", "scheme: 'pbox(boxes=rack,across=ps,aggregation=wide)'"),
    "pbox_across_by_worker": ("scheme: ring", "scheme: 'pbox(boxes=rack,across=ps,affinity=worker)'"),
    "pbox_of_racks_beside_workers": ("scheme: ring", "scheme: 'pbox(boxes=rack,colocated=true)'"),
    "pbox_of_one_host": ("star(hosts=5), scheme: ring", "star(hosts=1), scheme: pbox"),
    "service_of_several_boxes": (
        "star(hosts=5), scheme: ring",
        "'spine_leaf(racks=2,hosts_per_rack=3,spines=1)', service: pbox(boxes=rack), jobs: ["
        "{name: a, scheme: service, hosts: [h0, h3]}, {name: b, scheme: service, hosts: [h1, h4]}]",
    ),
    "service_of_jobs_that_begin_later": (
        "star(hosts=5), scheme: ring",
        "star(hosts=5), service: pbox, jobs: [{name: a, scheme: service, hosts: 2}, "
        "{name: b, scheme: service, hosts: 2, start: 2 s}]",
    ),
    "pbox_switches": ("star(hosts=5), scheme: ring", "'star(hosts=5,ina=all)', scheme: pbox"),
    "pbox_overlap": (
        "scale: 200}\narms:",
        "scale: 200, overlap: both}\narms:\n  - {topology: star(hosts=5), scheme: pbox}",
    ),
    "fabric_switches": ("star(hosts=5), scheme: ring", "'star(hosts=5,ina=all)', scheme: mlfabric_a"),
    "fabric_beyond_exact_sums": (
        "iterations: 3, scale: 200}\narms:\n  - {topology: star(hosts=5), scheme: ring}",
        "iterations: 700000, scale: 200}\narms:\n  - {topology: star(hosts=5), scheme: mlfabric_a}",
    ),
    "asynchronous_checkpoint_with_a_spread": (
        "star(hosts=5), scheme: ring",
        "star(hosts=5), scheme: async_ps, checkpoint: {every: 2, rate: 1 GB/s, spread: 2}",
    ),
    "checkpoint_before_the_forward_pass": (
        "iterations: 3, scale: 200}\narms:\n  - {topology: star(hosts=5), scheme: ring}",
        "iterations: 3, scale: 200, overlap: both}\narms:\n"
        "  - {topology: star(hosts=5), scheme: ring, checkpoint: {every: 2, rate: 1 GB/s}}",
    ),
    "fabric_checkpoint_with_a_spread": (
        "star(hosts=5), scheme: ring",
        "star(hosts=5), scheme: mlfabric_a, checkpoint: {every: 2, rate: 1 GB/s, spread: 2}",
    ),
    "fabric_checkpoint_longer_than_the_failover_time": (
        "star(hosts=5), scheme: ring}",
        "star(hosts=5), scheme: mlfabric_a, checkpoint: {every: 2, rate: 1 MB/s}}\nfailover: 0.2 s",
    ),
    "fabric_kills_a_server_with_a_checkpoint_of_a_profile": (
        "star(hosts=5), scheme: ring}",
        "star(hosts=5), scheme: mlfabric_a, checkpoint: {every: 2, rate: 1 GB/s}, perturb: [{kind: kill, nodes: [h3], "
        "at: 1 s}]}",
    ),
    "asynchronous_switches": ("star(hosts=5), scheme: ring", "'star(hosts=5,ina=all)', scheme: async_ps"),
    "asynchronous_beyond_exact_sums": (
        "iterations: 3, scale: 200}\narms:\n  - {topology: star(hosts=5), scheme: ring}",
        "iterations: 600000, scale: 200}\narms:\n  - {topology: star(hosts=5), scheme: async_ps}",
    ),
    "profile_overlap_unknown": ("scale: 200", "scale: 200, overlap: forward"),
}
"""The same for a profile."""

WRONG = """
import dataclasses
import numpy as np
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest

def forest(topology, share, trees):
    names = tuple(node.name for node in topology.nodes)
    return Forest("mine", names, tuple(topology.hosts), np.array(share), np.array(trees, np.int32),
                  np.array([[ROOT, 0, 0, ABSENT]] * len(share), np.int32))

def forgets_one(topology, tensor_sizes):
    return forest(topology, [1], [[ROOT, 0, ABSENT, ABSENT]])

def other_nodes(topology, tensor_sizes):
    return dataclasses.replace(forgets_one(topology, tensor_sizes), nodes=("a", "b"))

def too_many(topology, tensor_sizes):
    classes = sum(tensor_sizes) + 1
    one = forest(topology, [1], [[ROOT, 0, 0, ABSENT]])
    trees = np.broadcast_to(one.reduce, (classes, 4))
    return dataclasses.replace(one, share=np.ones(classes, np.int64), reduce=trees, broadcast=trees)
"""


def check(name: str, called: Called) -> None:
    """Compare with the golden text; programs may read nothing on standard output but an error."""
    text = f"{called.err}exit code {called.code}\n".replace(str(Path.cwd()), "HERE")
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()
    assert called.out == "" or list(json.loads(called.out)) == ["error"]
    assert "Traceback" not in called.err


@pytest.mark.parametrize("name", CHANGES)
def test_a_spec_with_a_mistake(name: str, testbed: Callable[..., Called], spec_file: Path) -> None:
    old, new = CHANGES[name]
    assert old in SPEC
    text = SPEC.replace(old, new, 1 if name != "several_arms_wrong" else -1)
    if name in ("asynchronous_failover", "asynchronous_command"):
        text = text.replace("scheme: ps", "scheme: async_ps").replace("scheme: ring", "scheme: ssp")
    if name.startswith("command") and name != "command_with_jobs":
        text = text.replace(", scheme: ps", "").replace("star(hosts=3), scheme: ring", "star(hosts=4)")
    if name == "command_on_hosts_with_several_nics":
        text = text.replace("star(hosts=3)", '"bcube(n=3,k=2)"')
    if name == "command_on_every_nic":
        text = text.replace("star(hosts=3)", '"star(hosts=3,server_nics=2,routing=every_nic)"')
    if name == "uplink_above_the_emulated":
        text = text.replace("star(hosts=3)", '"spine_leaf(racks=2,hosts_per_rack=4,spines=1)"')
    spec_file.write_text(text)
    (spec_file.parent / "wrong.py").write_text(WRONG)
    called = testbed("plan", "spec.yaml")
    check(name, called)
    assert called.code == 2


@pytest.mark.parametrize("name", PROFILE_CHANGES)
def test_a_profile_with_a_mistake(name: str, testbed: Callable[..., Called], spec_file: Path) -> None:
    old, new = PROFILE_CHANGES[name]
    assert old in PROFILE
    spec_file.write_text(PROFILE.replace(old, new))
    called = testbed("plan", "spec.yaml")
    check(name, called)
    assert called.code == 2


HYBRID = """
name: hybrid
links: {rate: 100 Mbit/s}
workload: {kind: profile, model: dlrm_tiny, batch: 8, iterations: 4, scale: 10, compute: none}
arms:
  - {topology: star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}}
"""
HYBRID_CHANGES: dict[str, tuple[str, str]] = {
    "hybrid_operator_unknown": ("e1:", "e9:"),
    "hybrid_server_beyond": ("[1, 2]", "[1, 4]"),
    "hybrid_server_twice": ("[1, 2]", "[1, 1]"),
    "hybrid_server_no_number": ("[1, 2]", "[h1]"),
    "hybrid_holders_no_list": ("[1, 2]", "1"),
    "hybrid_no_holder": ("[1, 2]", "[]"),
    "hybrid_no_rest": (", rest: all", ""),
    "hybrid_strategy_no_mapping": ("{e0: [0], e1: [1, 2], rest: all}", "placed"),
    "hybrid_nothing_summed": ("e1: [1, 2], rest: all", "rest: [1]"),
    "hybrid_of_another_scheme": ("ring", "halving_doubling"),
    "hybrid_asynchronous": ("ring", "async_ps"),
    "hybrid_of_a_library": ("ring", "gloo"),
    "hybrid_of_switches": ("star(hosts=4), scheme: ring", '"star(hosts=4,ina=all)", scheme: switchml'),
    "hybrid_of_a_scheduler": ("ring", "mlfabric_a"),
    "hybrid_ring_with_members": ("scheme: ring", 'scheme: "ring(members=[[0,1],[2,3]])"'),
    "hybrid_multi_ring_of_nothing": ("ring", "multi_ring"),
    "hybrid_stride_not_coprime": ("scheme: ring", 'scheme: "multi_ring(strides=[2])"'),
    "hybrid_group_without_ring": ("scheme: ring", 'scheme: "multi_ring(permutations=[[0,2,1,3]])"'),
    "hybrid_ring_without_group": ("scheme: ring", 'scheme: "multi_ring(permutations=[[0,1,2]])"'),
    "hybrid_model_without_operators": ("dlrm_tiny", "resnet50"),
    "hybrid_of_a_command": (
        HYBRID[HYBRID.index("{kind") : HYBRID.index("strategy")],
        "{kind: command, command: echo}\narms:\n  - {topology: star(hosts=4), ",
    ),
    "hybrid_of_topics": (
        HYBRID[HYBRID.index("{kind") : HYBRID.index("\narms")],
        "{kind: lda, corpus: python_reference, topics: 10, iterations: 4}",
    ),
    "hybrid_search_without_a_network": (
        "topology: star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}",
        "scheme: ring, strategy: search(steps=10)",
    ),
    "hybrid_circuits_that_move": (
        "{topology: star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}}",
        "{topology: 'patch_panel(servers=4,degree=2,rings=[1])', scheme: ring, strategy: data, "
        "perturb: [{kind: circuits, at: 1 s, rings: [1]}]}",
    ),
    "hybrid_job_server_beyond": (
        "scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}",
        "jobs: [{name: a, scheme: ring, hosts: [h2, h3], strategy: {e0: [2], rest: all}}]",
    ),
    "hybrid_job_of_another_scheme": (
        "scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}",
        "jobs: [{name: a, scheme: ps, hosts: [h2, h3], strategy: data}]",
    ),
    "reconfigure_of_jobs": (
        "{topology: star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}}",
        "{topology: 'patch_panel(servers=4,degree=2,rings=[1])', perturb: [{kind: reconfigure}], "
        "jobs: [{name: a, scheme: ring, hosts: 4, strategy: data}]}",
    ),
    "hybrid_overlap": ("compute: none", "compute: none, overlap: layer"),
    "hybrid_beyond_memory": ("scheme: ring,", "scheme: ring, memory: 5 MB,"),
    "hybrid_beyond_40_gb": (
        HYBRID[HYBRID.index("dlrm_tiny") :],
        "dlrm, batch: 8192, iterations: 4, scale: 1000, compute: {flops: 10 TFLOP/s}}\n"
        "arms:\n  - {topology: star(hosts=16), scheme: ring, rate: 100 Gbit/s, strategy: data}\n",
    ),
    "hybrid_memory_without_strategy": (
        "strategy: {e0: [0], e1: [1, 2], rest: all}",
        "memory: 5 GB",
    ),
    "hybrid_cut_without_strategy": ("strategy: {e0: [0], e1: [1, 2], rest: all}", "cut: 4"),
    "hybrid_cut_uneven": ("{e0: [0], e1: [1, 2], rest: all}", "data, cut: 5"),
    "hybrid_cut_unknown_part": ("{e0: [0], e1: [1, 2], rest: all}", "{e0: [0], rest: all}, cut: 4"),
    "hybrid_memory_without_unit": ("scheme: ring,", "scheme: ring, memory: 5,"),
    "hybrid_search_beyond_memory": ("{e0: [0], e1: [1, 2], rest: all}", "search(steps=10), memory: 1 MB"),
    "hybrid_search_too_long": ("{e0: [0], e1: [1, 2], rest: all}", "search(steps=2000000)"),
    "hybrid_search_seed_negative": ("{e0: [0], e1: [1, 2], rest: all}", "'search(steps=10,seed=-1)'"),
    "hybrid_found_beyond_memory": (
        "star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}",
        "'topoopt(servers=4,degree=2)', strategy: data, memory: 5 MB",
    ),
    "hybrid_found_for_jobs": (
        "star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}",
        "'topoopt(servers=4,degree=2)', jobs: [{name: a, scheme: ring, hosts: 4, strategy: data}]",
    ),
    "hybrid_found_without_paths": (
        "star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}",
        "'topoopt(servers=4,degree=2,paths=0)', strategy: data",
    ),
    "hybrid_odd_with_two_interfaces": (
        "star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}",
        "'topoopt(servers=5,degree=2)', strategy: data",
    ),
    "hybrid_of_one_interface": (
        "star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}",
        "'topoopt(servers=4,degree=1)', strategy: data",
    ),
    "hybrid_of_one_server": (
        "star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}",
        "'topoopt(servers=1,degree=2)', strategy: data",
    ),
    "reconfigure_without_panels": ("rest: all}}", "rest: all}, perturb: [{kind: reconfigure}]}"),
    "reconfigure_without_strategy": (
        "{topology: star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}}",
        "{topology: 'patch_panel(servers=4,degree=2,rings=[1])', scheme: ring, perturb: [{kind: reconfigure}]}",
    ),
    "reconfigure_in_another_lab": (
        "{topology: star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}}",
        "{topology: 'patch_panel(servers=4,degree=2,rings=[1])', scheme: ring, strategy: data, "
        "perturb: [{kind: reconfigure}]}\nlab: docker",
    ),
    "reconfigure_always_dark": (
        "{topology: star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}}",
        "{topology: 'patch_panel(servers=4,degree=2,rings=[1])', scheme: ring, strategy: data, "
        "perturb: [{kind: reconfigure, every: 10 ms, dark: 10 ms}]}",
    ),
    "reconfigure_unknown_discount": (
        "{topology: star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}}",
        "{topology: 'patch_panel(servers=4,degree=2,rings=[1])', scheme: ring, strategy: data, "
        "perturb: [{kind: reconfigure, discount: factorial}]}",
    ),
    "reconfigure_twice": (
        "{topology: star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 2], rest: all}}",
        "{topology: 'patch_panel(servers=4,degree=2,rings=[1])', scheme: ring, strategy: data, "
        "perturb: [{kind: reconfigure}, {kind: reconfigure, discount: one}]}",
    ),
}


HYBRID_TRAINED = HYBRID.replace("kind: profile, ", "dataset: clicks, ").replace("scale: 10, compute: none", "warmup: 1")
HYBRID_TRAINED_CHANGES: dict[str, tuple[str, str]] = {
    "hybrid_trained_without_operators": ("dataset: clicks, model: dlrm_tiny", "dataset: digits, model: lenet5"),
    "hybrid_trained_of_ones_own": ("dataset: clicks, model: dlrm_tiny", "dataset: ./data.py:load, model: ./net.py:Net"),
    "hybrid_trained_without_time": ("warmup: 1", "compute: none"),
    "hybrid_trained_with_overlap": ("warmup: 1", "overlap: layer"),
    "hybrid_trained_with_checkpoints": (
        "strategy:",
        "checkpoint: {every: 2, rate: 1 MB/s}, strategy:",
    ),
    "hybrid_trained_with_cut_tables": ("strategy:", "cut: 4, strategy:"),
    "hybrid_trained_beyond_memory": ("strategy:", "memory: 5 MB, strategy:"),
    "hybrid_trained_by_halves": ("e0: [0], e1: [1, 2], rest: all", "e0: [0], rest: [1]"),
}


@pytest.mark.parametrize("name", HYBRID_TRAINED_CHANGES)
def test_a_strategy_that_cannot_train(
    name: str, testbed: Callable[..., Called], spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.write(spec_file.parent)
    own.in_this_process(monkeypatch)
    old, new = HYBRID_TRAINED_CHANGES[name]
    assert old in HYBRID_TRAINED
    spec_file.write_text(HYBRID_TRAINED.replace(old, new))
    called = testbed("plan", "spec.yaml")
    check(name, called)
    assert called.code == 2


@pytest.mark.parametrize("name", HYBRID_CHANGES)
def test_a_strategy_with_a_mistake(name: str, testbed: Callable[..., Called], spec_file: Path) -> None:
    old, new = HYBRID_CHANGES[name]
    assert old in HYBRID
    spec_file.write_text(HYBRID.replace(old, new))
    called = testbed("plan", "spec.yaml")
    check(name, called)
    assert called.code == 2


SCRIPT = """
name: script
links: {rate: 100 Mbit/s}
workload: {kind: command, command: python wrong.py}
arms:
  - {topology: star(hosts=4), scheme: ring}
"""
SCRIPT_CHANGES: dict[str, tuple[str, str]] = {
    "script_asynchronous": ("ring", "ssp"),
    "script_of_a_scheduler": ("ring", "mlfabric_s"),
    "script_of_openmpi": ("ring", "openmpi"),
    "script_under_pbox": ("ring", "pbox"),
    "script_tensors_on_servers": ("scheme: ring", 'scheme: "ps(place=tensor)"'),
    "script_ring_with_members": ("scheme: ring", 'scheme: "ring(members=[[0,1],[2,3]])"'),
    "script_2lha_without_racks": (
        "star(hosts=4), scheme: ring",
        '"patch_panel(servers=4,degree=2,rings=[1])", scheme: two_level',
    ),
    "script_tuned": ("scheme: ring", 'scheme: "two_level(groups=[[0,1],[2,3]],tune=true)"'),
    "script_with_parallel_circuits": ("star(hosts=4)", '"patch_panel(servers=4,degree=4,rings=[1,1])"'),
    "script_on_every_nic": ("star(hosts=4)", '"star(hosts=4,server_nics=2,routing=every_nic)"'),
    "script_gloo_on_several_nics": ("star(hosts=4), scheme: ring", '"bcube(n=2,k=2)", scheme: gloo'),
    "order_best_of_a_command": ("star(hosts=4), scheme: ring", "star(hosts=4), order: best"),
    "order_linear_of_a_command": (
        "star(hosts=4), scheme: ring",
        'star(hosts=4), order: "best(cost=ring,model=linear)"',
    ),
    "script_on_one_host": ("hosts=4", "hosts=1"),
    "script_with_two_ranks_a_host": ("python wrong.py", "torchrun --nproc_per_node=2 wrong.py"),
    "script_of_another_size": ("python wrong.py", "torchrun --nnodes=8 wrong.py"),
    "script_launcher_option": ("python wrong.py", "accelerate launch --use_fsdp wrong.py"),
    "script_program_not_found": ("python wrong.py", "pyhton wrong.py"),
    "script_of_a_shell": ("command: python wrong.py", "command: 'cd x && python wrong.py'"),
    "script_not_there": ("python wrong.py", "python -u wrogn.py"),
    "script_with_a_redirection": ("python wrong.py", "python wrong.py >log"),
    "script_with_a_variable": ("command: python wrong.py", "command: 'python wrong.py --out $HOME/out'"),
    "script_after_a_setting": ("python wrong.py", "A=1 python wrong.py"),
    "script_by_mpirun": ("python wrong.py", "mpirun -np 2 python wrong.py"),
    "script_metric_without_a_group": ("wrong.py}", "wrong.py, metrics: {loss: 'loss .*'}}"),
    "script_metric_no_expression": ("wrong.py}", "wrong.py, metrics: {loss: 'loss (['}}"),
    "script_metric_with_a_strange_name": ("wrong.py}", "wrong.py, metrics: {Loss-1: 'loss (.*)'}}"),
    "script_check_negative": ("wrong.py}", "wrong.py, check: -1}"),
    "script_chunk_cuts_numbers": ("wrong.py}", "wrong.py, chunk: 4 B}"),
    "script_moment_of_an_iteration": (
        "scheme: ring}",
        "scheme: ring, perturb: [{kind: kill, nodes: h1, at: iteration 2}]}",
    ),
    "script_straggler": ("scheme: ring}", "scheme: ring, perturb: [{kind: slow, workers: h1, slowdown: 2}]}"),
    "script_with_a_checkpoint": ("scheme: ring}", "scheme: ring, checkpoint: {every: 2, rate: 1 MB/s}}"),
}


@pytest.mark.parametrize("name", SCRIPT_CHANGES)
def test_a_script_with_a_mistake(name: str, testbed: Callable[..., Called], spec_file: Path) -> None:
    old, new = SCRIPT_CHANGES[name]
    assert old in SCRIPT
    spec_file.write_text(SCRIPT.replace(old, new))
    (spec_file.parent / "wrong.py").write_text(WRONG)
    called = testbed("plan", "spec.yaml")
    check(name, called)
    assert called.code == 2


TRACE = """\
name: replay
links: {rate: 200 Mbit/s}
workload: {kind: trace, file: traces/x.%d.et, iterations: 3}
arms: [{topology: star(hosts=2), scheme: ring}]
"""
TRACE_CHANGES: dict[str, tuple[str, str]] = {
    "trace_file_without_a_rank": ("x.%d.et", "x.et"),
    "trace_file_elsewhere": ("traces/x.%d.et", "/tmp/x.%d.et"),
    "trace_of_more_hosts": ("hosts=2", "hosts=3"),
    "trace_of_fewer_hosts": ("hosts=2", "hosts=1"),
    "trace_ranks_are_not_hosts": ("iterations: 3", "iterations: 3, ranks: '0..3'"),
    "trace_ranks_one_number": ("iterations: 3", "iterations: 3, ranks: 3"),
    "trace_key_unknown": ("iterations: 3", "iterations: 3, grups: traces/list.json"),
    "trace_without_files": ("x.%d.et", "y.%d.et"),
    "trace_ranks_no_range": ("iterations: 3", "iterations: 3, ranks: some"),
    "trace_compute_unknown": ("iterations: 3", "iterations: 3, compute: real"),
    "trace_warmup_of_all": ("iterations: 3", "iterations: 3, warmup: 3"),
    "trace_no_trace": ("x.%d.et", "text.%d.et"),
    "trace_groups_of_a_list": ("iterations: 3", "iterations: 3, groups: traces/list.json"),
    "trace_that_never_receives": ("x.%d.et", "lost.%d.et"),
    "trace_without_a_scheme": (", scheme: ring", ""),
    "trace_with_jobs": ("scheme: ring", "jobs: [{name: a, hosts: [h0, h1], scheme: ring}]"),
}


@pytest.mark.parametrize("name", TRACE_CHANGES)
def test_a_trace_with_a_mistake(name: str, testbed: Callable[..., Called], spec_file: Path) -> None:
    old, new = TRACE_CHANGES[name]
    assert old in TRACE
    spec_file.write_text(TRACE.replace(old, new))
    folder = spec_file.parent / "traces"
    folder.mkdir()
    for rank in range(2):
        with (folder / f"x.{rank}.et").open("wb") as file:
            chakra.write(file, rank, [Node(1, "", Kind.COMM_COLL, bytes=64, collective=Collective.ALL_REDUCE)], {})
        with (folder / f"lost.{rank}.et").open("wb") as file:
            chakra.write(file, rank, [Node(1, "", Kind.COMM_SEND, bytes=64, peer=1, tag=7)] if rank == 0 else [], {})
        (folder / f"text.{rank}.et").write_text("no trace at all")
    (folder / "list.json").write_text("[1]")
    called = testbed("plan", "spec.yaml")
    check(name, called)
    assert called.code == 2


OWN: dict[str, tuple[str, str]] = {
    "own_model_file_missing": ("./absent.py:Net", "./data.py:load"),
    "own_model_without_a_name": ("./net.py", "./data.py:load"),
    "own_model_unknown_name": ("./net.py:Nett", "./data.py:load"),
    "own_model_unknown_argument": ("./net.py:Net(clases=3)", "./data.py:load"),
    "own_model_no_module": ("./net.py:count", "./data.py:load"),
    "own_model_imports_what_is_not_there": ("./imports.py:Net", "./data.py:load"),
    "own_model_no_python": ("./syntax.py:Net", "./data.py:load"),
    "own_model_without_parameters": ("./net.py:Nothing", "./data.py:load"),
    "own_model_in_double_precision": ("./net.py:Double", "./data.py:load"),
    "own_model_without_scores": ("./net.py:Bytes", "./data.py:load"),
    "own_model_with_an_unused_part": ("./net.py:Unused", "./data.py:load"),
    "own_model_that_remembers": ("./net.py:Remembers", "./data.py:load"),
    "own_model_that_fails": ("./net.py:Fails", "./data.py:load"),
    "own_model_of_other_samples": ("./net.py:Net", "digits"),
    "own_model_of_torchvision": ("torchvision.resnet18", "./data.py:load"),
    "own_data_unknown_name": ("./net.py:Net", "./data.py:lod"),
    "own_data_beyond_the_models_classes": ("./net.py:Net", "./data.py:load(classes=5)"),
    "own_data_that_is_empty": ("./net.py:Net", "./data.py:empty"),
    "own_data_with_nan": ("./net.py:Net", "./data.py:no_numbers"),
    "own_data_without_labels": ("./net.py:Net", "./data.py:one"),
    "own_data_with_fewer_labels": ("./net.py:Net", "./data.py:uneven"),
    "own_data_that_fails": ("./net.py:Net", "./data.py:fails"),
    "own_data_of_another_model": ("lenet5", "./data.py:load"),
    "own_data_mnist_without_a_path": ("lenet5", "mnist"),
    "own_data_mnist_missing": ("lenet5", "mnist(path=./absent)"),
    "own_data_cifar10_without_a_batch": ("lenet5", "cifar10(path=.)"),
}
"""Models and datasets of ``tests/own.py``."""


@pytest.mark.parametrize("name", OWN)
def test_a_model_or_data_of_ones_own_with_a_mistake(
    name: str, testbed: Callable[..., Called], spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.write(spec_file.parent)
    own.in_this_process(monkeypatch)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)  # as where it is not installed
    model, dataset = OWN[name]
    text = SPEC.replace("model: lenet5", f"model: {model}").replace("dataset: digits", f"dataset: {dataset}")
    spec_file.write_text(text)
    called = testbed("plan", "spec.yaml")
    check(name, called)
    assert called.code == 2


TOPICS = """\
name: topics
links: {rate: 200 Mbit/s}
workload: {kind: lda, corpus: ./docword.txt, topics: 4, iterations: 3, least_documents: 1, most_documents: 100 %}
arms:
  - {topology: star(hosts=3), scheme: ring}
"""
DOCWORD = "4\n3\n8\n1 1 2\n1 3 1\n2 1 1\n2 2 3\n3 2 1\n3 3 1\n4 1 2\n4 2 1\n"
TOPICS_CHANGES: dict[str, tuple[str, str]] = {
    "lda_corpus_missing": ("corpus: ./docword.txt, ", ""),
    "lda_corpus_unknown": ("./docword.txt", "python_referense"),
    "lda_corpus_not_there": ("./docword.txt", "./absent.txt"),
    "lda_corpus_of_another_format": ("./docword.txt", "./spec.yaml"),
    "lda_corpus_without_gensim": ("./docword.txt", "lee"),
    "lda_corpus_of_rare_words": ("least_documents: 1", "least_documents: 5"),
    "lda_more_workers_than_documents": ("star(hosts=3)", "star(hosts=4)"),
    "lda_too_many_topics": ("topics: 4", "topics: 1001"),
    "lda_one_topic": ("topics: 4", "topics: 1"),
    "lda_kills_a_server_with_a_checkpoint": (
        "star(hosts=3), scheme: ring}",
        "star(hosts=4), scheme: mlfabric_a, checkpoint: {every: 2, rate: 1 GB/s}, perturb: [{kind: kill, nodes: [h2], "
        "at: 1 s}]}",
    ),
    "lda_with_a_batch": ("topics: 4", "topics: 4, batch: [1, 16]"),
    "lda_that_computes_nothing": ("topics: 4", "topics: 4, compute: none"),
    "lda_paced_without_a_pace": ("topics: 4", "topics: 4, compute: paced"),
    "lda_with_overlap": ("topics: 4", "topics: 4, overlap: layer"),
    "lda_with_a_scale_too_coarse": (
        "star(hosts=3), scheme: ring",
        "'star(hosts=3,ina=all)', scheme: atp(scale=0.1)",
    ),
    "lda_with_a_scale_too_fine": ("star(hosts=3), scheme: ring", "'star(hosts=3,ina=all)', scheme: atp(scale=1e9)"),
}


@pytest.mark.parametrize("name", TOPICS_CHANGES)
def test_topics_with_a_mistake(
    name: str, testbed: Callable[..., Called], spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "find_spec", lambda _name: None)  # as where gensim is not installed
    old, new = TOPICS_CHANGES[name]
    assert old in TOPICS
    spec_file.write_text(TOPICS.replace(old, new))
    (spec_file.parent / "docword.txt").write_text(DOCWORD)
    called = testbed("plan", "spec.yaml")
    check(name, called)
    assert called.code == 2


def test_topics_without_a_mistake_are_fine(testbed: Callable[..., Called], spec_file: Path) -> None:
    spec_file.write_text(TOPICS)
    (spec_file.parent / "docword.txt").write_text(DOCWORD)
    assert testbed("plan", "spec.yaml").code == 0


def test_the_profile_without_a_mistake_is_fine(testbed: Callable[..., Called], spec_file: Path) -> None:
    spec_file.write_text(PROFILE)
    assert testbed("plan", "spec.yaml").code == 0


CALLS: dict[str, list[str]] = {
    "asynchronous_servers_beyond_floats": ["forest", "async_ps(servers=3)", "star(hosts=5)", "--bytes", "8"],
    "set_without_value": ["plan", "spec.yaml", "--set", "seed"],
    "set_topology_wrong_at_each_point": [
        *("plan", "spec.yaml", "--set", "arms.0.topology=star(hots=2)", "--set", "links.rate=[100 Mbit/s, 200 Mbit/s]"),
    ],
    "set_range_from_0": ["plan", "spec.yaml", "--set", "workload.iterations=0..4"],
    "option_before_the_command": ["--set", "seed=2", "plan", "spec.yaml"],
    "simulator_up": ["up", "spec.yaml", "--backend", "simulator"],
    "backend_unknown": ["plan", "spec.yaml", "--backend", "netn"],
    "set_entry_in_brackets": ["plan", "spec.yaml", "--set", "arms[0].scheme=ring"],
    "set_name_no": ["plan", "spec.yaml", "--set", "name=no"],
    "set_list_with_no": ["plan", "spec.yaml", "--set", "perturb=[{kind: slow, workers: [no], slowdown: 2}]"],
    "set_label_off": ["plan", "spec.yaml", "--set", "arms.0.label=Off"],
    "set_unknown_key": ["plan", "spec.yaml", "--set", "workload.iteratons=3"],
    "set_key_of_a_group": ["plan", "spec.yaml", "--set", "rate=1 Gbit/s"],
    "set_beyond_a_list": ["plan", "spec.yaml", "--set", "arms.5.scheme=ring"],
    "set_through_a_value": ["plan", "spec.yaml", "--set", "seed.x=3"],
    "set_sweep_with_a_mistake": ["plan", "spec.yaml", "--set", "links.rate=[1 Mbit/s, fast]"],
    "part_of_nothing": ["run", "spec.yaml", "--part", "3/2"],
    "part_that_is_none": ["run", "spec.yaml", "--part", "half"],
    "part_that_would_be_empty": ["run", "spec.yaml", "--part", "2/2"],
    "merge_of_no_run": ["merge", "nowhere", "--out", "all"],
    "set_two_mistakes": ["plan", "spec.yaml", "--set", "seed=x", "--set", "links.rate=fast"],
    "no_such_file": ["plan", "absent.yaml"],
    "file_misspelt": ["plan", "spec.yml"],
    "file_without_its_ending": ["run", "spec"],
    "a_directory": ["plan", "."],
    "run_without_spec": ["run"],
    "run_out_and_resume": ["run", "spec.yaml", "--out", "a", "--resume", "b"],
    "run_set_and_resume": ["run", "--set", "seed=2", "--resume", "b"],
    "resume_no_run": ["run", "spec.yaml", "--resume", "."],
    "report_no_run": ["report", "."],
    "report_unknown_format": ["report", ".", "--format", "pdf"],
    "report_of_two_nowhere": ["report", "a", "b", "--format", "md"],
    "report_and_json_on_one_output": ["report", ".", "--out", "-", "--json"],
    "forest_topology_first": ["forest", "star(hosts=3)", "ring"],
    "forest_of_no_class": ["forest", "tree", "star(hosts=3)", "--draw", "a.svg", "--class", "5"],
    "schemes_unknown": ["schemes", "rng"],
    "topo_draw_another_format": ["topo", "star(hosts=3)", "--draw", "net.png"],
    "forest_two_sizes": ["forest", "ring", "star(hosts=3)", "--model", "lenet5", "--bytes", "400"],
    "forest_bml_on_a_star": ["forest", "bml", "star(hosts=9)"],
    "forest_schedule_of_no_node": ["forest", "ring", "star(hosts=3)", "--schedule", "h3"],
    "forest_schedule_without_a_table": ["forest", "async_ps", "star(hosts=3)", "--schedule", "h0"],
    "forest_over_other_nodes": ["forest", "./wrong.py:other_nodes", "star(hosts=3)"],
    "theory_unknown_claim": ["theory", "plink.table4.2"],
    "reproduce_no_paper": ["reproduce"],
    "reproduce_unknown_paper": ["reproduce", "bmll"],
    "reproduce_unknown_claim": ["reproduce", "bml", "lenet"],
    "reproduce_claim_of_another_paper": ["reproduce", "bml", "rina.chain"],
    "reproduce_into_a_file": ["reproduce", "rina.bom", "--out", "spec.yaml"],
    "reproduce_where_others_are": ["reproduce", "rina.bom", "--out", "."],
    "topo_prices_missing": ["topo", "star(hosts=3)", "--prices", "absent.yaml"],
    "topo_prices_of_a_spec": ["topo", "star(hosts=3)", "--prices", "spec.yaml"],
    "topo_too_many_groups": ["topo", "dragonfly(a=4,g=10,h=2)"],
    "topo_links_of_no_node": ["topo", "star(hosts=3)", "--links", "{h0-s1: {rate: 5 Mbit/s}}"],
    "topo_links_without_keys": ["topo", "star(hosts=3)", "--links", "slow"],
    "topo_rate_without_unit": ["topo", "star(hosts=3)", "--rate", "5"],
    "topo_draw_into_nowhere": ["topo", "star(hosts=3)", "--draw", "absent/net.svg"],
    "topo_as_unknown": ["topo", "star(hosts=3)", "--as", "dot"],
    "topo_as_and_json": ["topo", "star(hosts=3)", "--as", "clab", "--json"],
    "topo_as_of_patch_panels": ["topo", "patch_panel(servers=4,degree=2)", "--as", "graphml"],
    "exec_with_nothing_up": ["exec", "h0", "--", "true"],
    "up_cli_and_json": ["up", "spec.yaml", "--cli", "--json"],
    "up_unknown_arm": ["up", "spec.yaml", "--arm", "rnig"],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_command_line_with_a_mistake(name: str, testbed: Callable[..., Called], spec_file: Path) -> None:
    (spec_file.parent / "wrong.py").write_text(WRONG)
    called = testbed(*CALLS[name])
    check(name, called)
    assert called.code == 2


RING_GML = """\
graph [
  node [ id 0 label "Brno" ]
  node [ id 1 label "Zlin" ]
  node [ id 2 label "Cheb" ]
  edge [ source 0 target 1 LinkSpeed "2.5" LinkSpeedUnits "G" ]
  edge [ source 1 target 2 ]
  edge [ source 2 target 0 ]
]
"""
XML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
LAB = """\
topology:
  nodes: {leaf: {kind: ceos}, client: {kind: linux}}
  links:
    - endpoints: ["client:eth1", "leaf:eth1"]
"""
FABRIC: dict[str, Any] = {
    "devices": [{"name": "server", "components": [{"name": "nic", "count": 2, "choice": "nic"}]}],
    "instances": [{"name": "host", "device": "server", "count": 2}],
    "edges": [
        {
            "ep1": {"instance": "host[0]", "component": "nic[0]"},
            "ep2": {"instance": "host[1]", "component": "nic[0]"},
            "scheme": "one2one",
            "link": "wire",
        }
    ],
}


def _fabric(old: str, new: str) -> str:
    return json.dumps(FABRIC).replace(old, new, 1)


NETWORKS: dict[str, tuple[str, str]] = {
    "network_absent": ("absent/net.gml", ""),
    "network_in_another_encoding": ("net.graphml", "latin \xe4"),
    "network_that_is_no_xml": ("net.graphml", "hello"),
    "network_with_entities": ("net.graphml", f'<!DOCTYPE g [<!ENTITY a "b">]>{XML}</graphml>'),
    "network_cut_off": ("net.gml", RING_GML[:-20]),
    "network_without_links": ("net.gml", "graph [ node [ id 0 ] node [ id 1 ] ]"),
    "network_without_hosts": ("net.gml", RING_GML),
    "network_of_hosts_unknown": ("net.gml(hosts=[Brno,Plzen])", RING_GML),
    "network_of_hosts_that_are_a_word": ("net.gml(hosts=leafs)", RING_GML),
    "network_of_no_accelerators": ("net.gml(hosts=xpus)", RING_GML),
    "network_with_an_option_misspelt": ("net.gml(host=all)", RING_GML),
    "network_at_a_negative_speed": ("net.gml(hosts=all)", RING_GML.replace('"2.5"', '"-2.5"')),
    "network_without_places": ("net.gml(hosts=all,delays=distance)", RING_GML),
    "network_of_a_lab_with_an_end_at_no_node": ("net.clab.yml", LAB.replace("leaf:eth1", "laef:eth1")),
    "network_of_a_lab_without_nodes": ("net.clab.yml", "name: none"),
    "network_of_a_lab_with_a_node_twice": ("net.clab.yml", LAB.replace("client: {", "leaf: {")),
    "network_of_a_lab_with_an_alias": ("net.clab.yml", "a: &a 1\nb: *a"),
    "network_that_is_no_json": ("net.json", "{"),
    "network_that_is_another_json": ("net.json", '{"nodes": []}'),
    "network_of_a_device_unknown": ("net.json", _fabric('"device": "server"', '"device": "sever"')),
    "network_of_a_component_beyond": ("net.json", _fabric("nic[0]", "nic[2]")),
    "network_of_edges_in_a_ring": ("net.json", _fabric("one2one", "ring")),
}
"""A topology, and what is in the file that it names."""


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_in_a_file_with_a_mistake(
    name: str, testbed: Callable[..., Called], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topology, content = NETWORKS[name]
    if "/" not in topology:
        Path(topology.partition("(")[0]).write_bytes(content.encode("latin-1"))
    called = testbed("topo", topology)
    check(name, called)
    assert called.code == 2


def test_every_golden_text_belongs_to_a_case() -> None:
    assert (
        {path.stem for path in GOLDEN.glob("*.txt")}
        == CHANGES.keys()
        | PROFILE_CHANGES.keys()
        | TRACE_CHANGES.keys()
        | TOPICS_CHANGES.keys()
        | CALLS.keys()
        | NETWORKS.keys()
        | OWN.keys()
        | SCRIPT_CHANGES.keys()
        | HYBRID_CHANGES.keys()
        | HYBRID_TRAINED_CHANGES.keys()
    )


@pytest.mark.parametrize(
    "arguments", [["plan"], ["run", "--nope"], ["nope"], ["forest", "ring"], ["topo", "star(hosts=3)", "extra"]]
)
def test_a_malformed_command_line_ends_with_a_fix_and_2(arguments: list[str], testbed: Callable[..., Called]) -> None:
    called = testbed(*arguments)
    assert called.code == 2
    problem, fix = called.err.splitlines()
    assert problem.startswith("error: ")
    assert fix.startswith("  fix: ")


def test_a_huge_file_is_not_read(testbed: Callable[..., Called], spec_file: Path) -> None:
    spec_file.write_text("#" * (1 << 21))
    called = testbed("plan", "spec.yaml")
    assert called.code == 2
    assert called.err == f"error: spec.yaml: a spec has at most 65,536 bytes\n  fix: {A_SPEC}\n"


def test_a_file_without_end_is_not_read_to_it(testbed: Callable[..., Called]) -> None:
    called = testbed("plan", "/dev/zero")
    assert called.code == 2
    assert called.err == f"error: /dev/zero: a spec has at most 65,536 bytes\n  fix: {A_SPEC}\n"


def test_deep_nesting_is_refused(testbed: Callable[..., Called], spec_file: Path) -> None:
    spec_file.write_text("a: " + "[" * 5000)
    called = testbed("plan", "spec.yaml")
    assert called.code == 2
    assert called.err.startswith("error: spec.yaml")


def test_an_unreadable_byte_is_named(testbed: Callable[..., Called], spec_file: Path) -> None:
    spec_file.write_bytes(b"name: \xff\xfe")
    called = testbed("plan", "spec.yaml")
    assert (called.code, called.err) == (
        2,
        "error: spec.yaml: not a text file (invalid start byte at byte 6)\n  fix: save it as UTF-8\n",
    )


def test_an_out_directory_with_something_in_it_is_left_alone(testbed: Callable[..., Called], spec_file: Path) -> None:
    out = spec_file.parent / "full"
    out.mkdir()
    (out / "mine.txt").write_text("keep")
    called = testbed("run", "spec.yaml", "--out", "full")
    assert called.code == 2
    assert called.err == (
        "error: full: is not empty\n  fix: name another with --out, or go on with it: testbed run --resume full\n"
    )
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
