# Needs python3 (3.11 or later), a C++17 compiler, make and access to a package index; everything else
# goes in .venv.
# Options: PYTHON=python3.12, PYTEST_ARGS="-k graph", WORKERS=0 (tests one after the other),
# REAL_SEEDS=design, REAL_ARGS="--skip LearnHeat", RESULTS_ARGS="uber --data-home data",
# FUZZ_SECONDS=3600, NUMBERS_SECONDS=3600.

PYTHON ?= python3
PYTEST_ARGS ?=
WORKERS ?= auto
REAL_SEEDS ?= judgement
REAL_ARGS ?=
RESULTS_ARGS ?=
FUZZ_SECONDS ?= 20
NUMBERS_SECONDS ?= 60

VENV := .venv
REAL_VENV := .venv-real
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.demo
ACCURACY := benchmarks/bench_accuracy.py
LOCALISE := benchmarks/bench_localise.py
DISTRIBUTED := benchmarks/bench_distributed.py
SCALE := benchmarks/bench_scale.py
REAL := benchmarks/bench_real.py
COVARIANCE := benchmarks/bench_covariance.py
LARGE := benchmarks/bench_large.py
METHODS := benchmarks/bench_methods.py
KERNELS := benchmarks/bench_kernels.py
BENCHMARKS := $(filter-out $(ACCURACY) $(LOCALISE) $(DISTRIBUTED) $(SCALE) $(REAL) $(COVARIANCE) $(LARGE) $(METHODS) $(KERNELS),$(sort $(wildcard benchmarks/bench_*.py)))

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help results setup demo test fuzz hard-numbers soak test-faults test-clusters test-memory test-native test-slow test-matrix lint format bench bench-accuracy bench-distributed bench-real bench-scale docs pictures linkcheck build constraints clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## Create .venv and install heatgraph with everything for development

NATIVE := CMakeLists.txt $(wildcard src/native/*)

# The demonstration needs the library and the report alone; development needs everything.
$(DEMO) $(STAMP): pyproject.toml constraints.txt $(NATIVE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "heatgraph needs Python 3.11 or later, but $(PYTHON) is $$($(PYTHON) -V 2>&1)." >&2; \
	  echo "Name a newer one: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(if $(filter $@,$(DEMO)),report,dev)]'
	@touch $@ $(DEMO)

demo: $(DEMO)  ## Learn a graph from example signals, into demo-output/
	$(BIN)/heatgraph demo --output demo-output --force

test: setup  ## Run the tests and the examples in the docstrings
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-slow: setup  ## Run the slow tests
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

test-matrix: setup  ## Run the tests on each Python that is installed, and with the lowest versions
	$(BIN)/python -m nox

test-faults: setup  ## Fail every call that writes, one after the other, and see what is left
	$(BIN)/python tests/faults/inject.py

test-clusters: setup  ## Kill, freeze and cut off parts of a Dask cluster under fits, for half an hour
	$(BIN)/python tests/faults/clusters.py

test-memory: setup  ## Fit with less memory than it takes, and see what is left
	$(BIN)/python tests/faults/memory.py

fuzz: setup  ## Feed every reader with damaged files, FUZZ_SECONDS each
	$(BIN)/python tests/faults/fuzz.py --seconds $(FUZZ_SECONDS)

hard-numbers: setup  ## Fit 20,000 hard examples, or as many as NUMBERS_SECONDS allow
	$(BIN)/python tests/faults/hard_numbers.py --seconds $(NUMBERS_SECONDS)

soak: setup  ## Fit, impute, save and load 500 times in one process, and see what it keeps
	$(BIN)/python tests/faults/soak.py

SANITIZED := build/sanitized

# Needs GCC. Its module is loaded by its path, so that the installed one stays what it is.
test-native: setup  ## Build the core with sanitizers and run it on arrays of random shapes
	rm -rf $(SANITIZED)
	$(BIN)/python -m pip install --quiet --no-deps --target $(SANITIZED) \
	  --config-settings cmake.define.HEATGRAPH_SANITIZE=ON \
	  --config-settings build-dir=$(SANITIZED)-objects .
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 \
	  $(BIN)/python tests/native_fuzz.py $(SANITIZED)/heatgraph/kernels/_native_1.*

lint: setup  ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Run as modules, from here, so that they share helpers as `benchmarks.<name>`.
bench: setup  ## Run every benchmark of speed
	@test -n "$(BENCHMARKS)" || { echo "There is no benchmarks/bench_*.py to run." >&2; exit 1; }
	@for path in $(BENCHMARKS); do \
	  name=$${path%.py}; echo "== $$path"; \
	  $(BIN)/python -m "$$(echo "$$name" | tr / .)" || exit 1; \
	done

bench-accuracy: setup  ## Run the benchmark of accuracy on graphs that are known
	$(BIN)/python -m $(subst /,.,$(basename $(ACCURACY)))
	$(BIN)/python -m $(subst /,.,$(basename $(LOCALISE)))

bench-distributed: setup  ## Run the benchmark of signals on a cluster
	$(BIN)/python -m $(subst /,.,$(basename $(DISTRIBUTED)))

# The simulators ask for other versions than the library is developed with.
$(REAL_VENV)/.installed: benchmarks/real-requirements.txt
	test -x $(REAL_VENV)/bin/python || $(PYTHON) -m venv $(REAL_VENV)
	$(REAL_VENV)/bin/python -m pip install --quiet --requirement $<
	@touch $@

bench-real: setup $(REAL_VENV)/.installed  ## Run the benchmark on data from elsewhere, for hours
	$(REAL_VENV)/bin/python -m benchmarks.real_data --seeds $(REAL_SEEDS)
	$(BIN)/python -m $(subst /,.,$(basename $(REAL))) --seeds $(REAL_SEEDS) $(REAL_ARGS)
	$(BIN)/python -m $(subst /,.,$(basename $(COVARIANCE))) --seeds $(REAL_SEEDS)
	$(BIN)/python -m $(subst /,.,$(basename $(KERNELS))) --seeds $(REAL_SEEDS)
	$(BIN)/python -m $(subst /,.,$(basename $(METHODS)))

bench-scale: setup $(REAL_VENV)/.installed  ## Run the benchmark of large graphs, for an hour or so
	$(BIN)/python -m $(subst /,.,$(basename $(LARGE)))
	$(BIN)/python -m $(subst /,.,$(basename $(SCALE)))

results: setup  ## Measure again what the pages quote, for hours; goes on where it stopped
	$(BIN)/python -m benchmarks.make_results $(RESULTS_ARGS)

docs: setup  ## Build the documentation in docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

pictures: setup  ## Take the pictures of the README anew; needs chromium
	$(BIN)/python docs/pictures.py

linkcheck: setup  ## Ask every address in the documentation whether it answers
	$(BIN)/python -m sphinx -W --keep-going -b linkcheck docs docs/_build/linkcheck

build: setup  ## Build the wheel and the source archive in dist/
	$(BIN)/python -m build

constraints: setup  ## Pin what .venv now holds in constraints.txt
	{ sed '/^[^#]/d' constraints.txt; \
	  $(BIN)/python -m pip freeze --exclude heatgraph | grep -E '^[A-Za-z0-9._-]+==[^ ]+$$'; \
	} > constraints.new
	mv constraints.new constraints.txt
	@touch $(STAMP)

clean:  ## Remove .venv and everything built
	rm -rf $(VENV) $(REAL_VENV) .nox build dist demo-output docs/_build docs/generated docs/auto_examples docs/auto_tutorials
	rm -f docs/sg_execution_times.rst
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests docs benchmarks examples tutorials -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
