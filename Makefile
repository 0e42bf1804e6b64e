# Everything people do here. `make demo` and `make test` need nothing but Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# onnxruntime and onnxruntime-gpu are one module and break each other: the machine decides.
RUNTIME := $(if $(shell command -v nvidia-smi 2>/dev/null),gpu,cpu)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
DEMO := runs/demo
PARALLEL ?= 2

.PHONY: demo announced serve test suite check lint format types imports size schema bench docs clean

$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "Packages are installed into $(VENV): once, and without a word"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable ".[training,service,$(RUNTIME)]"
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) --editable ".[training,service,$(RUNTIME),dev]"
	touch $@

demo: export DERMFED_REGISTRY_URL := sqlite:///$(CURDIR)/$(DEMO)/registry.db
demo: export DERMFED_STORE := $(CURDIR)/$(DEMO)/store
demo: export BENTOML_HOME := $(CURDIR)/$(DEMO)/bentoml
demo: announced $(VENV)/.installed  ## train on drawn pictures, personalize, calibrate, register, pass the gates, serve, and ask the service
	rm -rf $(DEMO) && mkdir -p $(DEMO)
	@echo; echo "== 1 of 4: draw, train, personalize, export, calibrate and register (most of the time)"
	$(BIN)/python training/run.py training/recipes/demo.yaml --out $(DEMO)/run
	@echo; echo "== 2 of 4: what is in the registry now"
	$(BIN)/dermfed-registry list
	@echo; echo "== 3 of 4: may it answer for patients? The default gates are asked; exit code 1 would be no, and why"
	$(BIN)/dermfed-registry promote demo 1 2 3 --to production --reason "light and medium skin are proven, dark is not"
	@echo; echo "== 4 of 4: the service starts, and is asked about pictures that no model has seen (a few seconds)"
	@set -e; port=$$($(BIN)/python -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'); \
	$(BIN)/dermfed-serve --port $$port > $(DEMO)/service.log 2>&1 & service=$$!; \
	trap 'kill $$service 2>/dev/null; wait $$service 2>/dev/null || true' EXIT; \
	$(BIN)/python deployment/demo.py $(DEMO) http://127.0.0.1:$$port || { cat $(DEMO)/service.log; exit 1; }

announced:  # before anything is installed
	@echo "The demo draws skin lesions (no patients). Three hospitals train one model on theirs together; each skin tone gets"
	@echo "a version of it that is calibrated on its patients; gates decide what may answer; a service answers over HTTP."
	@echo "It takes one to two minutes on two processor cores; the first time Python packages are downloaded before, which"
	@echo "may take as long. Nothing else is downloaded. Results are in $(DEMO)."

serve: $(VENV)/.installed  ## the diagnosis service, with whatever the registry holds
	$(BIN)/dermfed-serve

test:  ## everything that must hold, in minutes; types are checked beside the tests
	+@$(MAKE) --no-print-directory --jobs 4 lint types imports size suite

suite: $(VENV)/.installed-dev  ## the tests alone
	env OMP_NUM_THREADS=1 $$($(BIN)/python tests/scratch.py) $(BIN)/python -m pytest -m "not long and not browser" -n $(PARALLEL) --dist worksteal

check: lint types imports size  ## test, and what takes longer; training once more as on lesser processors
	env OMP_NUM_THREADS=1 $$($(BIN)/python tests/scratch.py) $(BIN)/python -m pytest --hypothesis-profile=thorough -n $(PARALLEL) --dist worksteal
	@set -e; settings=$$($(BIN)/python tests/processors.py); for setting in $$settings; do \
	echo "tests of training under $$setting"; \
	env OMP_NUM_THREADS=1 $$setting $(BIN)/python -m pytest tests/training -m "not long and not browser" -n $(PARALLEL) --dist worksteal; \
	done

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports --no-cache

size: $(VENV)/.installed-dev  ## whether the tree is within the limits of tests/size.py
	$(BIN)/python tests/size.py

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: $(VENV)/.installed-dev  ## the settings of a job, by which misspelt keys are refused before torch is loaded
	$(BIN)/dermfed-train --schema > training/jobs/job.schema.json

docs: $(VENV)/.installed-dev  ## the documentation as a site, in build/docs; a broken link is an error
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs build/docs
	@echo "open build/docs/index.html"

bench: $(VENV)/.installed-dev  ## the measurements of docs/results that need no pictures
	$(BIN)/python benchmarks/loop_overhead.py
	$(BIN)/python benchmarks/kill_and_resume.py
	$(BIN)/python benchmarks/walks.py

clean:
	rm -rf $(VENV) runs build *.egg-info
