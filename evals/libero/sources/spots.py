"""Where things may stand on a workspace, judged by geometry and by one look at contacts; no outcome is looked at."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from evals.libero.sources.edits import model_of
from evals.libero.sources.shape import lowest_point
from evals.libero_max.placing import Layout
from mjx_bench.task import Reset, Task

# How much deeper two things may overlap at the start than they did before, metres.
MAX_DEPTH_M = 0.001
# Where something may be put, metres from the world's origin in x and y.
BOUND_M = 0.6

# Tried one after another: LIBERO-PRO's search for a safe place has at most 32 tries; its list is not public.
_RADII_M = (1.0, 1.15, 1.3, 1.5, 1.8)  # of the requested distance
_ANGLES_DEG = (0.0, 30.0, -30.0, 60.0, -60.0, 90.0, -90.0)
TRIES = 32

# Bodies of LIBERO's rooms that things stand on, besides those named after their table.
_WORKSPACES = ("world", "table", "floor")


def roots_of(task: Task) -> tuple[str, ...]:
    """Entities that stand on the workspace itself, in the task file's order."""
    return tuple(p.entity for p in task.scene.placements if p.support == task.extra["workspace"])


def ground_plan(task: Task, row: np.ndarray, seed: int) -> Layout:
    """What stands on the workspace itself in an initial state; what is on or in something else is not there."""
    layout = Layout.of(task, row, seed)
    roots = roots_of(task)
    return layout.without([name for name in layout.position if name not in roots])


def around(offset: Sequence[float]) -> Iterator[np.ndarray]:
    """The requested offset [2], then others ever further from it in distance and direction; `TRIES` in all."""
    x, y = offset
    made = 0
    for factor in _RADII_M:
        for degrees in _ANGLES_DEG:
            if made == TRIES:
                return
            c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
            yield factor * np.array([c * x - s * y, s * x + c * y])
            made += 1


class Overlaps:
    """Finds what overlaps in an initial state; the robot counts, the table and the floor do not."""

    def __init__(self, task: Task) -> None:
        import mujoco

        # A copy, because fixtures are moved in it.
        self._model = copy.copy(model_of(task.scene))
        self._data = mujoco.MjData(self._model)
        self._bodies = {name: self._model.body(entity.body).id for name, entity in task.scene.entities.items()}
        names = [self._model.body(b).name for b in range(self._model.nbody)]
        self._workspaces = {b for b, name in enumerate(names) if name in _WORKSPACES or name.endswith("_table")}

    def depths(self, row: np.ndarray, reset: Reset) -> dict[tuple[int, int], float]:
        """The deepest overlap, metres, of every two body trees that touch.

        Args:
          row: [1 + nq + nv] the initial state.
          reset: where fixtures stand.
        """
        import mujoco

        model, data = self._model, self._data
        for name, pos in reset.fixture_pos.items():
            model.body_pos[self._bodies[name]] = pos
            model.body_quat[self._bodies[name]] = reset.fixture_quat[name]
        data.qpos[:] = row[1 : 1 + model.nq]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        found: dict[tuple[int, int], float] = {}
        for contact in range(data.ncon):
            a, b = sorted(int(model.body_rootid[model.geom_bodyid[g]]) for g in data.contact.geom[contact])
            if a != b and a not in self._workspaces and b not in self._workspaces:
                found[a, b] = max(found.get((a, b), 0.0), -float(data.contact.dist[contact]))
        return found

    def touches(self, row: np.ndarray, reset: Reset, body: str, pos: np.ndarray) -> bool:
        """Whether a body of the world that is no entity overlaps anything where it is put, upright at `pos` [3]."""
        at = self._model.body(body).id
        self._model.body_pos[at], self._model.body_quat[at] = pos, (1.0, 0.0, 0.0, 0.0)
        return any(at in pair and depth > MAX_DEPTH_M for pair, depth in self.depths(row, reset).items())

    def depth_below(self, body: str) -> float:
        """How far the lowest colliding point of an upright body is below its origin, metres."""
        import mujoco

        model, data, at = self._model, self._data, self._model.body(body).id
        model.body_quat[at] = (1.0, 0.0, 0.0, 0.0)
        mujoco.mj_kinematics(model, data)
        return float(model.body_pos[at][2] - lowest_point(model, data, at))

    @staticmethod
    def worse(before: Mapping[tuple[int, int], float], after: Mapping[tuple[int, int], float]) -> bool:
        """Whether some overlap is deeper after than before, by more than `MAX_DEPTH_M`."""
        return any(depth > before.get(pair, 0.0) + MAX_DEPTH_M for pair, depth in after.items())
