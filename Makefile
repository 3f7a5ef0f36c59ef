# `make demo` and `make test` work on a machine that has only Python 3.11+, make and a package registry.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo reproduce quick test tests alone package lint types format records clean

demo: $(VENV)/installed
	$(BIN)/python -m lab.demo

# A table of the paper, e.g. `make reproduce TABLE=table2`; ONLY names one experiment, and ARGS has other options.
TABLE ?= table2
reproduce: $(VENV)/installed
	$(BIN)/python -m lab.reproduce $(TABLE) $(if $(ONLY),--only $(ONLY)) $(ARGS)

# One process per core: threads that share a core wait for each other longer than they compute.
quick tests alone: export OMP_NUM_THREADS := 1
# Compiled modules are kept: child processes and the next run would compile them again.
quick tests alone: export PYTHONDONTWRITEBYTECODE :=

quick: $(VENV)/installed
	$(BIN)/python -m pytest -m "not alone and not slow and not package" -n auto --maxprocesses 4 --dist worksteal

# mypy runs on one core, so tests start beside it.
test: $(VENV)/installed
	$(MAKE) --jobs 2 lint tests
	$(MAKE) alone

tests: $(VENV)/installed
	$(BIN)/python -m pytest -m "not alone and not package" -n auto --maxprocesses 4 --dist worksteal

alone: $(VENV)/installed
	$(BIN)/python -m pytest -m alone $$(grep -rl --include="*.py" mark.alone tests)

# The wheel and the source archive, installed with their dependencies into an empty environment, train a network.
package: $(VENV)/installed
	$(BIN)/python -m pytest -m package tests/test_packaging.py

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	@if command -v npm > /dev/null; then $(MAKE) types; else echo "npm is missing: types of the playground not checked"; fi

# Types of the playground's scripts, for which TypeScript is downloaded once.
types: web/node_modules
	npm --prefix web run --silent check

web/node_modules: web/package-lock.json
	npm --prefix web ci --silent
	@touch $@

# The pages of the record are current: no test, since the record is data.
records: $(VENV)/installed
	$(BIN)/python -m lab.tables --check

# The site, in docs/_build/html/index.html. A warning fails, and so does a link that leads nowhere.
.PHONY: docs
docs: export OMP_NUM_THREADS := 1
docs: $(VENV)/docs-installed
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs . docs/_build/html

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python must be 3.11 or newer. Use make PYTHON=/path/to/python3.12.")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(VENV)/docs-installed: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

clean:
	rm -rf docs/_build docs/api docs/tutorials
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
