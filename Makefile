# The developer's verbs. Each works from a clean clone with python3 (3.11 or newer), make and g++; what a verb needs, it sets up
# in .venv, and stamp files there keep a second run quick.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2

# The compiled kernels must build wherever there is a compiler; without one, the reference backend serves.
HAS_COMPILER := $(shell for c in $${CXX:-c++ g++ clang++}; do command -v $$c >/dev/null && echo 1 && exit; done; echo 0)
INSTALL      := MIXPREC_REQUIRE_KERNELS=$(HAS_COMPILER) $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
BUILD_TOOLS  := scikit-build-core nanobind cmake ninja

KERNEL_SOURCES := $(wildcard CMakeLists.txt) $(shell find csrc -type f 2>/dev/null)

# Rounding is independent of the thread count, and two test processes on two cores are faster with one thread each.
TEST_ENV := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1

.PHONY: help demo reproduce test test-fast test-slow lint types imports format bench docs clean
.DEFAULT_GOAL := help
.NOTPARALLEL:

help: ## list the verbs
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.installed ## train a small GPT under several precisions and write the report
	$(BIN)/mixprec compare gpt

reproduce: $(VENV)/.installed ## the miniatures as comparisons: expected beside measured; ONLY=5, QUICK=1
	$(BIN)/python examples/numerics/reproduce.py $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

test: lint types imports test-fast test-slow ## every check: lint, types, import contracts, fast and slow tests

test-fast: $(VENV)/.dev ## the tests of a few minutes
	$(TEST_ENV) $(BIN)/python -m pytest -n $(JOBS) -m "not slow"

test-slow: $(VENV)/.dev ## the miniatures: small trainings with expected outcomes
	$(TEST_ENV) $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m slow tests

lint: $(VENV)/.dev ## ruff: rules and layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## pyright, strict on src
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --project pyproject.toml --pythonpath $(BIN)/python

imports: $(VENV)/.dev ## the contracts between packages
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench ## the benchmarks, beside their peers; about ten minutes
	$(BIN)/python -m benchmarks

docs: $(VENV)/.docs ## the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## remove the environment and all that was built
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks \( -name __pycache__ -o -name '_native*.so' \) -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || { echo "make: no '$(PYTHON)' found: install Python 3.11 or newer, or name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("make: %s is Python %s; 3.11 or newer is needed: make PYTHON=python3.12 ..." % (sys.executable, sys.version.split()[0]))'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt $(KERNEL_SOURCES)
	@test $(HAS_COMPILER) = 1 || echo "make: no C++ compiler found; the slower reference backend will serve" >&2
	@echo "make: installing into $(VENV) (a few minutes the first time)"
	$(INSTALL) $(BUILD_TOOLS)
	$(INSTALL) --no-build-isolation -e .
	@touch $@

# The extras are installed once; the kernels again whenever their sources are newer.
$(VENV)/.dev $(VENV)/.bench $(VENV)/.docs: $(VENV)/.%: $(VENV)/.created pyproject.toml constraints.txt | $(VENV)/.installed
	$(INSTALL) --no-build-isolation -e ".[$*]"
	@touch $@
