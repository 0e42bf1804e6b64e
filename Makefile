# Everything people do here. `make demo` and `make test` need nothing but Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# onnxruntime and onnxruntime-gpu are one module and break each other: the machine decides.
RUNTIME := $(if $(shell command -v nvidia-smi 2>/dev/null),gpu,cpu)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
DEMO := runs/demo
PARALLEL ?= 2

.PHONY: demo test check lint format types imports bench clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable ".[train,$(RUNTIME)]"
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) --editable ".[train,$(RUNTIME),dev]"
	touch $@

demo: $(VENV)/.installed  ## train on drawn pictures, personalize, calibrate, and diagnose one picture
	rm -rf $(DEMO)
	$(BIN)/python training/run.py training/recipes/demo.yaml --out $(DEMO)
	$(BIN)/dermfed-data synth --out $(DEMO)/pictures --pictures 6 --seed 7
	$(BIN)/python -m registry.bundle.diagnose $(DEMO)/bundles/global $(DEMO)/pictures/images/000000.png
	@echo "report: $(CURDIR)/$(DEMO)/report.html"

test: lint types imports  ## everything that must hold, in minutes
	$(BIN)/python -m pytest -m "not long" -n $(PARALLEL)

check: lint types imports  ## test, and what takes longer
	$(BIN)/python -m pytest -n $(PARALLEL)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev  ## the measurements of docs/results.md that need no pictures
	$(BIN)/python benchmarks/loop_overhead.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/kill_and_resume.py

clean:
	rm -rf $(VENV) runs build *.egg-info
