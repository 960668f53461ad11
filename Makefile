# make run   the app on http://localhost:8501        make test   lint and every test
# make demo  train the shipped results again          make lint   ruff alone          make clean   remove what these made
.DEFAULT_GOAL := run
.PHONY: run test demo lint clean

PORT ?= 8501
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --disable-pip-version-check --progress-bar off

run: $(VENV)/.installed
	@echo
	@echo "PHI Leak Lab serves on http://localhost:$(PORT)  (Ctrl-C stops it)"
	@echo
	@$(PY) -m streamlit run app.py --server.port $(PORT) --server.headless true --browser.gatherUsageStats false

test: lint
	@.ci/browser $(PY)
	$(PY) -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

demo: $(VENV)/.installed
	$(PY) -m core demo $(DEMO_ARGS)

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis dask-scratch-space tests/browser/shots
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
