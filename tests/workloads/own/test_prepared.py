"""A user's model and data are prepared once, and trained by workers as a single process trains them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from testbed.base.errors import MissingToolError, SpecError
from testbed.topologies.load import no_code
from testbed.workloads.catalogue import entry, tensor_sizes
from testbed.workloads.job import Training
from testbed.workloads.learning.accelerated import DeviceReplica, replica_on
from testbed.workloads.learning.reference import allowed, judged, reference
from testbed.workloads.learning.training import Replica, first_weights
from testbed.workloads.own.data import MOST_TESTED
from testbed.workloads.own.prepared import Prepared, prepare
from tests import own, packages
from tests.patience import until

WORLD = 3
JOB = Training("./net.py:Net", "./data.py:load", batch=4, iterations=4, learning_rate=0.05, momentum=0.9, seed=3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec's, with files of the user's own."""
    own.write(tmp_path)
    own.in_this_process(monkeypatch)
    return tmp_path


def placed(folder: Path, job: Training = JOB) -> Training:
    """The training with its files in place."""
    made = prepare(folder, job.model, job.dataset, job.seed, job.batch)
    made.place(folder / "placed")
    return replace(job, own=made.names(folder / "placed"), own_digest=made.digest)


def trained(job: Training, backwards: bool = False) -> tuple[np.ndarray, list[torch.Tensor]]:
    """Weights, and what rank 0 keeps besides, after training as workers that each have a replica."""
    replicas = [Replica(job) for _ in range(WORLD)]
    for iteration in range(job.iterations):
        for rank, replica in enumerate(replicas):
            replica.compute(*replica.samples(iteration, rank, WORLD))
        order = replicas[::-1] if backwards else replicas
        total = sum(replica.gradient for replica in order)
        for replica in replicas:
            replica.gradient[:] = total
            replica.step(WORLD)
    return replicas[0].weights, list(replicas[0].module.buffers())


def test_workers_come_to_what_a_single_process_comes_to(folder: Path) -> None:
    """With batch normalisation, dropout, a part that is not trained, and one that is shared: to the same bits where
    sums have the same order."""
    job = placed(folder)
    ideal = reference(job, WORLD)
    weights, statistics = trained(job)
    assert np.array_equal(weights, ideal.weights)
    assert all(map(torch.equal, statistics, ideal.statistics))
    assert np.linalg.norm(weights - first_weights(job)) > 0.01
    found = judged(trained(job, backwards=True)[0], job, ((0, WORLD),))
    assert 0 < found["training_error"] < found["training_allowed"]
    assert [iteration for iteration, _ in found["curve"]] == [0, 1, 2, 3]


def test_a_model_that_is_built_in_eval_mode_stays_so(folder: Path) -> None:
    """Also in the reference, which evaluates between iterations."""
    with (folder / "net.py").open("a") as file:
        file.write("\n\ndef frozen():\n    return Net().eval()\n")
    job = placed(folder, replace(JOB, model="./net.py:frozen"))
    assert np.array_equal(trained(job)[0], reference(job, WORLD).weights)


def test_a_run_directory_may_have_any_name(folder: Path) -> None:
    made = prepare(folder, JOB.model, JOB.dataset, JOB.seed, JOB.batch)
    into = folder / "a run (2)"
    made.place(into)
    Replica(replace(JOB, own=made.names(into), own_digest=made.digest))


def test_no_more_samples_are_classified_than_are_trained_on(folder: Path) -> None:
    """48 samples are trained on, and 20 are for the test."""
    curve = reference(placed(folder, replace(JOB, dataset="./data.py:apart")), WORLD).accuracy
    assert [iteration for iteration, _ in curve] == [0, 3]


def test_a_worker_without_dropout_of_its_own_is_found_out(folder: Path) -> None:
    job = placed(folder)
    weights, _ = trained(job)
    other = replace(job, own_digest="other")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replica, "draw", lambda *_: torch.manual_seed(0))
        wrong, _ = trained(other)
    assert judged(wrong, job, ((0, WORLD),))["training_error"] > 100 * allowed(weights, weights * (1 + 1e-7), job)


def test_on_a_device_it_trains_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a CPU for the device: parts that are shared or not trained are placed there, too."""
    job = placed(folder)
    weights, statistics = trained(job)
    made: list[Replica] = []

    def there(job: Training) -> Replica:
        made.append(DeviceReplica(job, None, torch.device("cpu")))
        return made[-1]

    monkeypatch.setitem(trained.__globals__, "Replica", there)
    _, on_device = trained(job)
    made[0].fetch()
    assert np.array_equal(made[0].weights, weights)
    assert all(map(torch.equal, on_device, statistics))


def test_dropout_on_a_gpu_is_refused(folder: Path) -> None:
    with pytest.raises(SpecError, match="a GPU draws other numbers"):
        replica_on(torch.device("cuda"), placed(folder))


def test_listings_and_forests_take_its_sizes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert tensor_sizes("./net.py:Net")[0] == ("out.weight", 24)
    found = entry("./net.py:Net(width=5)")
    assert (found.doc, found.parameters, found.layers, found.tensors) == ("your own", 63, 4, 7)


def test_sizes_are_the_modules_and_shared_or_fixed_parts_count_once_or_not(folder: Path) -> None:
    found = prepare(folder, "./net.py:Net(width=5)", "./data.py:load", seed=1)
    assert found.sizes() == [[15, 3], [5], [25, 5], [5, 5]]
    assert [name for layer in found.layers for name, _ in layer] == [
        *("norm.weight", "norm.bias", "first.weight", "first.bias", "second.bias", "out.weight", "out.bias")
    ]


def test_initial_weights_are_the_modules_own_and_the_seeds(folder: Path) -> None:
    one, other = placed(folder), placed(folder, replace(JOB, seed=4))
    assert one.own_digest != other.own_digest
    before = first_weights(other)
    assert np.array_equal(first_weights(placed(folder, replace(JOB, seed=4))), before)
    assert not np.array_equal(first_weights(placed(folder)), before)


def test_samples_are_split_as_they_come(folder: Path) -> None:
    data = Replica(placed(folder)).data
    assert (len(data.train), len(data.test)) == (48, 12)
    assert torch.bincount(data.labels[data.test]).tolist() == [4, 4, 4]
    data = Replica(placed(folder, replace(JOB, dataset="./data.py:apart"))).data
    assert (data.train.tolist(), data.test.tolist()) == (list(range(40)), list(range(40, 60)))
    data = Replica(placed(folder, replace(JOB, dataset="./data.py:load(count=9000)"))).data
    assert (len(data.train), len(data.test)) == (7200, MOST_TESTED)


def test_pixels_are_bytes_until_they_are_used(folder: Path) -> None:
    images = own.write_mnist(folder / "mnist")
    data = Replica(placed(folder, replace(JOB, model="lenet5", dataset="mnist(path=mnist)"))).data
    assert data.images.dtype == torch.uint8
    wanted = torch.from_numpy(images[2:4, None]).float() / 127.5 - 1
    assert torch.allclose(data.select(np.array([2, 3]))[0], wanted, atol=1e-6)


def test_what_changes_is_in_the_digest(folder: Path) -> None:
    def made() -> Prepared:
        return prepare(folder, "./net.py:Net", "./data.py:load", seed=1)

    before = made()
    assert set(before.inputs) == {"net.py", "./net.py:Net, initial weights", "./data.py:load, samples"}
    assert made().digest == before.digest
    (folder / "data.py").write_text(own.DATA.replace("labels[:, None, None]", "2 * labels[:, None, None]"))
    changed = made()
    assert {name for name in before.inputs if changed.inputs[name] != before.inputs[name]} == {
        "./data.py:load, samples"
    }
    (folder / "net.py").write_text(own.NET + "\n")
    assert made().inputs["net.py"] != changed.inputs["net.py"]


def test_files_beside_the_models_come_along(folder: Path) -> None:
    (folder / "parts").mkdir()
    (folder / "parts" / "heads.py").write_text("from torch import nn\ndef head(width): return nn.Linear(width, 3)\n")
    (folder / "two.py").write_text(
        "import net\nfrom parts.heads import head\nclass Two(net.Net):\n"
        "    def __init__(self):\n        super().__init__()\n        self.out = head(8)\n"
    )
    job = placed(folder, replace(JOB, model="./two.py:Two"))
    for name in ("two.py", "net.py", "parts/heads.py"):
        (folder / name).unlink()  # workers have their own
    assert np.isfinite(trained(job)[0]).all()


LOADS_FOR_EVER = """\
import os, time
child = os.fork()
open(f"pid-{os.getpid()}", "w").close()
time.sleep(600)
"""
PREPARES = "import sys; from pathlib import Path; from testbed.workloads.own.prepared import prepare\n"
PREPARES += "try:\n    prepare(Path(), './mine.py:Net', None, 1)\nexcept KeyboardInterrupt:\n    sys.exit(130)\n"


@pytest.mark.parametrize("deaf", ["", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"])
def test_ctrl_c_ends_a_users_code_and_what_it_has_started(deaf: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(deaf + LOADS_FOR_EVER)
    words = [sys.executable, "-P", "-c", PREPARES]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True)
    begun = until(lambda: found if len(found := list(tmp_path.glob("pid-*"))) == 2 else None)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(20) == 130
    until(lambda: not any(_runs(int(path.name.removeprefix("pid-"))) for path in begun))


def _runs(pid: int) -> bool:
    """Whether it is there, other than as a zombie that somebody else must reap."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_in_a_process_of_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As a harness has it: what the user's code prints goes to standard error, and its mistakes are told."""
    own.write(tmp_path)
    (tmp_path / "net.py").write_text(own.NET + "print('hello')\n")
    made = prepare(tmp_path, "./net.py:Net", "./data.py:load", seed=1)
    assert made.sizes()[0] == [24, 3]
    out, err = capfd.readouterr()
    assert (out, err) == ("", "hello\n")
    with pytest.raises(SpecError, match=r"net\.py has no function 'Nett'"):
        prepare(tmp_path, "./net.py:Nett", "./data.py:load", seed=1)
    (tmp_path / "net.py").write_text("import os\nos._exit(7)\n")
    with pytest.raises(SpecError, match="ended with status 7"):
        prepare(tmp_path, "./net.py:Net", None, seed=1)


def test_readers_of_run_directories_run_nothing(folder: Path) -> None:
    (folder / "net.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n{own.NET}")
    with no_code("a report", "read it"), pytest.raises(SpecError, match="which a report does not run"):
        prepare(folder, "./net.py:Net", None, seed=1)
    assert not (folder / "ran").exists()


TORCHVISION = """\
from torch import nn
def resnet18(*, weights=None, num_classes=1000, **rest):
    return nn.Sequential(nn.Flatten(), nn.Linear(6, num_classes))
def list_models(): return ["resnet18"]
def get_model(name, **arguments): return resnet18(**arguments)
"""
"""Of the package's interface, what is used."""


def test_torchvisions_models(tmp_path: Path) -> None:
    own.write(tmp_path)
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").touch()
    (tmp_path / "torchvision" / "models.py").write_text(TORCHVISION)
    code = (
        "import sys; from pathlib import Path; from testbed.workloads.own.prepared import prepare\n"
        "print(prepare(Path(sys.argv[1]), sys.argv[2], './data.py:load', 1).sizes())"
    )
    done = packages.python(tmp_path, "-c", code, str(tmp_path), "torchvision.resnet18(num_classes=3)")
    assert done.stdout == "[[18, 3]]\n", done.stderr


@pytest.mark.parametrize(
    ("model", "said"),
    [("torchvision.resnet81", "did you mean 'resnet18'"), ("torchvision.resnet18(weights=DEFAULT)", "trained weights")],
)
def test_torchvisions_models_that_cannot_be(
    folder: Path, monkeypatch: pytest.MonkeyPatch, model: str, said: str
) -> None:
    (folder / "torchvision").mkdir()
    (folder / "torchvision" / "__init__.py").touch()
    (folder / "torchvision" / "models.py").write_text(TORCHVISION)
    monkeypatch.syspath_prepend(folder)
    for name in ("torchvision", "torchvision.models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(SpecError, match=said):
        prepare(folder, model, "./data.py:load", 1)


def test_torchvision_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(MissingToolError, match="torchvision, which is not installed") as told:
        prepare(folder, "torchvision.resnet18", "./data.py:load", 1)
    assert told.value.fix == "pip install torchvision"


def test_torchvision_that_was_made_for_another_torch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "torchvision").mkdir()
    (folder / "torchvision" / "__init__.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')"
    )
    monkeypatch.syspath_prepend(folder)
    for name in ("torchvision", "torchvision.models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(MissingToolError, match=r"beside torch .*: operator torchvision::nms"):
        prepare(folder, "torchvision.resnet18", "./data.py:load", 1)
