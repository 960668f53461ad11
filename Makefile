# make run       serve the app on http://localhost:8501, for this computer only (another port: make run PORT=8600)
# make class     serve it to everybody on this network
# make check     lint and the quick tests: run it while you work
# make test      lint and every test, in three processes (another number: make test WORKERS=4)
# make lint      the linter, the formatter and the type checker
# make style     the linter and the formatter
# make coverage  every test, and the share of core/ and pages/ that the tests run
# make shots     screenshots of every page at four widths in both themes, on one sheet to look at
# make pictures  the screenshots in docs/pages.md, taken again
# make docs      build the documents, with the public names of the code, into site/
# make demo      train what is missing of the shipped results: nothing, as shipped
# make bench     measure how fast everything is and write docs/PERFORMANCE.md; takes half an hour on an idle machine
# make clean     remove what these commands made, except the data folder
.DEFAULT_GOAL := run
.PHONY: run class check test lint style coverage shots pictures docs demo bench clean

PORT ?= 8501
ADDRESS := localhost
HERE = localhost
WHO = this computer alone; make class opens it to the network
PYTHON ?= python3
# One more than two slow cores have: some tests wait for a browser or for another process.
WORKERS ?= 3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --disable-pip-version-check --progress-bar off

run: $(VENV)/.installed
	@if [ -n "$$PHILAB_INSTRUCTOR_KEY" ] && [ $${#PHILAB_INSTRUCTOR_KEY} -lt 12 ]; then \
		echo "PHILAB_INSTRUCTOR_KEY can be guessed: choose one of at least 12 characters, or unset it."; exit 1; fi
	@echo
	@echo "PHI Leak Lab serves on http://$(HERE):$(PORT)  (Ctrl-C stops it)"
	@echo "for $(WHO)"
	@if [ -n "$$PHILAB_CLASS" ]; then echo "the instructor's key, for the queue on the page Train: $$PHILAB_INSTRUCTOR_KEY"; fi
	@echo
	@$(PY) -m core delete-upload --overdue > /dev/null || true
	@$(PY) -m streamlit run app.py --server.address $(ADDRESS) --server.port $(PORT) --browser.serverAddress $(HERE)

# Listens on every network card. HERE is the address that others type; Streamlit accepts only browsers that use it.
class: ADDRESS := 0.0.0.0
class: HERE = $(or $(firstword $(shell hostname -I 2>/dev/null)),localhost)
class: WHO = everybody on this network: they see what is trained here, and can train within limits (README.md)
# PHILAB_CLASS sets strict limits for each student. The instructor enters the key on the page Train to cancel and
# reorder jobs and to close the queue. Both are passed in the environment, because every account of this computer can
# read command lines.
class: export PHILAB_CLASS := 1
class: export PHILAB_INSTRUCTOR_KEY := $(or $(PHILAB_INSTRUCTOR_KEY),$(shell od -An -N10 -tx2 /dev/urandom | sed 's/^ *//;s/ *$$//;s/ /-/g'))
class: run ;

# One thread a process: the processes share the cores. Bytecode is kept, since hundreds of processes import the same code.
PYTEST = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

check: lint
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

# mypy takes one process, so it runs beside the tests. What it says comes after theirs; either can fail all.
test: style
	@.ci/browser $(PY)
	@.ci/nginx
	@said=$$(mktemp) || exit; $(PY) -m mypy >"$$said" 2>&1 & types=$$!; \
	$(PYTEST) $(PYTEST_ARGS); tests=$$?; \
	wait $$types; types=$$?; cat "$$said"; rm "$$said"; [ $$types -eq 0 ] && exit $$tests

coverage: $(VENV)/.installed-dev
	@.ci/browser $(PY)
	@.ci/nginx
	$(PYTEST) --cov --cov-report=term:skip-covered $(PYTEST_ARGS)

lint: style
	$(PY) -m mypy

style: $(VENV)/.installed-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

demo: $(VENV)/.installed
	$(PY) -m core demo $(DEMO_ARGS)

bench: $(VENV)/.installed
	$(PY) -m core bench all --write docs/PERFORMANCE.md $(BENCH_ARGS)

shots: $(VENV)/.installed-dev
	$(PY) -m tests.browser.contact_sheet

pictures: $(VENV)/.installed-dev
	$(PY) -m tests.browser.contact_sheet docs

docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@echo "The documents are in site/index.html."

clean:
	rm -rf site $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis .coverage* dask-scratch-space tests/browser/shots
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp files prevent a second installation. When a list of requirements changes, pip installs what changed.
$(VENV)/.installed: requirements.txt | $(PY)
	$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt requirements.txt | $(PY)
	$(PIP) -r requirements-dev.txt
	@touch $(VENV)/.installed $@

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "PHI Leak Lab needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Set PYTHON=… to another."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); .ci/apt-install python3-venv && $(PYTHON) -m venv $(VENV); } || \
		{ rm -rf $(VENV); echo "Python cannot make a virtual environment: as root run \"apt-get install python3-venv\", then make again."; exit 1; }
