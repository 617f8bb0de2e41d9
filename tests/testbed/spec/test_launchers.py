"""Commands that start a script through a launcher are read as the script."""

from __future__ import annotations

import shlex

import pytest

from testbed.base.errors import SpecError
from testbed.spec.workload.command import Command
from testbed.spec.workload.command import words as words_of
from testbed.spec.workload.launchers import check_meets, without_launcher


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python train.py --nproc 2", "python train.py --nproc 2"),
        ("./train.sh", "./train.sh"),
        ("torchrun train.py --nnodes 9", "python -u train.py --nnodes 9"),
        ("torchrun --nproc_per_node=1 --nnodes=4 train.py", "python -u train.py"),
        ("torchrun --nproc-per-node 1 --nnodes 1:8 --node-rank 3 --standalone train.py a", "python -u train.py a"),
        ("torchrun --rdzv-endpoint=host:29400 -m pack.train --x", "python -u -m pack.train --x"),
        ("torchrun --no-python ./train.sh x", "./train.sh x"),
        ("python -m torch.distributed.run --nproc_per_node=1 train.py", "python -u train.py"),
        ("python3 -m torch.distributed.launch --use_env train.py", "python -u train.py"),
        ("accelerate launch train.py", "python train.py"),
        ("accelerate launch --num_processes 4 --num_machines=4 --machine_rank 0 train.py", "python train.py"),
        ("accelerate launch --cpu -m pack.train", "python -m pack.train"),
        ("/opt/venv/bin/torchrun train.py", "python -u train.py"),
        ("deepspeed train.py --stage 2", "python -u train.py --local_rank=0 --stage 2"),
        ("deepspeed --no_local_rank --hostfile=four --num_gpus 1 --num_nodes 4 train.py", "python -u train.py"),
        ("deepspeed --module --master_port 29501 pack.train x", "python -u -m pack.train --local_rank=0 x"),
        ("python -m deepspeed.launcher.runner train.py", "python -u train.py --local_rank=0"),
        ("fabric run --accelerator=cpu --num-nodes 4 --devices 1 train.py --x", "python -u train.py --x"),
        ("python -m lightning.fabric.cli --strategy ddp train.py", "python -u train.py"),
        ("accelerate config", "accelerate config"),
        ("python -m pack.train", "python -m pack.train"),
    ],
)
def test_the_script_is_what_the_launcher_starts(command: str, words: str) -> None:
    assert without_launcher(command.split(), 4).words == tuple(words.split())


def test_what_accelerate_tells_by_variables_is_told() -> None:
    command = "accelerate launch --cpu --mixed_precision bf16 --gradient-accumulation-steps=4 train.py"
    assert without_launcher(command.split(), 2).environment == {
        "ACCELERATE_USE_CPU": "true",
        "ACCELERATE_MIXED_PRECISION": "bf16",
        "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4",
    }


def test_what_fabric_tells_by_variables_is_told() -> None:
    command = "fabric run --accelerator cpu --strategy=fsdp --precision bf16-mixed --node-rank 2 train.py"
    assert without_launcher(command.split(), 4).environment == {
        "LT_CLI_USED": "1",
        "LT_DEVICES": "1",
        "LT_NUM_NODES": "4",
        "LT_ACCELERATOR": "cpu",
        "LT_STRATEGY": "fsdp",
        "LT_PRECISION": "bf16-mixed",
    }


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (
            "torchrun --nproc_per_node=2 train.py",
            "torchrun --nproc_per_node=2: a host has one rank\n"
            "  fix: write --nproc_per_node=1, and give the topology as many hosts as you want ranks",
        ),
        (
            "torchrun --nnodes 3 train.py",
            "torchrun --nnodes=3, and the arm has 4 ranks, one on each host\n  fix: write --nnodes=4, or remove it",
        ),
        (
            "torchrun --nnodes=two train.py",
            "torchrun --nnodes=two, and the arm has 4 ranks, one on each host\n  fix: write --nnodes=4, or remove it",
        ),
        (
            "accelerate launch --num_processes=8 train.py",
            "accelerate launch --num_processes=8, and the arm has 4 ranks, one on each host\n"
            "  fix: write --num_processes=4, or remove it",
        ),
        (
            "deepspeed --num_gpus 2 train.py",
            "deepspeed --num_gpus=2: a host has one rank\n"
            "  fix: write --num_gpus=1, and give the topology as many hosts as you want ranks",
        ),
        (
            "deepspeed --autotuning run train.py",
            "deepspeed --autotuning: testbed starts the ranks itself, and does not know this option\n"
            "  fix: start the script by itself, such as python train.py",
        ),
        (
            "fabric run --devices=2 train.py",
            "fabric run --devices=2: a host has one rank\n"
            "  fix: write --devices=1, and give the topology as many hosts as you want ranks",
        ),
        (
            "accelerate launch --use_deepspeed train.py",
            "accelerate launch --use_deepspeed: testbed starts the ranks itself, and does not know this option\n"
            "  fix: start the script by itself, such as python train.py",
        ),
        (
            "torchrun --standalone",
            "torchrun starts no script: --standalone\n  fix: start the script by itself, such as python train.py",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(command: str, error: str) -> None:
    with pytest.raises(SpecError) as refused:
        without_launcher(command.split(), 4)
    assert str(refused.value) == error


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --nnodes",
        "torchrun --nnodes=4 --rdzv-endpoint=h0:29400 train.py",
        "accelerate launch --num-machines 4 train.py",
        "accelerate launch --config_file four.yaml train.py",
    ],
)
def test_ranks_without_a_scheme_meet_by_themselves(command: str) -> None:
    check_meets(command.split(), 4)


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate launch", "deepspeed", "fabric run"])
def test_a_job_of_each_host_is_no_job_of_all(launcher: str) -> None:
    check_meets([*launcher.split(), "train.py"], 1)
    with pytest.raises(SpecError) as refused:
        check_meets([*launcher.split(), "train.py"], 4)
    assert str(refused.value) == (
        f"{launcher} starts a job of its own on each host, and an arm without a scheme runs it as it is\n"
        "  fix: give the arm a scheme, such as gloo, or tell the launcher of all hosts"
    )


@pytest.mark.parametrize(
    ("command", "name", "line"),
    [
        ("mpirun -np 3 python3 -u t.py 'a b'", "mpirun", "python3 -u t.py 'a b'"),
        ("/usr/bin/mpiexec -n 2 t.py --lr 1", "mpiexec", "python t.py --lr 1"),
        ("horovodrun -np 2 python t.py", "horovodrun", "python t.py"),
        ("python -m colossalai.cli run lib/t.py", "colossalai", "python lib/t.py"),
        ("srun ./train", "srun", "python train.py"),
    ],
)
def test_a_launcher_that_starts_ranks_by_itself_is_refused_with_the_line_to_write(
    command: str, name: str, line: str
) -> None:
    with pytest.raises(SpecError) as refused:
        without_launcher(shlex.split(command), 4)
    assert str(refused.value) == (
        f"{name} starts ranks by itself, and in an arm with a scheme testbed starts one on each host\n"
        f"  fix: write the command as {line}, or remove scheme from the arm"
    )


@pytest.mark.parametrize(
    "command",
    [
        *("python t.py 2>&1", "python t.py >&2", "cd x; python t.py", "python t.py >log", "python t.py 2>>err.txt"),
        *(
            "python t.py &>log",
            "python t.py <in",
            "python t.py $HOME/data",
            "python t.py --rank=${RANK}",
            "echo $(date)",
        ),
    ],
)
def test_signs_of_shells_are_refused(command: str) -> None:
    with pytest.raises(ValueError, match="no shell runs it"):
        words_of(command)


def test_what_a_shell_would_not_take_for_a_sign_is_a_word() -> None:
    words = ["python", "t.py", "loss (.*)$", "a>b", "$", r"\$HOME", "$1", "-<x>", "bash -c 'echo $HOME >log'"]
    assert words_of(f"python t.py 'loss (.*)$' a>b $ '{words[5]}' $1 -<x> \"{words[8]}\"") == words


def test_a_semicolon_that_is_quoted_or_escaped_is_a_word() -> None:
    assert words_of(r"find . -exec ls {} \; ';'") == ["find", ".", "-exec", "ls", "{}", ";", ";"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python -u train.py a", "/opt/venv/bin/python -u train.py a"),
        ("torchrun --nproc_per_node=1 train.py", "/opt/venv/bin/python -u train.py"),
        ("accelerate launch --cpu -m pack.train", "/opt/venv/bin/python -m pack.train"),
        ("deepspeed train.py", "/opt/venv/bin/python -u train.py --local_rank=0"),
    ],
)
def test_a_script_is_started_by_the_python_that_a_spec_names(command: str, words: str) -> None:
    found = Command(kind="command", command=command, python="/opt/venv/bin/python")
    assert without_launcher(found.command, 4).words == tuple(words.split())
    assert found.program.python == "/opt/venv/bin/python"
    assert "python" not in found.model_dump(), "the command tells of it"


@pytest.mark.parametrize(
    ("command", "python", "problem"),
    [
        ("./train.sh", "/opt/venv/bin/python", "is for commands that Python runs, and this one starts with ./train.sh"),
        ("python train.py", "venv/bin/python", "is no absolute path"),
    ],
)
def test_a_python_that_a_command_does_not_start_is_refused(command: str, python: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Command(kind="command", command=command, python=python)
