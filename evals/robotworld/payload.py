"""`drone_payload_hover`: fly the payload to its target, and keep it there through the last two seconds.

Task 73 of RobotWorld, scoring profile W, with two scheduled pushes. What differs from it:

* Poses and velocities are judged as each control step found them, one tick (16 ms) earlier than there.
* A state that is not finite voids the arm (infrastructure); there it is a failure.
* The pushes come from a generator of our own; the benchmark does not publish its one.
* Rotors start at rest, bar vertical, everything still; the benchmark does not publish these.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from evals.instances import EVALUATION, TEMPLATE, TRAINING, Starts, differing, reset_to_nothing
from evals.libero_max.eligibility import VISUAL
from evals.libero_max.placing import Layout
from evals.robotworld.hummingbird import BAR, CAMERAS, CONTROL_HZ, MASS, PAYLOAD_RATIO, ROBOT, TARGET, build
from mjx_bench.seeds import fold_seed
from mjx_bench.task import (
    Atom,
    Entity,
    Placement,
    Push,
    Region,
    Rules,
    Scene,
    Task,
    Threshold,
)

if TYPE_CHECKING:
    import mujoco

NAME = "drone_payload_hover"
INSTRUCTION = "hold the payload at the green target and damp its swing"
VERSION = "1"  # of the generator: changes when an index comes to stand for another instance
HORIZON = 500  # 8.06 s

# Bounds of the hold, and for how long: with both ends included, two seconds are 125 ticks.
ERROR, SPEED, SWING, TILT = 0.15, 0.20, math.radians(10.0), math.radians(15.0)
HOLD = 2 * CONTROL_HZ + 1
FLOOR = 0.2  # metres: neither drone nor payload may come lower

# Starts of the drone: metres and radians.
START_XY, START_Z, START_TILT = 2.5, (1.5, 2.5), math.radians(18.0)
# Pushes come at the first step at or after these times; each is one step long.
PUSH_TIMES = (2.0, 4.5)
PUSH_SPEEDS = (1.0, 1.0, 0.5)  # standard deviations of what a push alone would do to the payload, m/s

GOAL = (
    Atom("distance", ("payload", "target"), Threshold("<=", ERROR)),
    Atom("speed", ("payload",), Threshold("<=", SPEED)),
    Atom("hang", ("payload", "drone_frame"), Threshold("<=", SWING)),
    Atom("tilt", ("drone_frame",), Threshold("<=", TILT)),
)
RULES = Rules(
    hold=HOLD,
    failures=tuple(Atom("height", (name,), Threshold("<", FLOOR)) for name in ("drone_frame", "payload")),
)


@dataclasses.dataclass(frozen=True)
class Drawn:
    """One instance.

    Attributes:
      payload_mass: kg.
      position: [3] of the drone, metres; euler: [3] its roll, pitch and yaw.
      pushes: policy step to the push that comes with it.
    """

    payload_mass: float
    position: tuple[float, float, float]
    euler: tuple[float, float, float]
    pushes: Mapping[int, Push]


@functools.lru_cache(1024)
def draw(index: int) -> Drawn:
    """The instance of an index, `TEMPLATE` included."""
    rng = np.random.default_rng(fold_seed(f"robotworld/{NAME}", f"instance {index}", 0))
    mass = MASS * float(rng.uniform(*PAYLOAD_RATIO))
    x, y = (float(v) for v in rng.uniform(-START_XY, START_XY, 2))
    roll, pitch = (float(v) for v in rng.uniform(-START_TILT, START_TILT, 2))
    position, euler = (x, y, float(rng.uniform(*START_Z))), (roll, pitch, float(rng.uniform(-math.pi, math.pi)))
    pushes = {}
    for seconds in PUSH_TIMES:
        deviation = np.array(PUSH_SPEEDS) * CONTROL_HZ * mass
        # Clamped from above only, as the benchmark has it.
        force = np.minimum(rng.standard_normal(3) * deviation, 3 * deviation)
        pushes[math.ceil(seconds * CONTROL_HZ)] = Push("payload", force)
    return Drawn(mass, position, euler, pushes)


def state(drawn: Drawn) -> np.ndarray:
    """float64 [1 + 11 + 9]: the payload straight below the drone, everything at rest."""
    x, y, z = drawn.position
    return np.concatenate([[0.0, x, y, z - BAR, 1.0, 0.0, 0.0, 0.0], quat_of(*drawn.euler), np.zeros(9)])


def quat_of(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """[4] wxyz of a rotation by roll about x, then pitch about y, then yaw about z, all of the world."""
    (cr, sr), (cp, sp), (cy, sy) = ((math.cos(a / 2), math.sin(a / 2)) for a in (roll, pitch, yaw))
    return np.array(
        [
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ]
    )


@functools.cache
def _template() -> mujoco.MjModel:
    return build(draw(TEMPLATE).payload_mass).compile()


@functools.cache
def _varied() -> tuple[str, ...]:
    """Names of the fields that a payload of another mass changes."""
    return tuple(sorted(differing(_template(), build(2.0 * draw(TEMPLATE).payload_mass).compile())))


@functools.lru_cache(1024)
def fields(index: int) -> Mapping[str, np.ndarray]:
    """Model fields that differ from the scene's in this instance."""
    model = build(draw(index).payload_mass).compile()
    return {name: np.array(getattr(model, name)) for name in _varied()}


@dataclasses.dataclass(frozen=True)
class Geometry:
    """What `Task.extra["geometry"]` holds: the events that make sense, and where the target may go."""

    events: tuple[str, ...] = (*VISUAL, "target_relocation")
    spares: tuple[str, ...] = ()

    def layout(self, row: int) -> Layout:
        """The target alone, in the middle of a box of a metre."""
        low, high = np.array([-0.5, -0.5]), np.array([0.5, 0.5])
        return Layout({"target": np.array(TARGET[:2])}, {"target": 0.03}, (), low, high)


def make(suite: str, index: int) -> Task:
    """The task."""
    text = build(draw(TEMPLATE).payload_mass).to_xml()
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Task(
        suite=suite,
        index=index,
        name=NAME,
        version=f"robotworld-{VERSION}-{digest[:12]}",
        instruction=INSTRUCTION,
        scene=Scene(
            key=digest[:32],
            entities={
                "payload": Entity("payload", "object", "payload", "payload", "payload_free"),
                "target": Entity("target", "fixture", "mark", "target", None),
            },
            regions={"drone_frame": Region("drone_frame", None, (0.01, 0.01, 0.01))},
            placements=(Placement("on", "target", "air", "air"),),
            robot=ROBOT,
            cameras=CAMERAS,
            load_spec=functools.partial(build, draw(TEMPLATE).payload_mass),
            observed=CAMERAS,
        ),
        goal=GOAL,
        objects_of_interest=("payload", "target"),
        horizon=HORIZON,
        control_hz=CONTROL_HZ,
        substeps=1,
        settle_steps=0,
        settle_action=(0.0,) * 4,
        load_init_states=functools.partial(Starts, NAME, lambda index: state(draw(index))),
        load_reset=reset_to_nothing,
        load_fields=fields,
        extra={"geometry": Geometry()},
        rules=RULES,
        action_modes=("rotors",),
        load_pushes=lambda row: draw(row).pushes,
        approached="target",
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
