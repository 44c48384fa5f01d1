"""DESIGN's import rules as data, checked from the syntax tree: every import counts, wherever in a file it stands."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Package to the packages below it.
BELOW = {
    "kernels": set(),
    "mjx_bench": {"kernels"},
    "policies": {"mjx_bench", "kernels"},
    "evals": {"mjx_bench", "policies", "kernels"},
    "train": {"mjx_bench", "policies", "evals", "kernels"},
    "scripts": {"mjx_bench", "policies", "evals", "train", "kernels"},
}

# What a policy may know of the mechanism: the contracts, the vocabulary and recorded data, no engine.
CONTRACTS = {
    "mjx_bench.task",
    "mjx_bench.policy",
    "mjx_bench.agent",
    "mjx_bench.types",
    "mjx_bench.errors",
    "mjx_bench.records",
    "mjx_bench.seeds",
}

# Floors inside mjx_bench; a module imports from its own floor or one below it.
FLOORS = [
    {"types", "errors", "records", "runtime", "fields", "lane_arrays", "seeds", "rules"},
    {
        "task",
        "policy",
        "physics",
        "control",
        "signals",
        "changes",
        "scenario",
        "manifest",
        "cases",
        "events",
        "observe",
        "preflight",
        "still",
        "reference",
        "selection",
        "sessions",
        "agent",
        "budgets",
        "tools",
    },
    {"measures", "courses", "memories", "predicates", "scoring", "judged"},
    {"checkers", "evidence", "triggers", "rescore", "noted", "shaping"},
    {"episode", "rollout", "engines"},
    {"arms", "pairing", "recording", "passes", "settings"},
    {"schedule", "workers", "inspection", "film", "board", "video", "rerun_export"}
    | {"env_observation", "vector_env", "single_env", "brax_env"},
    {"bench", "cluster", "agents"},
]
# Stand on records alone.
BESIDE = {"stats", "report"}
UNDER_BESIDE = {"types", "errors", "fields", "records", "stats", "report"}

# Module or package to the only modules outside the standard library that it may reach, directly or through ours.
LIGHT = {
    "mjx_bench.types": set(),
    "mjx_bench.errors": set(),
    "mjx_bench.records": set(),
    "mjx_bench.runtime": set(),
    "mjx_bench.seeds": set(),
    "mjx_bench.sessions": set(),
    "mjx_bench.reference": set(),
    "mjx_bench.stats": {"numpy"},
    "evals.libero.package": {"numpy"},
    "scripts.system_check": set(),
}

# Third-party package to the only files that may import it.
CONFINED = {
    "libero": {"evals/libero/builder.py"},
    "robosuite": {"evals/libero/builder.py"},
    "bddl": set(),
    "torch": set(),
    "tyro": {f"scripts/{p.name}" for p in (ROOT / "scripts").glob("*.py")} | {"train/ppo.py"},
    "gymnasium": {f"mjx_bench/{name}.py" for name in ("env_observation", "vector_env", "single_env")}
    | {"evals/envs.py"},
    "brax": {"mjx_bench/brax_env.py", "train/ppo.py"},
    "inspect_robots": {"evals/inspect_plugin.py"},
}


@functools.cache
def modules() -> dict[str, Path]:
    """Dotted name to file, for every module of the six packages."""
    found = {}
    for package in BELOW:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def imports(module: str) -> tuple[tuple[int, str], ...]:
    """(line, dotted name) of all that a module imports; of ours always the module, not a name inside it."""
    path = modules()[module]
    return tuple(_imports(ast.parse(path.read_text()), module, path.name == "__init__.py"))


def _imports(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = module.split(".")[: len(module.split(".")) - node.level + is_package]
                base = ".".join([*parent, *([base] if base else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield node.lineno, inner if inner in modules() else base


def ours(name: str) -> bool:
    return name.split(".")[0] in BELOW


def floor(module: str) -> int | None:
    parts = module.split(".")
    if parts[0] != "mjx_bench" or len(parts) == 1:
        return None
    return next((i for i, rooms in enumerate(FLOORS) if parts[1] in rooms), None)


def room(module: str) -> str:
    return [*module.split("."), ""][1]


def violations(module: str, found: tuple[tuple[int, str], ...]) -> list[str]:
    package = module.split(".")[0]
    out = []
    for line, name in found:
        where = f"{module}:{line} imports {name}"
        top = name.split(".")[0]
        if top == "tests":
            out.append(f"{where}: tests are not for import")
        if not ours(name):
            continue
        if top != package and top not in BELOW[package]:
            out.append(f"{where}: {package} may import only {sorted(BELOW[package])}")
        if package == "policies" and top == "mjx_bench" and name not in CONTRACTS:
            out.append(f"{where}: a policy may know only {sorted(CONTRACTS)}")
        if package == top == "mjx_bench":
            if room(module) in BESIDE:
                if room(name) not in UNDER_BESIDE:
                    out.append(f"{where}: {room(module)} stands on {sorted(UNDER_BESIDE)} alone")
            elif room(name) in BESIDE:
                out.append(f"{where}: nothing in mjx_bench stands on {room(name)}")
            elif (mine := floor(module)) is not None and (theirs := floor(name)) is not None and theirs > mine:
                out.append(f"{where}: floor {theirs} stands above floor {mine}")
    return out


def test_every_import_points_down():
    assert modules(), "no module found"
    assert not [v for m in modules() for v in violations(m, imports(m))]


def test_every_module_of_the_mechanism_has_a_floor():
    homeless = [m for m in modules() if m.startswith("mjx_bench.") and floor(m) is None and room(m) not in BESIDE]
    assert not homeless, f"add {homeless} to FLOORS, and to DESIGN's table of rooms"


def test_no_import_cycles():
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, "import cycle: " + " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for _, name in imports(module):
                if name in modules() and name != module:
                    visit(name, (*path, module))
            done.add(module)

    for module in modules():
        visit(module, ())


@pytest.mark.parametrize("module", [m for m in LIGHT if m in modules()] or ["none"])
def test_light_modules_reach_nothing_heavy(module: str):
    reached: set[str] = set()
    queue = [m for m in modules() if m == module or m.startswith(module + ".")]
    seen = set(queue)
    while queue:
        for _, name in imports(queue.pop()):
            if ours(name):
                if name in modules() and name not in seen:
                    seen.add(name)
                    queue.append(name)
            else:
                reached.add(name.split(".")[0])
    assert reached - set(sys.stdlib_module_names) <= LIGHT[module]


def test_records_and_statistics_load_without_a_simulator():
    script = "import sys, mjx_bench.records, mjx_bench.stats; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"jax", "mujoco", "robosuite", "libero"} & set(done.stdout.split())


@pytest.mark.parametrize("package", CONFINED)
def test_confined_packages(package: str):
    files = {
        modules()[m].relative_to(ROOT).as_posix()
        for m in modules()
        for _, name in imports(m)
        if name.split(".")[0] == package
    }
    assert files <= CONFINED[package]


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("kernels.resize", "import mjx_bench.types", "kernels may import only"),
        ("mjx_bench.signals", "def f():\n    from mjx_bench import pairing", "stands above"),
        ("mjx_bench.signals", "from . import pairing", "stands above"),
        ("mjx_bench.rollout", "from mjx_bench.report import table", "nothing in mjx_bench stands on report"),
        ("mjx_bench.report.table", "from mjx_bench.task import Task", "alone"),
        ("policies.replay", "import mjx_bench.rollout", "a policy may know only"),
        ("evals.registry", "from scripts import cli", "evals may import only"),
    ],
)
def test_the_checker_sees_a_violation(monkeypatch: pytest.MonkeyPatch, module: str, source: str, complaint: str):
    names = ("mjx_bench.pairing", "mjx_bench.report.table", "mjx_bench.rollout", "scripts.cli", "mjx_bench.task")
    known = {**modules(), **dict.fromkeys(names, ROOT)}
    monkeypatch.setattr(sys.modules[__name__], "modules", lambda: known)
    found = tuple(_imports(ast.parse(source), module, is_package=False))
    assert [v for v in violations(module, found) if complaint in v]


def test_files_beside_the_code_are_installed_with_it():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    beside = {
        path
        for package in BELOW
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix in (".json", ".css", ".model", ".toml", ".txt", ".npz", ".xml")
    }
    kept = {path for name, globs in declared.items() for g in globs for path in (ROOT / name.replace(".", "/")).glob(g)}
    assert beside == kept
