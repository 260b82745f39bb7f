# Everything a newcomer needs: `make demo` and `make test`. Both create .venv on first use and work again when run twice.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What is never imported need not be compiled: Python compiles the rest when it first runs.
INSTALL := $(BIN)/python -m pip --disable-pip-version-check --quiet install --no-compile --editable

.PHONY: demo test test-all test-slow lint types format generate golden golden-diff packages lock vulnerabilities sbom release bench real-vllm real-stacks docs clean

demo: $(VENV)/.installed
	@$(BIN)/inferdoc demo
	@echo && echo "(. $(BIN)/activate puts inferdoc on your PATH)"

# Tests start many processes: without bytecode each would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist loadfile

test: $(VENV)/.installed-test
	@$(PYTEST)

# What `make test` leaves out, since it takes long; PART=1/3 runs a third of it.
test-all: test
	@$(MAKE) --no-print-directory test-slow

test-slow: $(VENV)/.installed-test
	@$(PYTEST) -m slow --part $(or $(PART),1/1)

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || (echo "not formatted: run make format" && exit 1)
	@$(BIN)/vulture
	@$(BIN)/hadolint packaging/Containerfile

types: $(VENV)/.installed-dev
	@$(BIN)/mypy

format: $(VENV)/.installed-dev
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix --quiet .

# Rules, Alertmanager routes, dashboards and the "Fires when" part of the runbooks, from the YAML that declares them.
generate: $(VENV)/.installed-test
	@$(BIN)/python -m inferdoc_dev.generate

# The answers to every fixture, into fixtures/golden. `golden-diff` prints what differs and exits 1 if anything does.
# ONLY='fleets/*' takes these cases; AGAINST=main compares the stored answers with those of a git revision.
golden: $(VENV)/.installed-test
	@$(BIN)/python -m tools.golden write $(if $(ONLY),--only '$(ONLY)')

golden-diff: $(VENV)/.installed-test
	@$(BIN)/python -m tools.golden diff $(if $(ONLY),--only '$(ONLY)') $(if $(AGAINST),--against '$(AGAINST)')

# The kustomize base and what else of packaging/ is generated, by the helm of build/bin.
packages: $(VENV)/.installed-test build/bin/helm
	@PATH="$(CURDIR)/build/bin:$$PATH" $(BIN)/python packaging/build.py

build/bin/helm: $(BIN)/python packaging/tools.py
	@$(BIN)/python packaging/tools.py build/bin

# Versions and hashes of what the image and CI install, for every Python from 3.11 on.
LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet --upgrade
lock: $(VENV)/.installed-release
	@$(LOCK) --extra all --output-file packaging/requirements.txt
	@$(LOCK) --extra test --extra dev --extra release --output-file packaging/requirements-ci.txt

# Known vulnerabilities of what the image contains. pip-audit reads a database on the network: install it beside, once.
vulnerabilities:
	@pip-audit --disable-pip --require-hashes --requirement packaging/requirements.txt

# What a release contains, as CycloneDX.
SBOM := dist/inferdoc.cdx.json
sbom: $(VENV)/.installed-release
	@mkdir -p $(dir $(SBOM))
	@$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --of JSON \
	  --output-file $(SBOM) packaging/requirements.txt

# Every artefact of a release with checksums into dist/, from a clean checkout at the tag v<version> of inferdoc/version.py.
# ARGS=--untagged builds a trial; ARGS='--base-url URL' sets the address of the artefacts in the manifest of the kubectl plugin.
release: $(VENV)/.installed-release $(VENV)/.installed-test build/bin/helm
	@$(BIN)/python packaging/release.py $(ARGS)

# Speed in at most ten minutes on two cores; without these options the scripts measure the sizes of docs/measurements/benchmarks.md.
bench: $(VENV)/.installed-test
	@$(BIN)/python benchmarks/parse.py
	@$(BIN)/python benchmarks/store.py --hours 4
	@$(BIN)/python benchmarks/diagnose.py --pods 8 64 --health some --turns 2

# A real vLLM (CPU build) under load and under faults on this machine, then fleets of it on simulated accelerators, diagnosed
# live, into docs/measurements/real-vllm.md. Not in CI: it installs some 4 GB and takes half an hour.
real-vllm: $(VENV)/.installed build/real-vllm/.installed
	@$(BIN)/python -m benchmarks.real_vllm

# Dynamo and routers from PyPI under load and under faults, recorded by a real Prometheus and diagnosed, into
# docs/measurements/real-stacks.md. Not in CI: it installs 1.5 GB beside vLLM and takes 35 minutes.
real-stacks: $(VENV)/.installed build/real-vllm/.installed build/real-stacks/.installed
	@$(BIN)/python -m benchmarks.real_stacks

# The documentation site in build/site; every cause at /runbooks/<id>/. Needs the network for the first installation only.
docs: $(VENV)/.installed-docs
	@rm -rf build/site
	@$(BIN)/python docs/site/build.py build/site

clean:
	rm -rf $(VENV) build/site build/real-vllm build/real-stacks .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  (echo "inferdoc needs Python 3.11 or later: try make PYTHON=python3.11" >&2; exit 1)
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  (echo "Python's venv module is missing: apt-get install python3-venv, then run this again" >&2; exit 1)
	@echo "creating $(VENV) and installing inferdoc (a minute on first use)" >&2
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml
	@$(INSTALL) .
	@touch $@

build/real-vllm/.installed: $(BIN)/python benchmarks/real_vllm/requirements.txt benchmarks/real_vllm/install.py
	@$(BIN)/python benchmarks/real_vllm/install.py build/real-vllm/.venv
	@touch $@

build/real-stacks/.installed: $(BIN)/python $(wildcard benchmarks/real_stacks/requirements/*.txt) benchmarks/real_stacks/install.py
	@$(BIN)/python benchmarks/real_stacks/install.py build/real-stacks
	@touch $@

# The last lines compile the tests, by two processes, which else every worker would do for itself.
$(VENV)/.installed-test: $(BIN)/python pyproject.toml
	@$(INSTALL) '.[test]'
	@touch $(VENV)/.installed
	@find tests -name 'test_*.py' | sort | xargs -n 120 -P 2 $(BIN)/python -m pytest --collect-only -qq >/dev/null || true
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed-test
	@$(INSTALL) '.[test,dev]'
	@touch $@

$(VENV)/.installed-release: $(VENV)/.installed
	@$(INSTALL) '.[release]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	@$(INSTALL) '.[all,docs]'
	@touch $@
