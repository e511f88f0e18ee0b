# Every target sets up what it needs: `make demo` and `make test` on a fresh machine are one command each.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help demo paper test matrix minimum campaign check style types examples theory bench fuzz docs browser promtool clean

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

# pip 25.1 knows dependency groups. Python compiles what is imported when it is, a tenth of what is installed, and must be allowed
# to keep it: compiled anew by each of a hundred short processes, it is a third of the tests' time.
export PYTHONDONTWRITEBYTECODE =
PIP := $(BIN)/python -m pip install --quiet --no-compile

$(VENV)/.pip:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade "pip>=25.1"
	touch $@

$(VENV)/.base: pyproject.toml | $(VENV)/.pip
	$(PIP) --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP) --group dev
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP) --group bench
	touch $@

$(VENV)/.demo: $(VENV)/.base
	$(PIP) --editable ".[onnx]"
	touch $@

demo: $(VENV)/.demo  ## the whole pipeline on bundled photographs; ends with commands to try and an HTML report
	$(BIN)/driftcal demo --output runs/demo

paper: $(VENV)/.base  ## every experiment of the paper on bundled data, tables and figures in runs/paper-digits
	$(BIN)/driftcal paper all --data digits --output runs/paper-digits

# Tests run in two processes: threads of BLAS that wait in a loop would take the cores from them.
test matrix minimum campaign check examples: export OMP_NUM_THREADS = 1

# A file stays in one process, so that there is one Ray cluster and what a module prepares is prepared once.
# tests/conftest.py puts the longest files first.
test: $(VENV)/.dev browser promtool  ## all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not theory" $(SKIP) tests

LAWS := $(BIN)/python -m pytest -q -n 2 tests/calibrators/test_laws.py

matrix: $(VENV)/.dev  ## the laws of calibrators under other threads, block sizes, dtypes, memory orders, and without JIT
	$(BIN)/python -m pytest -q -n 2 tests/calibrators/test_configurations.py
	DRIFTCAL_THREADS=1 $(LAWS)
	DRIFTCAL_THREADS=2 DRIFTCAL_TEST_BLOCK_SCORES=53 $(LAWS)
	DRIFTCAL_TEST_BLOCK_SCORES=1 $(LAWS) -k "not pts"

campaign: $(VENV)/.dev  ## 43,000 fits on 1,711 problems, 1,115 exports and 60,000 metrics; about ten minutes
	$(BIN)/python -m tools.campaign
	$(BIN)/python -m tools.metric_campaign

# The lowest declared versions, on every Python that is here: PYTHONS="python3.11 python3.12 python3.13". Python 3.11 is the lowest.
PYTHONS ?= python3.11
MINIMUM_TESTS := tests/calibrators/test_golden.py tests/calibrators/test_weights.py tests/calibrators/test_defects.py \
  tests/calibrators/nonparametric tests/calibrators/windowed tests/core tests/metrics tests/export/test_onnx.py tests/io \
  tests/data/test_tables.py tests/data/test_score_files.py

# Kernels have a folder of their own: processes of an older numba may read half-replaced kernels of a newer one.
minimum:  ## a part of the tests on the lowest versions that pyproject.toml declares
	set -e; for python in $(PYTHONS); do \
	  $$python -m venv --clear $(VENV)-minimum; \
	  $(VENV)-minimum/bin/python -m pip install --quiet --no-compile --upgrade "pip>=25.1"; \
	  $$python tools/minimum.py >$(VENV)-minimum/minimum.txt; \
	  $(VENV)-minimum/bin/python -m pip install --quiet --no-compile -r $(VENV)-minimum/minimum.txt pytest pytest-xdist hypothesis mpmath safetensors; \
	  $(VENV)-minimum/bin/python -m pip install --quiet --no-compile --no-deps --editable .; \
	  NUMBA_CACHE_DIR=$(abspath $(VENV)-minimum)/kernels $(VENV)-minimum/bin/python -m pytest -q -n 2 $(MINIMUM_TESTS); \
	done

check: style types examples  ## style, types, import layers, examples in the docs

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

examples: $(VENV)/.dev
	$(BIN)/python -m pytest tests/test_layers.py tests/test_docs.py

theory: $(VENV)/.dev  ## slow statistical checks
	$(BIN)/python -m pytest -m theory tests

bench: $(VENV)/.bench  ## speed beside the peers; ten minutes to half an hour
	$(BIN)/python -m benchmarks.speed.calibrator_fits
	$(BIN)/python -m benchmarks.speed.shifts

SECONDS ?= 300
fuzz: $(VENV)/.dev  ## mutate files of every kind and open them; SECONDS=300
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.fuzz --seconds $(SECONDS)

$(VENV)/.docs: $(VENV)/.base
	$(PIP) --group docs
	touch $@

docs: $(VENV)/.docs  ## the documentation as a site in site/
	$(BIN)/mkdocs build --strict

# The report is tested in a real browser.
browser:
	@{ command -v chromium && command -v chromedriver; } >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null; } \
	  || { echo "The report's tests need chromium and chromedriver: install Debian's chromium and chromium-driver."; exit 1; }

# Debian's promtool checks the alert rules. Only the program is taken out of its package: the package would start a server. Where it cannot
# be had, its test is skipped.
promtool:
	@command -v promtool >/dev/null || [ -x $(VENV)/bin/promtool ] || { cd $(VENV) && { apt-get update -qq; apt-get download -qq prometheus; } \
	  && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 -C bin ./usr/bin/promtool && rm prometheus_*.deb; } >/dev/null 2>&1 \
	  || echo "The alert rules are not checked: there is no promtool, of Debian's package prometheus."

clean:  ## remove what these targets made
	rm -rf $(VENV) $(VENV)-minimum dist site runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
