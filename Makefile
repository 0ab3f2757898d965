# Everything a newcomer needs is one target; `make` alone prints them.
# The logic lives in small tested modules (pipelines/doctor.py), not here.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# The stamp is written last: a virtual environment without it is half made, and is made again.
STAMP := $(VENV)/.made-from-lock
ARGS ?=

.PHONY: help setup lock demo test test-fast lint bench soak clean

help: ## print this help
	@echo "Lastack measures the RTO and RPO of message brokers."; echo
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' \
	  | while IFS=$$'\t' read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done
	@echo; echo '  Flags pass through ARGS: make demo ARGS="--once --json out.json"'

setup: $(STAMP) ## make .venv from the locked, hash-checked list

$(STAMP): requirements.lock pyproject.toml pipelines/bootstrap.py
	@command -v $(PYTHON) >/dev/null 2>&1 \
	  || { echo "lastack: no $(PYTHON) found; install Python 3.11 or newer, or say which: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) pipelines/bootstrap.py $(VENV)

lock: $(STAMP) ## resolve requirements.lock again from pyproject.toml
	@$(PY) -m piptools compile --quiet --extra dev --generate-hashes --strip-extras --allow-unsafe --no-header \
	  --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements.lock pyproject.toml

demo: $(STAMP) ## start a real 3-broker cluster, kill a leader, measure it, serve the pages
	@$(PY) -m pipelines demo $(ARGS)

test: $(STAMP) ## the whole test suite: domain, Spark, real brokers, browser (15 minutes on 2 cores)
	@$(PY) -m pipelines.doctor browser --install
	@$(PY) -m pytest -m "not soak" $(ARGS)

test-fast: $(STAMP) ## the tests without brokers, Spark or browser (60 s)
	@$(PY) -m pytest -m "not spark and not system and not browser and not soak" $(ARGS)

lint: $(STAMP) ## ruff, mypy --strict, sqlfluff, import-linter
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/sqlfluff lint sql
	@$(VENV)/bin/lint-imports

bench: $(STAMP) ## measure our own speed: one JSON file and a table
	@$(PY) -m pipelines.bench $(ARGS)

soak: $(STAMP) ## the long tests
	@$(PY) -m pytest -m soak --timeout 7200 $(ARGS)

clean: ## remove what was built here (the JAR cache, outside the checkout, stays)
	@rm -rf $(VENV) build dist artifacts .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
