"""What is kept of an episode for its agent: the navigation map, revealed by where the robot has looked, and finger contacts.

Both come from the state after each control step. The map is drawn when it is asked for; of contacts an agent is told which
hand and when, never with what.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.robot_agent_bench.layouts import layouts
from evals.robot_agent_bench.navigation_map import CELL, EVERY, FREE, UNEXPLORED, NavigationMap, camera_of, raster
from evals.robot_agent_bench.robot import PADS, SIDES
from evals.servo import rounded
from mjx_bench.policy import Observation
from mjx_bench.task import Task
from mjx_bench.tools import Told

if TYPE_CHECKING:
    import mujoco

SAME = 1e-3  # metres and radians: a camera that has moved less sees what it saw
MOST_CONTACTS = 20  # of one reply


class Homes:
    """The models of a task's instances: one compiled model, which wears one instance's fields at a time."""

    def __init__(self, task: Task) -> None:
        self._task = task

    @functools.cached_property
    def _model(self) -> mujoco.MjModel:
        return self._task.scene.load_spec().compile()

    def model(self, instance: int) -> mujoco.MjModel:
        """That of an instance, until another is asked for."""
        for name, value in self._task.fields_of(instance).items():
            getattr(self._model, name)[:] = value
        return self._model

    def map(self, instance: int) -> NavigationMap:
        """An empty map of an instance's home."""
        home = self._task.extra["instances"].drawn(instance).home
        return NavigationMap.empty(raster(self.model(instance), layouts()[home.layout]))


class Explorer:
    """A map, and what it was told of the robot's way: states in turn, one a control step."""

    def __init__(self, mapped: NavigationMap) -> None:
        self.map = mapped
        self._looked: np.ndarray | None = None
        self._at: np.ndarray | None = None

    def see(self, state: np.ndarray, look: bool) -> None:
        """Takes in a state [23]; `look` where the camera's view counts."""
        eye, yaw, down = camera_of(state)
        view = np.array([*eye, yaw, down])
        new = look and (self._looked is None or bool(np.abs(view - self._looked).max() > SAME))
        self._looked = view if new else self._looked
        if new or self._at is None or np.abs(state[20:] - self._at).max() > SAME:
            self._at = state[20:]
            self.map.update(state, look=new)


class Senses:
    """See `mjx_bench.tools.Tracker`; of one episode.

    Args:
      homes: of its task.
      instance: that is played.
    """

    def __init__(self, homes: Homes, instance: int) -> None:
        import mujoco

        self._homes, self._instance = homes, instance
        self._model = homes.model(instance)
        self._data = mujoco.MjData(self._model)
        # [ngeom] 0 and 1 for the pads of a side, -1 for any other geom.
        self._side = np.full(self._model.ngeom, -1)
        for pads in PADS:
            for number, name in enumerate(pads):
                self._side[self._model.geom(name).id] = number
        self._robot = self._model.body_rootid == self._model.body("base").id
        self._waiting: list[
            tuple[np.ndarray, bool]
        ] = []  # states that the map has not been told, and whether they look
        self._steps = 0
        self._touching: set[tuple[int, int]] = set()
        self._new: list[dict[str, Any]] = []
        self._explorer: Explorer | None = None

    def saw(self, obs: Observation) -> None:
        """See `Tracker.saw`."""
        step = int(obs.step[0])
        self._waiting.append((obs.joint_pos[0].copy(), step % EVERY == 0))
        now = self._contacts(obs.qpos[0])
        for side, _ in sorted(now - self._touching):
            if step and len(self._new) < MOST_CONTACTS:
                self._new.append({"hand": SIDES[side], "step": step})
        self._touching = now

    def reply(self) -> Mapping[str, Any]:
        """See `Tracker.reply`: which hands' fingers touch something now, and contacts that began since."""
        if self._waiting:  # an observation is delivered now, and looks
            self._waiting[-1] = (self._waiting[-1][0], True)
        sides = {side for side, _ in self._touching}
        told = {
            "fingers_touch": [name for i, name in enumerate(SIDES) if i in sides],
            "new_contacts": self._new,
        }
        self._new = []
        return told

    def told_map(self) -> Told:
        """The map as it is known now."""
        if self._explorer is None:
            self._explorer = Explorer(self._homes.map(self._instance))
        for i, (state, look) in enumerate(self._waiting):
            self._explorer.see(state, look or i == len(self._waiting) - 1)
        self._waiting = []
        return _told(self._explorer.map)

    def _contacts(self, qpos: np.ndarray) -> set[tuple[int, int]]:
        """(side, body) of everything that a pad touches and that is no part of the robot."""
        import mujoco

        model, data = self._model, self._data
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        pairs = data.contact.geom
        found: set[tuple[int, int]] = set()
        for own, other in ((0, 1), (1, 0)):
            sides, bodies = self._side[pairs[:, own]], model.geom_bodyid[pairs[:, other]]
            ok = (sides >= 0) & ~self._robot[bodies]
            found |= set(zip(sides[ok].tolist(), bodies[ok].tolist(), strict=True))
        return found


def _told(mapped: NavigationMap) -> Told:
    """The part of a map that is known, as text and as a picture."""
    grid = mapped.grid()
    i, j = np.nonzero(grid != UNEXPLORED)
    low, high = (i.min(), j.min()), (i.max() + 1, j.max() + 1)
    shown = grid[low[0] : high[0], low[1] : high[1]]
    signs = np.where(shown == UNEXPLORED, "?", np.where(shown == FREE, ".", "#"))
    return Told(
        {
            "resolution_m": CELL,
            "origin_m": rounded(mapped.plan.origin + CELL * np.array(low), 3),
            "rows": ["".join(row) for row in signs.T[::-1]],
            "trajectory": rounded(mapped.trajectory, 2),
            "revealed_area_m2": round(float((grid != UNEXPLORED).sum()) * CELL * CELL, 2),
        },
        {"map": mapped.picture()},
    )
