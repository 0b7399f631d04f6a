# Every target sets up the environment by itself. VENV and PYTHON may be overridden:
#   make test VENV=/tmp/elsewhere PYTHON=/usr/bin/python3.11

VENV ?= .venv
PYTHON ?= python3.11
DISTRIBUTIONS := hookspecs ett_plugins/record ett_plugins/timeline ett_plugins/autoload reference_model
SOURCES := $(addsuffix /src,$(DISTRIBUTIONS))

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
STAMP := $(VENV)/.installed

DEMO_DIR := runs/demo
DEMO_FLAGS := --data movielens --preset small --ranks 1 --with timeline --kill-at 20000,50000

.PHONY: setup demo test bench docs lint clean
.DELETE_ON_ERROR:

setup: $(STAMP)

$(STAMP): $(wildcard requirements/*.txt) $(addsuffix /pyproject.toml,$(DISTRIBUTIONS))
	@echo "Installing into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install -c requirements/constraints.txt -r requirements/1-torch.txt
	@$(PIP) install -c requirements/constraints.txt -r requirements/2-rest.txt
	@$(PIP) install -c requirements/constraints.txt --no-deps -r requirements/3-no-deps.txt
	@$(PIP) install --no-deps --no-build-isolation $(addprefix -e ,$(DISTRIBUTIONS))
	@touch $@

demo: $(STAMP)
	rm -rf $(DEMO_DIR)
	$(BIN)/ett-reference train --job-dir $(DEMO_DIR) $(DEMO_FLAGS)
	$(BIN)/ett report $(DEMO_DIR)

test: lint docs $(STAMP)
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	for source in $(SOURCES); do $(BIN)/mypy $$source || exit 1; done
	$(BIN)/lint-imports --no-logo

docs: $(STAMP)
	$(BIN)/sphinx-build -W --keep-going -q -b html -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -q -b doctest -d docs/_build/doctrees docs docs/_build/doctest

bench: $(STAMP)
	for script in benchmarks/*.py; do echo "$$script"; $(BIN)/python "$$script" --json || exit 1; done

clean:
	rm -rf $(VENV) runs docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
