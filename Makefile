# `make help` lists what there is. Everything lives in .venv; nothing is installed outside this directory.

ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
FAST := --quiet --quiet --disable-pip-version-check --require-hashes
# Tests wait for servers, browsers and processes half of their time.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 3 / 2 )))

# Settings as they are in production, for the checks that ask about them.
PRODUCTION := PEGBOARD_HTTPS=1 PEGBOARD_HOSTS=pegboard.example \
	PEGBOARD_SECRET_KEY=only-for-the-check-of-these-settings-0123456789-abcdefghijklmnopqrstuvwxyz \
	PEGBOARD_KEYS=check:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=

.DEFAULT_GOAL := help
.PHONY: help run test lint format bench soak operator trust pictures messages requirements clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "make run obeys PORT (8000), DATA (.data), DEMO=0, DATABASE_URL, REDIS_URL; docs/operations.md has the rest."

run: $(VENV)/.runs ## the whole product on this machine, with demo vendors; Ctrl-C stops it and keeps the data
	@exec $(PY) manage.py up --with-parent

# The suite starts hundreds of processes: whatever the shell says, they shall not compile the product each time.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.tests ## every test, on real servers and a real browser; ARGS="-k search" chooses
	@exec $(PY) -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal $(ARGS)

lint: $(VENV)/.tests ## style, types, layers, templates, migrations, production settings
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo
	find templates -name '*.html' -exec $(VENV)/bin/djade --check --target-version 5.2 {} +
	$(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	$(PRODUCTION) $(PY) manage.py check --deploy --fail-level WARNING

format: $(VENV)/.tests ## put code and templates into shape
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	find templates -name '*.html' -exec $(VENV)/bin/djade --target-version 5.2 {} +

bench: $(VENV)/.tests ## the figures, each beside its floor from the same run; ARGS="search" chooses
	@exec $(PY) -m benchmarks $(ARGS)

soak: $(VENV)/.tests ## faults by the hundred, with recovery times; ARGS="--short kills" chooses, --out DIR keeps faults.json
	@exec $(PY) -m soak $(ARGS)

operator: $(VENV)/.tests ## every command of docs/install.md, on Debian machines; before each release and after changes of it or deploy/; needs root
	@exec $(PY) -m tests.operator_run $(ARGS)

trust: $(VENV)/.tests ## the tests behind what docs/security.md promises, and trust-report.html; ARGS="R6" chooses
	@exec $(PY) -m tests.trust --workers $(WORKERS) $(ARGS)

pictures: $(VENV)/.tests ## take the pictures of README.md again, of the product with its demo vendors
	@exec $(PY) -m tests.pictures

messages: $(VENV)/.tests ## find the words of pages, update and compile their translations
	$(PY) -m tests.message_catalog

requirements: $(VENV)/.tests ## compile requirements*.in into exact pins with hashes
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make requirements" \
		requirements.in -o requirements.txt
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make requirements" \
		requirements-dev.in -o requirements-dev.txt

clean: ## remove the virtual environment and caches; .data stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache staticfiles
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@python=""; \
	for each in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
		if $$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$each; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo "Pegboard needs Python 3.11 or newer. Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi; \
	test -x $(PY) || $$python -m venv $(VENV) || uv venv --quiet --seed --python "$$python" $(VENV) || { \
		rm -rf $(VENV); \
		echo "This Python cannot make a virtual environment. On Debian or Ubuntu: apt-get install python3-venv" >&2; \
		exit 1; \
	}
	@touch $@

# uv is several times faster where it is there and reaches packages as pip does; pip is always there. pip needs the pins as
# constraints, too: it would take the newest pydantic for `pydantic[email]`, which a package asks for, and find no hash for it.
define install
	@echo "installing $(1) ..."
	@if command -v uv >/dev/null && VIRTUAL_ENV=$(VENV) uv pip install --quiet --require-hashes $(1:%=-r %) 2>/dev/null; then :; \
	else $(PY) -m pip install $(FAST) $(1:%=-r %) $(1:%=-c %); fi
	@touch $@
endef

$(VENV)/.runs: $(VENV)/.made requirements.txt
	$(call install,requirements.txt)

$(VENV)/.tests: $(VENV)/.runs requirements-dev.txt
	$(call install,requirements-dev.txt)
