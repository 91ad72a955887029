# Every target sets up its own virtual environment first and does not repeat what is done.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test soak bench lint clean

demo: .venv/.for-use
	$(BIN)/dplan demo
	$(BIN)/dplan benchmark run --quick --jobs 2 -o demo-output/benchmark
	$(BIN)/dplan benchmark report demo-output/benchmark

test: lint
	$(BIN)/python -m pytest -n 2

# Kills, races and hostile input in their full numbers, with their figures.
soak: .venv/.for-development
	$(BIN)/python -m pytest -m soak -s

bench: .venv/.for-development
	$(BIN)/python -m benchmarks

lint: .venv/.for-development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis demo-output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.for-use: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[plot]'
	touch $@

.venv/.for-development: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ .venv/.for-use
