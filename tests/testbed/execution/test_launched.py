"""The environment of a rank is a launcher's: what is set, and what of the caller's is left out."""

from __future__ import annotations

import os
import subprocess
import sys

from testbed.execution.launched import left_out, rank_environment

RUN = """
from testbed.lab.netns.on_nodes.processes import run_program
from testbed.lab.programs import Launch, Program
words = ("sh", "-c", "echo [$NODE_RANK] [$RANK] [$KEPT]")
run_program(Launch("h0", 0, "", "", Program(words, {"RANK": "1"}, "/", ("NODE_RANK", "NOT_THERE"))))
"""


def test_a_rank_is_told_what_torchrun_tells_it() -> None:
    told = rank_environment(2, 4, "10.0.0.1")
    assert (told["RANK"], told["WORLD_SIZE"], told["LOCAL_RANK"], told["LOCAL_WORLD_SIZE"]) == ("2", "4", "0", "1")
    assert (told["MASTER_ADDR"], told["MASTER_PORT"], told["OMP_NUM_THREADS"]) == ("10.0.0.1", "29500", "1")
    assert (told["TORCHELASTIC_RUN_ID"], told["TORCHELASTIC_USE_AGENT_STORE"]) == ("none", "False")
    assert told["ROLE_NAME"] == "default"


def test_variables_of_another_launcher_are_left_out() -> None:
    own = rank_environment(0, 2, "10.0.0.1")
    callers = [
        "HOME",
        "RANK",
        "NODE_RANK",
        "SLURM_PROCID",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_MCA_btl",
        "ACCELERATE_USE_CPU",
    ]
    assert left_out(callers, own) == ("NODE_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")


def test_a_program_does_not_get_them_and_its_log_says_so() -> None:
    environment = {**os.environ, "NODE_RANK": "7", "RANK": "7", "KEPT": "here"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", RUN], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "testbed: left out of the environment: NODE_RANK, NOT_THERE",
        "[] [1] [here]",
    ]
