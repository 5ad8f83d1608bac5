# Needs Python 3.11 or newer and make; everything else is installed into .venv on first use.
#   make PYTHON=python3.12 test      choose another interpreter (before .venv exists)
#   make JOBS=8 test                 use more test processes

PYTHON ?= python3
JOBS ?= 2

VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
# One BLAS thread per test process: several would fight over the same cores.
ENVIRONMENT := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MPLBACKEND=Agg
PYTEST := $(ENVIRONMENT) $(VENV)/bin/python -m pytest -n $(JOBS)

# What each kind of work installs. Pyright also has to see the optional packages that src imports.
EXTRAS_demo := plot,progress
EXTRAS_test := test
EXTRAS_lint := lint
EXTRAS_types := lint,plot,progress,dask,parquet,coco
EXTRAS_bench := bench
EXTRAS_docs := docs,plot,progress,dask,parquet,optuna,sklearn
EXTRAS_release := test,release

.DEFAULT_GOAL := help
.PHONY: help demo test coverage slow oldest newest lint types docs report release bench clean
.NOTPARALLEL:

help: ## show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1	\2/' | expand -t 16

demo: $(VENV)/.extras-demo ## install, then fit a small simulator: error bars, pictures and a report
	$(VENV)/bin/python examples/fit_simulator.py demo
	@echo
	@echo "To reproduce the figures of the paper behind the library, in a minute or two: $(VENV)/bin/sublevel reproduce --quick"

test: $(VENV)/.extras-test ## install and run all tests but the slow ones
	$(PYTEST)

# Takes nearly twice as long as the tests alone.
coverage: $(VENV)/.extras-test ## run the same tests and list the lines that none of them runs
	$(PYTEST) --cov

slow: $(VENV)/.extras-test ## run the slow tests
	$(PYTEST) -m slow

oldest: ## run the tests on the oldest supported versions of the dependencies
newest: ## run the tests on the newest versions of the dependencies
oldest newest:
	$(PYTHON) -m venv --clear $(VENV)-$@
	$(VENV)-$@/bin/python -m pip --disable-pip-version-check install --quiet --upgrade --editable '.[test]' $(if $(filter oldest,$@),--constraint tests/oldest.txt)
	$(VENV)-$@/bin/python -m pip list --format=freeze | grep -iE '^(numpy|scipy|matplotlib|hypothesis|pytest)='
	$(ENVIRONMENT) $(VENV)-$@/bin/python -m pytest -n $(JOBS)

lint: $(VENV)/.extras-lint ## check style and formatting
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check

types: $(VENV)/.extras-types ## check types
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(VENV)/bin/pyright

docs: $(VENV)/.extras-docs ## build the documentation into site/ and check its links; warnings are errors
	$(ENVIRONMENT) $(VENV)/bin/sphinx-build --fail-on-warning --keep-going --quiet -d build/docs docs site
	$(VENV)/bin/python docs/check_site.py site
	@echo "Open site/index.html"

report: $(VENV)/.extras-docs ## print the report on the paper to build/report.pdf; needs Chromium
	$(VENV)/bin/python docs/report/build.py build/report.pdf

release: $(VENV)/.extras-release ## build the wheel and the sdist into dist/, check them and install them in new environments
	rm -rf dist
	$(VENV)/bin/python -m hatchling build -d dist
	$(VENV)/bin/twine check --strict dist/*
	$(VENV)/bin/python -m pytest -m "" tests/test_release.py

bench: $(VENV)/.extras-bench ## list the benchmark commands, ready to run
	@ls benchmarks/*.py 2>/dev/null | sed 's|^|OPENBLAS_NUM_THREADS=1 $(VENV)/bin/python |' | grep . || echo "No benchmarks yet."

clean: ## remove the environment and everything generated
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-newest build dist site docs/api/generated docs/jupyter_execute .coverage .coverage.* htmlcov .hypothesis .pytest_cache .ruff_cache reproduction-quick demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: an installation is repeated only when pyproject.toml or this file changes.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "sublevel needs Python 3.11 or newer; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." >&2; \
	    echo "Name another interpreter, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	    exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.extras-%: pyproject.toml Makefile | $(VENV)/.created
	$(PIP) install --quiet --editable '.[$(EXTRAS_$*)]'
	@touch $@
