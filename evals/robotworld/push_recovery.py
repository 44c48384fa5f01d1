"""`quadruped_push_recovery`: walk to the goal, keep upright when pushed, and stand still at the goal at the end.

Task 72 of RobotWorld, scoring profile W. What differs from it:

* Poses, velocities and touches are judged as each control step found them, 5 ms earlier than there.
* Where the start is, and its heading, are ours (anywhere within half a metre, any heading); joints start in the posture of
  u = 0, everything at rest. Directions of the pushes come from a generator of our own.
* Any touch of trunk and ground counts as base contact; there it takes 1 N. Legs do not touch anything but with their feet.
* The ground's friction (0.8) is not public. The Go2: `go2.py`.
* A state that is not finite voids the arm (infrastructure).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from evals.instances import EVALUATION, TRAINING, Starts, reset_to_nothing
from evals.libero_max.eligibility import VISUAL
from evals.libero_max.placing import Layout
from evals.robotworld import go2
from evals.robotworld.driving import atom
from evals.robotworld.payload import quat_of
from mjx_bench.evidence import samples_of_hold
from mjx_bench.seeds import fold_seed
from mjx_bench.task import (
    Atom,
    Entity,
    Placement,
    Push,
    Rules,
    Scene,
    Task,
)

if TYPE_CHECKING:
    import mujoco

NAME = "quadruped_push_recovery"
INSTRUCTION = "walk to the green goal, recover from the pushes and stand still there"
VERSION = "1"  # of the generator: changes when an index comes to stand for another instance
HORIZON = 1000  # 20 s

# Bounds of the hold: metres, m/s, radians.
AWAY, PACE, TILT = 0.25, 0.10, math.radians(20.0)
AROUND = 0.5  # metres around the world's origin, of the start, each way
PUSH_TIMES, PUSH_SECONDS, PUSH_FORCE = (6.0, 14.0), 0.2, 30.0

GOAL = (
    atom("apart", "trunk_frame", "goal", bound=("<=", AWAY)),
    atom("pace", "trunk", bound=("<=", PACE)),
    atom("tilt", "trunk_frame", bound=("<=", TILT)),
)
RULES = Rules(
    hold=samples_of_hold(2.0, go2.CONTROL_HZ),
    failures=(atom("beyond", "trunk_frame", "corridor", bound=(">", 0.0)), Atom("touched", ("ground",))),
)


@dataclasses.dataclass(frozen=True)
class Drawn:
    """One instance.

    Attributes:
      start: x and y of the trunk, metres, and its heading, radians.
      pushes: policy step to the push that comes with it.
    """

    start: tuple[float, float, float]
    pushes: Mapping[int, Push]

    @property
    def goal(self) -> tuple[float, float]:
        """x and y, metres: straight ahead."""
        x, y, yaw = self.start
        return x + go2.AHEAD * math.cos(yaw), y + go2.AHEAD * math.sin(yaw)


@functools.lru_cache(1024)
def draw(index: int) -> Drawn:
    """The instance of an index."""
    rng = np.random.default_rng(fold_seed(f"robotworld/{NAME}", f"instance {index}", 0))
    x, y = (float(v) for v in rng.uniform(-AROUND, AROUND, 2))
    yaw = float(rng.uniform(-math.pi, math.pi))
    pushes = {}
    for seconds in PUSH_TIMES:
        way = float(rng.uniform(-math.pi, math.pi))
        push = Push("trunk", PUSH_FORCE * np.array([math.cos(way), math.sin(way), 0.0]))
        first = round(seconds * go2.CONTROL_HZ)
        pushes.update(dict.fromkeys(range(first, first + round(PUSH_SECONDS * go2.CONTROL_HZ)), push))
    return Drawn((x, y, yaw), pushes)


@functools.cache
def _template() -> mujoco.MjModel:
    return go2.build().compile()


@functools.cache
def _posture() -> np.ndarray:
    """qpos [19] of the robot at the origin: joints in their posture, the lowest feet on the ground."""
    import mujoco

    model = _template()
    data = mujoco.MjData(model)
    for name, angle in zip(go2.ROBOT.arm_actuators, go2.POSTURE, strict=True):
        data.joint(f"{name}_joint").qpos[0] = angle
    mujoco.mj_kinematics(model, data)
    data.qpos[2] -= min(float(data.geom(f"{leg}_foot").xpos[2]) for leg in go2.LEGS) - go2.FOOT
    return np.array(data.qpos)


def state(drawn: Drawn) -> np.ndarray:
    """float64 [1 + 19 + 18]: standing on the ground, at rest."""
    qpos, (x, y, yaw) = _posture().copy(), drawn.start
    qpos[:2], qpos[3:7] = (x, y), quat_of(0.0, 0.0, yaw)
    return np.concatenate([[0.0], qpos, np.zeros(_template().nv)])


def fields(index: int) -> Mapping[str, np.ndarray]:
    """Model fields that differ from the scene's in an instance: where the goal is, and the corridor with it."""
    model, drawn = _template(), draw(int(index))
    goal = model.body("goal").id
    pos, quat = np.array(model.body_pos), np.array(model.body_quat)
    pos[goal, :2], quat[goal] = drawn.goal, quat_of(0.0, 0.0, drawn.start[2])
    return {"body_pos": pos, "body_quat": quat}


@dataclasses.dataclass(frozen=True)
class Geometry:
    """What `Task.extra["geometry"]` holds: the events that make sense, and where the goal may go."""

    events: tuple[str, ...] = (*VISUAL, "target_relocation")
    spares: tuple[str, ...] = ()

    def layout(self, row: int) -> Layout:
        """The goal alone, in the middle of a box of a metre."""
        goal = np.array(draw(row).goal)
        return Layout({"goal": goal}, {"goal": 0.03}, (), goal - 0.5, goal + 0.5)


def make(suite: str, index: int) -> Task:
    """The task."""
    spec = go2.build()
    spec.compile()
    digest = hashlib.sha256(spec.to_xml().encode()).hexdigest()
    return Task(
        suite=suite,
        index=index,
        name=NAME,
        version=f"robotworld-{VERSION}-{digest[:12]}",
        instruction=INSTRUCTION,
        scene=Scene(
            key=digest[:32],
            entities={
                "trunk": Entity("trunk", "object", "quadruped", "trunk", "trunk_free"),
                "goal": Entity("goal", "fixture", "mark", "goal", None),
                "ground": Entity("ground", "fixture", "ground", "ground", None, contact_geoms=("ground",)),
            },
            regions={region.name: region for region in go2.regions()},
            placements=(Placement("on", "trunk", "ground", "ground"), Placement("on", "goal", "ground", "ground")),
            robot=go2.ROBOT,
            cameras=go2.CAMERAS,
            load_spec=go2.build,
            observed=go2.CAMERAS,
        ),
        goal=GOAL,
        objects_of_interest=("trunk", "goal"),
        horizon=HORIZON,
        control_hz=go2.CONTROL_HZ,
        substeps=go2.SUBSTEPS,
        settle_steps=0,
        settle_action=(0.0,) * 12,
        load_init_states=functools.partial(Starts, NAME, lambda index: state(draw(index))),
        load_reset=reset_to_nothing,
        load_fields=fields,
        extra={"geometry": Geometry()},
        rules=RULES,
        action_modes=("posture",),
        load_pushes=lambda row: draw(row).pushes,
        approached="goal",
    )


__all__ = [
    "EVALUATION",
    "GOAL",
    "HORIZON",
    "INSTRUCTION",
    "NAME",
    "RULES",
    "TRAINING",
    "draw",
    "fields",
    "make",
    "state",
]
