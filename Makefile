# Entry points. Each makes .venv first when it is missing or out of date; nothing needs to be set.
# Overridable: PYTHON (a Python >= 3.11), EXTRAS (of pyproject.toml), DAGSTER_HOME, UI_PORT, PROCESSES (of make test).

SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
EXTRAS ?= dagster,transformers,bench,dev,postgres
UI_PORT ?= 3000
PROCESSES ?= $(shell n=$$(($$(getconf _NPROCESSORS_ONLN) + 1)); echo $$((n < 8 ? n : 8)))
export DAGSTER_HOME ?= $(CURDIR)/dagster_home

BIN := .venv/bin
COMMA := ,
STAMP = .venv/.installed-$(subst $(COMMA),-,$(EXTRAS))

.PHONY: help demo ui test test-slow drills writers test-gpu check format readers mutants bench decoder venv docs release versions constraints clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	@tools/make-venv "$(PYTHON)" "$(EXTRAS)"

venv: $(STAMP)  ## Make or update .venv

demo: $(STAMP)  ## Take the two demo data sets through the whole graph
	@$(BIN)/python build.py demo_loops --table
	@$(BIN)/python build.py demo --table

ui: $(STAMP)  ## Dagster's web interface, on loopback
	@mkdir -p "$(DAGSTER_HOME)" && [ -e "$(DAGSTER_HOME)/dagster.yaml" ] || cp dagster_home/dagster.yaml "$(DAGSTER_HOME)"
	$(BIN)/dagster dev --workspace workspace.yaml --host 127.0.0.1 --port $(UI_PORT)

# One thread of torch and polars per test process: two processes with all cores each are slower than two with one.
test test-slow: export OMP_NUM_THREADS ?= 1
test: export POLARS_MAX_THREADS ?= 1
# Compiling what every process imports, and rewriting its assertions, takes longer than importing it.
test test-slow: export PYTHONDONTWRITEBYTECODE =

# One process more than cores, as each waits for servers, children and the disk for a seventh of its time. A process
# begins with the tests of neighbouring files, which share what a file or a folder builds once.
test: $(STAMP)  ## Fast tests
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal --timeout 120 -m "not medium and not slow and not gpu"

# Tests marked `medium` or `slow`. More than half of the live daemons' time is waiting, so others go on beside them; a
# file's tests stay together.
test-slow: $(STAMP)  ## All others: whole builds, live daemon, browser, servers, drills
	@tools/install-for-tests
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --timeout 900 -m "(medium or slow) and not gpu" || [ $$? -eq 5 ]  # 5: no test yet

drills: $(STAMP)  ## All rounds of the drills, some 50 minutes: benchmarks/results/drills.json
	OMP_NUM_THREADS=1 HEADRACE_DRILLS=full $(BIN)/python -m pytest -q --timeout 3600 -m slow tests/drills \
	  tests/assemble/test_kill.py tests/upkeep/test_gc_interleavings.py

writers: $(STAMP)  ## Corpora by the writers of Lhotse and others: benchmarks/results/writers.json
	HEADRACE_WRITERS_JSON=benchmarks/results/writers.json $(BIN)/python -m pytest -q --timeout 600 -m slow tests/readers/test_other_writers.py

# With GPU_PYTHON, on a machine whose Python has torch for CUDA but no registry: .gpu/ comes from tools/gather-for-gpu.
test-gpu:  ## Tests that need a CUDA device; GPU_PYTHON=python3 where no package can be fetched
ifdef GPU_PYTHON
	$(GPU_PYTHON) -m pip install -q --no-index --no-deps --no-compile --upgrade --target .gpu/site .gpu/wheels/*.whl
	PYTHONPATH=.gpu/site:.gpu:. $(GPU_PYTHON) -m pytest --timeout 300 -p no:cacheprovider tests/gpu
else
	$(MAKE) venv
	$(BIN)/python -m pytest --timeout 300 -m gpu || [ $$? -eq 5 ]
endif

check: $(STAMP)  ## Lint, types, import contracts, plain English
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_phrases.py

format: $(STAMP)  ## Format, and fix what lint can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# yattag, which cosmic-ray needs for pages that are not used here, comes as source alone.
.venv/.mutants: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  --only-binary :all: --no-binary yattag --editable ".[mutants]"
	@touch $@

readers: $(STAMP)  ## Read each form of export with the package that it is for: benchmarks/results/readers.json
	$(BIN)/python -m tools.read_exports

mutants: .venv/.mutants  ## Mutation testing: SAMPLE=40 and MODULES=headrace/format limit it (CONTRIBUTING.md)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 nice -n 15 $(BIN)/python -m tools.run_mutants \
	  $(if $(SAMPLE),--sample $(SAMPLE)) --results benchmarks/results/mutants.json $(MODULES)

decoder: .venv/.decoder  ## Compile the FLAC decoder for AVX2: a quarter less time (docs/scaling.md)

.venv/.decoder: $(STAMP) tools/compile-decoder
	@tools/compile-decoder $(BIN)/python
	@touch $@

bench: $(STAMP)  ## Benchmarks: each prints a table and writes JSON
	@$(MAKE) --no-print-directory decoder || echo "Going on with the decoder of miniaudio's wheel."
	@set -e; for benchmark in benchmarks/*.py; do \
	  case "$$benchmark" in */_*|*\**) continue ;; esac; \
	  echo "== $$benchmark"; $(BIN)/python "$$benchmark"; \
	done

.venv/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  --only-binary :all: --editable ".[docs]"
	@touch $@

docs: .venv/.docs  ## The site of the documentation, with API pages and a search: build/docs/index.html
	$(BIN)/python tools/make_docs.py

release:  ## Build the wheel and the sdist of the committed files, and check them: build/release/dist
	PYTHON="$(PYTHON)" tools/check-release

versions: $(STAMP) release  ## Lowest versions of dependencies, and each Python: benchmarks/results/versions.json
	$(BIN)/python -m tools.check_versions build/release/dist/*.whl

constraints:  ## Resolve pyproject.toml anew: constraints.txt, and the image's hashes (torch stays where it is)
	tools/make-constraints "$(PYTHON)" "$(EXTRAS),ray,mutants,docs"

clean:  ## Remove .venv, caches, built data and Dagster's history
	rm -rf .venv .venv-constraints .venv.lock data *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find dagster_home -mindepth 1 ! -name dagster.yaml -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
