# `make help` lists what a person may want. Everything is installed into .venv, everything that runs keeps its state in .bailiff.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DISTRIBUTIONS := libs/core libs/bus libs/job libs/sim libs/client libs/devstack services/admission services/victim_selection services/eviction_executor services/node_agent services/auditor services/rollup services/console
STATE ?= .bailiff
GPUS ?= 8xH100-80GB
WORKERS ?= 2
QUICK := -q -m "not long and not gpu and not compose"
# Folders whose tests start no system of their own (two files share one): some at a time do not starve each other.
SMALL := tests/unit tests/property tests/scenarios tests/histories tests/simulation tests/fuzz tests/contract tests/integration

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo up down test test-long test-compose test-gpu seeds chaos check docs web bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(VENV)/.installed ## virtual environment with all distributions and their hash-pinned dependencies

install-dev: $(VENV)/.installed-dev ## the same, with what the tests need

demo: install ## three preemptions on a real Kafka, what they cost, and the proof (GPUS=nvml for this machine's own GPUs, STAY=1 to watch it on the web page)
	@$(BIN)/python -m bailiff_devstack.demo --gpus $(GPUS) $(if $(STAY),--stay)

up: install ## start the same system and leave it running
	@$(BIN)/python -m bailiff_devstack.updown up --state $(STATE) --gpus $(GPUS)

down: ## end what `make up` started; its state stays in .bailiff
	@$(BIN)/python -m bailiff_devstack.updown down --state $(STATE)

test: check ## everything that is quick (on WORKERS=2 cores; APART=1: systems one at a time)
	$(BIN)/python -m pytest $(QUICK) -n $(WORKERS) --dist loadfile $(if $(APART),$(SMALL))
	$(if $(APART),$(BIN)/python -m pytest $(QUICK) -n 0 tests $(SMALL:%=--ignore=%))

test-long: install-dev .venv-frameworks/.installed ## the exhaustive rest: every fault cell, thousands of seeds, real frameworks
	$(BIN)/python -m pytest -q -m "long" --timeout 3600

test-compose: install-dev ## the story in containers, where a Docker engine answers
	$(BIN)/python -m pytest -q -m "compose" --timeout 1800 tests/compose

test-gpu: install-dev ## on a machine with NVIDIA GPUs
	$(BIN)/python -m pytest -q -m "gpu"

seeds: install-dev ## the simulation on a stretch of seeds (SEEDS=0-9999); a seed that fails is told as a short story
	$(BIN)/python -m tests.simulation $(or $(SEEDS),0-999)

chaos: install-dev ## kill -9 at random, 200 times, under load (SEED=… to see one again)
	$(BIN)/python -m tests.chaos --kills $(or $(KILLS),200) $(if $(SEED),--seed $(SEED))

check: install-dev ## lint, types, import walls, generated docs
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m bailiff_bus.generate --check docs/events
	$(BIN)/python -m bailiff.planschemas --check docs/schemas
	$(BIN)/python -m bailiff_auditor.api.describe --check docs/schemas/api.json

docs: install-dev ## write the generated event reference anew
	$(BIN)/python -m bailiff_bus.generate docs/events
	$(BIN)/python -m bailiff.planschemas docs/schemas
	$(BIN)/python -m bailiff_auditor.api.describe docs/schemas/api.json

web: ## the console's pages from their sources (needs Node 20.19 or later; what is in git is built already)
	npm --prefix services/console/frontend ci --no-fund --no-audit
	npm --prefix services/console/frontend run check
	npm --prefix services/console/frontend test
	npm --prefix services/console/frontend run build

bench: install-dev ## measure, each figure beside its baseline
	$(BIN)/python -m tests.bench

clean: down ## remove the virtual environment and all state
	rm -rf $(VENV) .venv-frameworks $(STATE)

$(VENV)/.installed: requirements/runtime.txt $(DISTRIBUTIONS:%=%/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Bailiff needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) -V). Say which one: make PYTHON=python3.12"; exit 1; }
	@echo "• creating $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "• installing pinned dependencies (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/runtime.txt
	@echo "• installing Bailiff's own distributions"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(DISTRIBUTIONS:%=-e %)
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements/dev.txt
	@echo "• installing what the tests need"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

.venv-frameworks/.installed: requirements/frameworks.txt
	@echo "• installing the training frameworks (PyTorch, Transformers, Lightning: 6 GB)"
	@test -x .venv-frameworks/bin/python || $(PYTHON) -m venv .venv-frameworks
	@.venv-frameworks/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/frameworks.txt
	@touch $@
