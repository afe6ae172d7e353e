# Needs nothing but make and a Python: `make PYTHON=python3.13 test` picks another one.
PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# The stamps carry the version, so that another Python makes the environment anew.
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')
BASE := $(VENV)/.base-$(VERSION)
DEV := $(VENV)/.dev-$(VERSION)
REDIS := $(VENV)/.redis-$(VERSION)
# What the example needs: VTRR_ENGINE=redis make demo, and serve, run it on Redis and Celery.
EXAMPLE := $(if $(filter redis,$(VTRR_ENGINE)),$(REDIS),$(BASE))
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: demo serve test lint bench clean help

demo: $(EXAMPLE) ## run the example once and print how long each tenant waited
	$(BIN)/python -m example_project.demo $(ARGS)

serve: $(EXAMPLE) ## run the example site until Ctrl-C
	$(BIN)/python -m example_project.serve $(ARGS)

test: $(DEV) ## run the tests; ARGS="-k lease" is passed to pytest, "-n 0" runs them in one process
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(DEV) ## check style, types, imports and migrations
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python manage.py makemigrations --check --dry-run --settings=tests.settings

bench: $(DEV) ## measure speed and fairness against other queues
	$(BIN)/python -m benchmarks $(ARGS)

clean: ## remove what make and the tools have made
	rm -rf $(VENV) .bench-venv build dist .coverage .coverage.* htmlcov .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BASE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 11) and sys.exit("expected Python 3.11 or newer, got $(VERSION): say which one to use with make PYTHON=...")'
	@echo "Making $(VENV) with Python $(VERSION) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --upgrade 'pip>=25.1' # the first that knows --group
	@$(PIP) install --editable . --group example
	@touch $@

$(DEV): $(BASE)
	@echo "Adding what tests and checks need ..."
	@$(PIP) install --group dev
	@touch $@

$(REDIS): $(BASE)
	@echo "Adding the clients of Redis and Celery ..."
	@$(PIP) install --editable '.[redis,celery]'
	@touch $@
