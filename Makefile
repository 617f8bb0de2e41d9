# The two commands: `make demo` and `make test`. Both set up what is missing first.
.PHONY: demo test check

demo:
	@./setup.sh run
	@.venv/bin/testbed run experiments/quickstart.yaml

test: check
	@.venv/bin/pytest -n auto

check:
	@./setup.sh test
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/mypy benchmarks/*.py
