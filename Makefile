# The two commands: `make demo` and `make test`. Both set up what is missing first.
.PHONY: demo test check rehearse

demo:
	@./setup.sh run
	@.venv/bin/testbed doctor --capacity --once
	@.venv/bin/testbed run experiments/quickstart.yaml

# Tests wait for half of their time, for timeouts mostly, so two cores carry four at once.
test: check
	@.venv/bin/pytest -n $$(( $$(nproc) < 4 ? 4 : $$(nproc) )) --dist loadgroup

# The demo's experiment on nine SSH hosts that live in namespaces of this machine, through the playbooks; needs root.
rehearse:
	@./setup.sh test
	@.venv/bin/python -m testbed.lab.baremetal.rehearse

check:
	@./setup.sh test
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/mypy benchmarks/*.py
