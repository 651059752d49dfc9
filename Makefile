# Everything runs in .venv, made on first use and kept until pyproject.toml changes.
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
PYTEST_ARGS ?= -n $(WORKERS) --dist worksteal

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help test lint format demo docs bench clean

help: ## Show what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1 \t\2/'

# The workers share the cores already: threads of BLAS beside them only wait for one another.
test: export OPENBLAS_NUM_THREADS ?= 1
test: export OMP_NUM_THREADS ?= 1
test: lint ## Check style and types, then run every test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.installed-test ## Check style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-test ## Tidy the code: formatting, import order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(VENV)/.installed-plot ## Run the paper's experiments, small, and write an HTML page about them
	$(BIN)/lrvb reproduce --quick

docs: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/.installed-test ## Rewrite the paper map, run the gallery, build the site into site/, run every example
	$(BIN)/python tests/test_paper_map.py
	$(BIN)/python docs/building/gallery.py
	$(BIN)/python -m mkdocs --quiet build
	$(BIN)/python -m pytest tests/test_docs.py tests/test_paper_map.py tests/test_site.py
	@echo "The documentation is in site/index.html"

bench: $(VENV)/.installed-bench ## Run the benchmarks, one after another
	@set -e; for script in benchmarks/*.py; do \
	  if [ -e "$$script" ]; then echo "== $$script"; $(BIN)/python "$$script"; \
	  else echo "There are no benchmarks yet."; fi; \
	done

clean: ## Remove the environment and everything built
	rm -rf $(VENV) build dist site reproduction reproduction-quick .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per extra; the package itself is installed editable, so only pyproject.toml matters.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[$*]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("lrvb needs Python 3.11 or newer; try make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
