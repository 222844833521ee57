# What one does with Slackline.

SHELL := /bin/sh
# Real recordings, where they are at hand; all but a few scenarios do without.
ifneq ($(wildcard ../shared/data),)
export SLACKLINE_DATA ?= $(abspath ../shared/data)
endif
.DEFAULT_GOAL := help
.PHONY: help env demo test site wheel lock clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r target text; do printf '%-12s %s\n' "$$target" "$$text"; done

env: ## Create or update ./.venv with everything (quick when nothing changed)
	@sh tools/make_env.sh

demo: env ## Run the demo: a match, detected early, corrected, and final
	@.venv/bin/slackline run soccer --spark

test: ## Run every check and every test
	@bash tools/run_checks.sh

site: env ## Make the documentation as a site: out/site/index.html
	@.venv/bin/python -m sphinx -q -W --keep-going -b html docs out/site && echo "out/site/index.html written"

wheel: env ## Build a wheel for this Python, with the native core: dist/
	@.venv/bin/python -m pip wheel --quiet --no-deps --no-build-isolation -w dist . && ls dist

lock: env ## Take up the newest versions that pyproject.toml allows: requirements.lock
	@.venv/bin/uv pip compile --quiet --upgrade --universal --all-extras --generate-hashes --no-header --no-annotate --python-version 3.11 -o requirements.lock pyproject.toml

clean: ## Remove ./.venv and everything that was built
	@rm -rf .venv .editable build dist *.egg-info out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis spark-warehouse metastore_db derby.log middleware/native/target
	@find middleware detectors scenarios tests -name __pycache__ -type d -prune -exec rm -rf {} +
	@find middleware -name '*.so' -delete
