# The two commands: `make demo` and `make test`. Both set up what is missing first.
.PHONY: demo test static pytest check docs rehearse lock audit test-oldest test-torch

demo:
	@./setup.sh run
	@.venv/bin/testbed doctor --capacity --once
	@.venv/bin/testbed run experiments/quickstart.yaml

# Tests wait for a part of their time, for timeouts mostly, so two cores carry four at once, and static checks and the
# documentation beside them. What those say comes when they end.
test:
	@./setup.sh test
	@$(MAKE) --no-print-directory --jobs=3 static pytest

static:
	@$(MAKE) --no-print-directory --output-sync check docs

pytest:
	@./setup.sh test
	@.venv/bin/pytest -n $$(( $$(nproc) < 4 ? 4 : $$(nproc) )) --dist loadgroup

# The demo's experiment on nine SSH hosts that live in namespaces of this machine, through the playbooks; then the tests that are
# too long for `make test`, on such hosts for the most part. Needs root.
rehearse:
	@./setup.sh test
	@.venv/bin/python -m tests.rehearsal.rehearse
	@.venv/bin/pytest -m rehearse

check:
	@./setup.sh test
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/mypy benchmarks/*.py
	@.venv/bin/mypy --package docs.generate
	@.venv/bin/lint-imports

# The documentation, in docs/_build/html. A link that leads nowhere is an error.
docs:
	@./setup.sh test
	@.venv/bin/sphinx-build --quiet --fail-on-warning --jobs auto docs docs/_build/html

# Writes requirements/ anew: every package with the hashes of its files. What is there stays at its version if pyproject.toml
# allows it; UPGRADE=--upgrade takes the newest. Asks the index that UV_DEFAULT_INDEX names, otherwise uv's own.
COMPILE = .venv-tools/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-package torch --constraint requirements/torch.txt --custom-compile-command 'make lock' $(UPGRADE) pyproject.toml
lock:
	@./setup.sh tools
	@$(COMPILE) --output-file requirements/run.txt
	@$(COMPILE) --extra dev --extra mpi --extra mininet --extra docker --extra baremetal --extra watch --extra plink --extra dask \
		--extra collectives --extra lightgbm --extra docs --extra chakra \
		--constraint requirements/run.txt --output-file requirements/test.txt
	@$(COMPILE:pyproject.toml=) --group tools --output-file requirements/tools.txt

# Asks a public database, over the network, for known faults of the versions in requirements/, and of PyTorch's.
audit:
	@./setup.sh tools
	@requirements/audit.sh

# The lowest versions that pyproject.toml allows, and the tests that need neither a network nor a browser.
test-oldest:
	@./setup.sh oldest
	@.venv-oldest/bin/pytest -n $$(nproc) -m 'not lab' tests/topologies tests/workloads tests/testbed/spec tests/analysis \
		--ignore tests/analysis/report

# The back end's tests, and PyTorch's own of its collectives, with another PyTorch: `make test-torch VERSION=2.14.1`. With
# TORCH_ANY=1 it takes a CUDA build, of several gigabytes, where there is no other.
test-torch:
	@TORCH_VERSION=$(VERSION) ./setup.sh torch
	@.venv-torch-$(VERSION)/bin/pytest -n $$(nproc) tests/workloads/kinds/script tests/testbed/execution/test_scripts.py
	@.venv-torch-$(VERSION)/bin/python benchmarks/pytorch_tests.py
