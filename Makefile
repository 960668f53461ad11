# make run    the app on http://localhost:8501, for this computer alone
# make class  the same for everybody on this network      (another port: make run PORT=8600)
# make test   lint and every test                          make lint   ruff alone
# make demo   train the shipped results again              make clean  remove what these made
# make bench  measure how fast everything is and write docs/PERFORMANCE.md (half an hour, on an idle machine)
.DEFAULT_GOAL := run
.PHONY: run class test demo bench lint clean

PORT ?= 8501
ADDRESS := localhost
HERE = localhost
WHO = this computer alone; make class opens it to the network
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --disable-pip-version-check --progress-bar off

run: $(VENV)/.installed
	@echo
	@echo "PHI Leak Lab serves on http://$(HERE):$(PORT)  (Ctrl-C stops it)"
	@echo "for $(WHO)"
	@if [ -n "$$PHILAB_CLASS" ]; then echo "the instructor's key, for the queue on the page Train: $$PHILAB_INSTRUCTOR_KEY"; fi
	@echo
	@$(PY) -m streamlit run app.py --server.address $(ADDRESS) --server.port $(PORT) --browser.serverAddress $(HERE)

# Listens on every network card; HERE is the address that others type, which Streamlit must know to accept their browsers.
class: ADDRESS := 0.0.0.0
class: HERE = $(or $(firstword $(shell hostname -I 2>/dev/null)),localhost)
class: WHO = everybody on this network: they see what is trained here, and can train within limits (README.md)
# Strict limits for each student; with the key, entered on the page Train, the instructor cancels, reorders and closes.
# In the environment and not in a command: every account of this computer can read command lines.
class: export PHILAB_CLASS := 1
class: export PHILAB_INSTRUCTOR_KEY := $(or $(PHILAB_INSTRUCTOR_KEY),$(shell od -An -N10 -tx2 /dev/urandom | sed 's/^ *//;s/ *$$//;s/ /-/g'))
class: run ;

test: lint
	@.ci/browser $(PY)
	$(PY) -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

demo: $(VENV)/.installed
	$(PY) -m core demo $(DEMO_ARGS)

bench: $(VENV)/.installed
	$(PY) -m core bench all --write docs/PERFORMANCE.md $(BENCH_ARGS)

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis dask-scratch-space tests/browser/shots
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps hold that a second call installs nothing; a changed list of requirements installs what changed.
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
