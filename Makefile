# Everything a newcomer needs is one target; `make` alone prints them.
# The logic lives in small tested modules (pipelines/bootstrap.py, pipelines/doctor.py), not here.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
ARGS ?=
FAST := "not spark and not system and not browser and not soak"
# What starts clusters and browsers has the machine for itself; the rest waits more than it works.
SIDE_BY_SIDE := -n 2 --dist loadfile

.PHONY: help setup lock lock-jars demo test test-fast truth truth-spark drills lint bench soak clean

help: ## print this help
	@echo "Lastack measures the RTO and RPO of message brokers."; echo
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' \
	  | while IFS=$$'\t' read -r name text; do printf '  make %-11s %s\n' "$$name" "$$text"; done
	@echo; echo '  Flags pass through ARGS: make demo ARGS="--once --json out.json"'

setup: ## make .venv from the locked, hash-checked list; quick when it is made
	@command -v $(PYTHON) >/dev/null 2>&1 \
	  || { echo "lastack: there is no $(PYTHON); install Python 3.11 or newer, or name it: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) pipelines/bootstrap.py $(VENV)

lock: setup ## resolve requirements.lock again from pyproject.toml
	@$(PY) -m piptools compile --quiet --extra dev --generate-hashes --strip-extras --allow-unsafe --no-header \
	  --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements.lock pyproject.toml

lock-jars: setup ## pin the JARs again from the roots named in conf/jars/*.lock
	@$(PY) -m pipelines.jars lock

demo: setup ## start a real 3-broker cluster, kill a leader, measure it, serve the pages
	@$(PY) -m pipelines demo $(ARGS)

test: setup ## the whole test suite: domain, Spark, real brokers, browser (15 minutes on 2 cores)
	@$(PY) -m pipelines.doctor browser --install
	@$(PY) -m pytest -m $(FAST) $(SIDE_BY_SIDE) $(ARGS)
	@$(PY) -m pytest -m "spark and not soak" $(SIDE_BY_SIDE) --no-loadscope-reorder --durations 10 $(ARGS)
	@$(PY) -m pytest -m "(system or browser) and not soak" --durations 20 $(ARGS)

test-fast: setup ## the tests without brokers, Spark or browser (60 s)
	@$(PY) -m pytest -m $(FAST) $(SIDE_BY_SIDE) $(ARGS)

truth: setup ## hold 10,000 simulated outages against their truth (about a minute, no Spark)
	@$(PY) -m pipelines.brokers.simulated $(ARGS)

truth-spark: setup ## hold 1,000 simulated outages, sent through the whole Spark pipeline, against their truth (some minutes)
	@$(PY) -m pipelines.truth $(ARGS)

drills: setup ## hurt real clusters in every way we know and judge what we say of it (an hour; goes on where it was stopped)
	@$(PY) -m pipelines drill all $(ARGS)

lint: setup ## ruff, mypy --strict, sqlfluff, import-linter
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/sqlfluff lint sql
	@$(VENV)/bin/lint-imports

bench: setup ## measure our own speed: one JSON file and a table
	@$(PY) -m pipelines.bench $(ARGS)

soak: setup ## the long tests
	@$(PY) -m pytest -m soak --timeout 7200 $(ARGS)

clean: ## remove what was built here (the JAR cache, outside the checkout, stays)
	@rm -rf $(VENV) build dist artifacts .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
