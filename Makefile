# `make help` lists what a person may want. Everything is installed into .venv, everything that runs keeps its state in .bailiff.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DISTRIBUTIONS := libs libs/core libs/job libs/devstack services/admission services/victim_selection services/eviction_executor services/node_agent services/auditor services/rollup services/console services/kubernetes_bridge
STATE ?= .bailiff
WORKERS ?= 3
# Tests that share a running system are one group, which one worker runs in one go (tests/conftest.py).
GROUPED = -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
NOT := not long and not gpu and not nvml and not compose and not kubernetes
SYSTEM := system and not smoke
unexport PYTHONDONTWRITEBYTECODE  # hundreds of short processes would compile everything anew, each of them

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo up status down test test-system quick test-long test-compose test-kubernetes test-nvml test-gpu gpu-bundle seeds chaos soak mutants check docs docs-site kustomize pictures web bench bench-check size clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(VENV)/.installed ## virtual environment with all distributions and their hash-pinned dependencies

install-dev: $(VENV)/.installed-dev ## the same, with what the tests need

demo: install ## preemptions on a real Kafka, what they cost, and the proof (GPUS=nvml for this machine's own GPUs, STAY=1 to watch it on the web page)
	@$(BIN)/python -m bailiff_devstack.demo $(if $(GPUS),--gpus $(GPUS)) $(if $(STAY),--stay)

up: install ## start the same system and keep it running; on a running one, start what is missing (SECURE=1: Kafka with TLS, users and access lists)
	@$(BIN)/python -m bailiff_devstack.updown up --state $(STATE) $(if $(GPUS),--gpus $(GPUS)) $(if $(SECURE),--secure)

status: install ## what of it runs
	@$(BIN)/python -m bailiff_devstack.updown status --state $(STATE) || [ $$? = 3 ]

down: ## let jobs save, and end what `make up` started; its state stays in .bailiff (NOW=1: do not wait for jobs)
	@$(BIN)/python -m bailiff_devstack.updown down --state $(STATE) $(if $(NOW),--now)

quick: WORKERS = 2
quick: install-dev ## the inner loop: unit tests, scenarios and recorded histories, but the slow ones (about a minute on two cores)
	$(BIN)/python -m pytest -q -m "$(NOT) and not slow" $(GROUPED) tests/unit tests/scenarios tests/histories

test: check ## the checks, every test that needs no whole system, and one story that does (six minutes on two cores)
	$(BIN)/python -m pytest -q -m "$(NOT) and not ($(SYSTEM))" $(GROUPED)

test-system: install-dev ## the stories, real services killed and cut off, on systems of their own (WORKERS=2: at most two at once)
	$(BIN)/python -m pytest -q -m "$(NOT) and $(SYSTEM)" $(GROUPED) tests/acceptance tests/process tests/chaos

test-long: install-dev .venv-frameworks/.installed .venv-spark/.installed ## the exhaustive rest: every fault cell, thousands of seeds, real frameworks
	$(BIN)/python -m pytest -q -m "long and not kubernetes" --timeout 3600
	BAILIFF_TEST_EXAMPLES=all $(BIN)/python -m pytest -q -m "$(NOT)" tests/property

test-compose: install-dev ## the story in containers, where a Docker engine answers
	$(BIN)/python -m pytest -q -m "compose" --timeout 1800 tests/compose

test-kubernetes: install-dev ## the runtime and the bridge on a real Kubernetes: KUBECONFIG, or the cluster that BAILIFF_TEST_KUBERNETES can start (LONG=1: with faults, real controllers and installation)
	BAILIFF_TEST_PATIENCE_S=$${BAILIFF_TEST_PATIENCE_S:-240} $(BIN)/python -m pytest -q -m "kubernetes$(if $(LONG),, and not long)" --timeout 600 $(or $(TESTS),tests/kubernetes tests/contract/test_runtime_contract.py)

test-nvml: install-dev ## the node agent against the libnvidia-ml.so.1 that BAILIFF_TEST_NVML names, such as NVIDIA's mock of it
	$(BIN)/python -m pytest -q -m "nvml"

test-gpu: $(if $(BUNDLE),,install-dev) ## measure this machine's GPU in at most eight minutes, and write docs/measurements.md (BUNDLE=.gpu-bundle: without a network)
	$(if $(BUNDLE),$(PYTHON) tests/gpu/bundle.py run $(BUNDLE),$(BIN)/python -m tests.gpu) $(if $(PAGE),--page $(PAGE))

gpu-bundle: install-dev ## the wheels that test-gpu needs on a machine without a network, in .gpu-bundle (FOR=3.12: its Python)
	$(BIN)/python -m tests.gpu.bundle build .gpu-bundle $(or $(FOR),3.12)

seeds: install-dev ## the simulation on a range of seeds (SEEDS=0-9999); a seed that fails is printed as a short trace
	$(BIN)/python -m tests.simulation $(or $(SEEDS),0-999)

chaos: install-dev ## kill -9 at random, 200 times, under load (SEED=… to see one again)
	$(BIN)/python -m tests.chaos --kills $(or $(KILLS),200) $(if $(SEED),--seed $(SEED))

soak: install-dev ## a real trace at twenty times its speed against all services, with kills: the end is as the first hour (HOURS=2)
	$(BIN)/python -m tests.soak --hours $(or $(HOURS),2)

mutants: install-dev ## one-operator changes of the core that the tests must notice (PACKAGE=victims, FILE=queue/head, or SAMPLE=100 SEED=1; SECONDS=20 of tests each)
	$(BIN)/python -m tests.mutants --seed $(or $(SEED),1) $(if $(PACKAGE),--package $(PACKAGE)) $(if $(FILE),--file $(FILE)) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SECONDS),--seconds $(SECONDS))

check: install-dev ## lint, types, import walls, generated docs
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m bailiff_service.event_reference --check docs/events
	$(BIN)/python -m bailiff.json_schemas --check docs/schemas
	$(BIN)/python -m bailiff.cli_reference --check docs/reference/cli
	$(BIN)/python -m bailiff_auditor.api.openapi --check docs/schemas/api.json
	$(BIN)/python -m bailiff_console.openapi --check docs/schemas/console.json
	$(BIN)/python -m tests.bench.figures --check

docs: install-dev ## regenerate the event, schema and command reference
	$(BIN)/python -m bailiff_service.event_reference docs/events
	$(BIN)/python -m bailiff.json_schemas docs/schemas
	$(BIN)/python -m bailiff.cli_reference docs/reference/cli
	$(BIN)/python -m bailiff_auditor.api.openapi docs/schemas/api.json
	$(BIN)/python -m bailiff_console.openapi docs/schemas/console.json
	$(BIN)/python -m tests.bench.figures

kustomize: ## deploy/kustomize/bailiff.yaml from the chart (needs Helm)
	{ echo "# Made from deploy/helm/bailiff by \`make kustomize\`; do not edit."; \
	  helm template bailiff deploy/helm/bailiff --namespace bailiff --no-hooks --set kafka.bootstrap=kafka:9092; } > deploy/kustomize/bailiff.yaml

docs-site: .venv-docs/.installed ## build the documentation site into build/docs-site (strict: a broken link fails)
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	@echo "open build/docs-site/index.html"

pictures: install-dev ## take every picture of the documentation anew, from the running product (needs chromium)
	$(BIN)/python -m bailiff_devstack.demo --picture docs/pictures/demo.svg
	$(BIN)/python -m tests.kits.console_pictures

web: ## the console's pages from their sources (needs Node 20.19 or later; what is in git is built already)
	npm --prefix services/console/frontend ci --no-fund --no-audit
	npm --prefix services/console/frontend run check
	npm --prefix services/console/frontend test
	npm --prefix services/console/frontend run build

bench: install-dev ## measure every figure of docs/reference/figures.md anew, each beside its baseline: some hours
	$(BIN)/python -m tests.bench --keep

bench-check: install-dev ## compare what is quick to measure with the figures in git, by ratio to its baseline: 20 % worse fails
	$(BIN)/python -m tests.bench --check

size: ## lines of product and tests, by package (COMMIT=…: as they were)
	@$(PYTHON) tests/size.py $(COMMIT)

clean: NOW = 1
clean: down ## remove the virtual environment and all state
	rm -rf $(VENV) .venv-frameworks .venv-spark .venv-docs build/docs-site $(STATE)

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

.venv-spark/.installed: requirements/spark.txt
	@echo "• installing Spark (0.5 GB)"
	@test -x .venv-spark/bin/python || $(PYTHON) -m venv .venv-spark
	@.venv-spark/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/spark.txt
	@touch $@

.venv-docs/.installed: requirements/docs.txt
	@echo "• installing what builds the documentation site"
	@test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@
