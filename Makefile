# Every target sets up what it needs: `make test` on a fresh machine is one command.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: test check bench demo docs theory clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

test: $(VENV)/.installed  ## all tests
	$(BIN)/python -m pytest -n 2 -m "not theory" tests

theory: $(VENV)/.installed  ## slow statistical checks
	$(BIN)/python -m pytest -m theory tests

check: $(VENV)/.installed  ## style, types, import layers, examples in docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layers.py tests/test_docs.py
	
bench: $(VENV)/.installed-bench  ## driftcal beside its peers
	$(BIN)/python -m benchmarks.speed

clean:
	rm -rf $(VENV) dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
