# Every target sets up its own virtual environment first and does not repeat what is done.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints/ci.txt

# BLAS kernels of other processors, which OpenBLAS can be told to use; this machine's own are under `test`.
ifeq ($(shell uname -m),x86_64)
KERNELS := Haswell Sandybridge Nehalem Prescott
else
KERNELS := ARMV8 CORTEXA57 NEOVERSEN1
endif

.PHONY: demo docs test test-processors test-integrations test-lowest soak mutants bench lint clean

demo: .venv/.for-use
	$(BIN)/dplan demo
	$(BIN)/python -m experiments run --quick --jobs 2 -o demo-output/benchmark
	$(BIN)/python -m experiments report demo-output/benchmark
	$(BIN)/dplan example --overwrite -o demo-output
	$(BIN)/dplan fit demo-output/forest-train.csv --label label --anomaly cottonwood --id plot --no-estimate --overwrite -o demo-output/forest.dplan
	@echo "Now review the most suspicious plots on a page:  $(BIN)/dplan review demo-output/forest.dplan demo-output/forest-new.csv"

# The site, in build/site, with warnings as errors; the scripts of the gallery and the notebook run. No network is needed.
docs: .venv-docs/.ready
	rm -rf build/site docs/gallery
	.venv-docs/bin/python -m docs.recorded
	.venv-docs/bin/sphinx-build -q -W --keep-going -b html docs build/site
	PATH="$(CURDIR)/.venv-docs/bin:$$PATH" .venv-docs/bin/python -m docs.executed build/site/notebooks
	.venv-docs/bin/python -m docs.links build/site

test: lint
	$(BIN)/python -m pytest -n 2

# What must hold on every processor: the tests marked any_processor, and the kernels without fused multiply-add.
test-processors: .venv/.for-development
	set -e; for kernel in $(KERNELS); do \
	  echo "OPENBLAS_CORETYPE=$$kernel"; \
	  OPENBLAS_CORETYPE=$$kernel $(BIN)/python -m pytest -n 2 -q -m any_processor tests; \
	done
ifeq ($(shell uname -m),x86_64)
	NUMBA_CPU_NAME=nehalem NUMBA_CPU_FEATURES= $(BIN)/python -m pytest -q tests/kernels
endif

# MLflow, Spark and Ray, which are large and need an older pyarrow, in an environment of their own; Spark needs Java.
test-integrations: .venv-integrations/.ready
	.venv-integrations/bin/python -m pytest -W default tests/integrations

# All tests with the oldest versions of every dependency that pyproject.toml allows.
test-lowest: .venv-lowest/.ready
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-lowest/kernels .venv-lowest/bin/python -m pytest -n 2

# Kills, races and hostile input in their full numbers, with their figures.
soak: .venv/.for-development
	$(BIN)/python -m pytest -m soak -s

# Faults that are put into a copy of the source, one at a time, and every small change of the modules that promises rest
# on: each must make a test fail. Both go on where they were interrupted.
mutants: .venv/.for-mutants
	$(BIN)/python -m tests.faults
	$(BIN)/python -m tests.mutants

bench: .venv/.for-development
	$(BIN)/python -m benchmarks

lint: .venv/.for-development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv .venv-docs .venv-integrations .venv-lowest build .mypy_cache .pytest_cache .ruff_cache .hypothesis demo-output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.for-use: .venv/bin/python pyproject.toml constraints/ci.txt
	$(INSTALL) --editable '.[plot,review]'
	touch $@

.venv/.for-development: .venv/bin/python pyproject.toml constraints/ci.txt
	$(INSTALL) --editable '.[dev]'
	touch $@ .venv/.for-use

.venv/.for-mutants: .venv/.for-development
	$(INSTALL) --editable '.[mutants]'
	touch $@

.venv-lowest/.ready: pyproject.toml constraints/lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --constraint constraints/lowest.txt --editable '.[dev]'
	touch $@

.venv-docs/.ready: pyproject.toml constraints/docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --constraint constraints/docs.txt --editable '.[docs]'
	touch $@

.venv-integrations/.ready: pyproject.toml constraints/integrations.txt
	$(PYTHON) -m venv .venv-integrations
	.venv-integrations/bin/python -m pip install --quiet --constraint constraints/integrations.txt --editable '.[integrations]'
	touch $@
