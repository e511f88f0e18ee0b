# Every target sets up what it needs: `make demo` and `make test` on a fresh machine are one command each.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help demo paper test check theory bench docs browser clean

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

# pip 25.1 knows dependency groups
$(VENV)/.base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

demo: $(VENV)/.base  ## the whole pipeline on bundled real data; ends with the path of an HTML report
	$(BIN)/driftcal demo --output runs/demo

paper: $(VENV)/.base  ## every experiment of the paper on bundled data, tables and figures in runs/paper-digits
	$(BIN)/driftcal paper all --data digits --output runs/paper-digits

test: $(VENV)/.dev browser  ## all tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not theory" $(SKIP) tests

check: $(VENV)/.dev  ## style, types, import layers, examples in the docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 tests/test_layers.py tests/test_docs.py

theory: $(VENV)/.dev  ## slow statistical checks
	$(BIN)/python -m pytest -m theory tests

bench: $(VENV)/.bench  ## speed beside the peers; about half an hour
	$(BIN)/python -m benchmarks.speed.calibrators
	$(BIN)/python -m benchmarks.speed.shifts

$(VENV)/.docs: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

docs: $(VENV)/.docs  ## the documentation as a site in site/
	$(BIN)/mkdocs build --strict

# The report is tested in a real browser.
browser:
	@{ command -v chromium && command -v chromedriver; } >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null; } \
	  || { echo "The report's tests need chromium and chromedriver: install Debian's chromium and chromium-driver."; exit 1; }

clean:  ## remove what these targets made
	rm -rf $(VENV) dist site runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
