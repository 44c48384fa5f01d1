# Every target sets up .venv by itself; it is reinstalled when pyproject.toml or constraints.txt change.
.PHONY: demo test check clean
.NOTPARALLEL:

PACKAGES = mjx_bench kernels policies evals train scripts
INSTALL_INPUTS = pyproject.toml constraints.txt scripts/setup_venv.sh scripts/system_check.py

demo: .venv/.libero
	.venv/bin/mjx-bench demo

# Modules are divided over a process for each processor, at most four: some tests hold a gigabyte or two.
test: check
	.venv/bin/python -m pytest -n auto --maxprocesses 4 --dist loadfile

check: .venv/.libero-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

# Everything that make, the tests and the tools left behind; the scene cache in ~/.cache/mjx-bench stays.
clean:
	rm -rf .venv build *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find $(PACKAGES) tests -name __pycache__ -prune -exec rm -rf {} +

.venv/.libero: $(INSTALL_INPUTS)
	scripts/setup_venv.sh libero
	@touch $@

.venv/.libero-dev: $(INSTALL_INPUTS)
	scripts/setup_venv.sh libero,warp,rerun,gym,rl,serve,pi05,train,inspect,dev
	@touch .venv/.libero $@
