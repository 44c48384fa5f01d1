"""`rw-reverse-bay`: reverse into the perpendicular bay between parked cars, and stand there straight and still.

Task 59 of RobotWorld, scoring profile N, with the course, bounds and times of its contract. Every instance is the same, as
there. What differs from it:

* The car's masses and gains are ours, and its tyres are MuJoCo's contacts (`evals.robotworld.car`).
* Where the forbidden lines run is ours, from the bay's outline: along its three sides, and along the aisle on both sides of
  its mouth, over the whole of the test area.
* Poses and velocities are judged as the last physics step of a control step found them, 5 ms earlier than there.
* The reverse distance adds up speed times period, not displacements. A jump of the pose is not looked for.
* Observations hold the scene's `qpos`, `qvel` and `ctrl`, not the benchmark's sensors; there is no rear camera.
* Running out of time is a time-out here, and a failure there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.robotworld import car
from evals.robotworld.contract import contract
from evals.robotworld.driving import Course, atom, task_of
from mjx_bench.evidence import samples_of_timer
from mjx_bench.task import Atom, Covered, Crossing, Region, Rules, Task

if TYPE_CHECKING:
    import mujoco

NAME = "rw-reverse-bay"
INSTRUCTION = "reverse into the bay, park straight in its middle and stop"
VERSION = "1"
_CONTRACT = contract(NAME)
_START: Mapping[str, Any] = _CONTRACT.start
HORIZON = _CONTRACT.horizon

FRICTION, MARGIN, LINE = 1.0, 0.01, 0.025
GOAL_AT, GOAL_YAW = np.array(_START["goal"], np.float64), math.radians(_START["goal_yaw_deg"])
ENTRY = float(_START["entry_y"])

# Bounds. Metres, radians, m/s.
NEAR, ALIGNED, STOPPED, PARKED_S = 0.025, math.radians(3.0), 0.035, 1.0
BACKWARDS, COVERED = -0.02, 0.45
ROLLOVER, FALLEN = 0.70, -0.10

# How the expert drives: forwards past the bay, then backwards round a quarter circle of this radius and straight in.
RADIUS, RUN_UP = 0.62, 0.15


def _rectangle(x0: float, x1: float, y0: float, y1: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Middle and half sizes of a rectangle by its sides."""
    return ((x0 + x1) / 2, (y0 + y1) / 2), ((x1 - x0) / 2, (y1 - y0) / 2)


def _boxes() -> list[tuple[str, Any, Any]]:
    parked = [(f"parked_{i}", (x, _START["parked_y"]), _START["parked_size"]) for i, x in enumerate(_START["parked_x"])]
    opposite = [
        (f"opposite_{i}", (x, _START["opposite_y"]), _START["opposite_size"])
        for i, x in enumerate(_START["opposite_x"])
    ]
    wall = _START["back_wall"]
    return [*parked, *opposite, ("back_wall", wall[0], wall[1])]


def _areas() -> dict[str, tuple[tuple[float, float], tuple[float, float]]]:
    """Rectangles by name: what may not be touched (lines), and what must be kept in."""
    x0, x1, y0, y1 = _START["bay"]
    left, right, low, high = _START["bounds"]
    h = LINE / 2
    return {
        "line_left": _rectangle(x0 - h, x0 + h, y0, y1),
        "line_right": _rectangle(x1 - h, x1 + h, y0, y1),
        "line_end": _rectangle(x0 - h, x1 + h, y0 - h, y0 + h),
        "line_before": _rectangle(left, x0, ENTRY - h, ENTRY + h),
        "line_behind": _rectangle(x1, right, ENTRY - h, ENTRY + h),
        "bay_inside": _rectangle(x0 + h, x1 - h, y0 + h, ENTRY),
        "area": _rectangle(left, right, low, high),
    }


LINES = tuple(name for name in _areas() if name.startswith("line_"))


def _build() -> tuple[mujoco.MjSpec, dict[str, Region]]:
    spec = car.empty_ground(FRICTION, 3.0)
    # The patch is where the car is to stand, so that it leaves the bay's lines to be seen.
    marks = car.add_marks(spec, [("goal_mark", GOAL_AT, GOAL_YAW)], patch=car.SAFETY)
    entry = car.add_marks(spec, [("entry", np.array([GOAL_AT[0], ENTRY, 0.0]), 0.0)], seen=False)
    boxes = car.add_boxes(spec, _boxes())
    areas = [car.add_area(spec, name, *where, seen=name in LINES) for name, where in _areas().items()]
    spec.worldbody.add_body(name="goal", pos=GOAL_AT)
    car.add_car(spec, FRICTION, MARGIN, reverse=True)
    spec.worldbody.add_camera(name="agentview", pos=[0, 0, 5.0], xyaxes=[1, 0, 0, 0, 1, 0], fovy=55.0)
    return spec, {region.name: region for region in (*marks, *entry, *boxes, *areas, *car.regions(MARGIN))}


_REVERSING = atom("forward", "car", "car_frame", bound=("<", BACKWARDS))
_INSIDE = atom("side", "car_frame", "entry", bound=("<=", 0.0))
GOAL = (
    atom("beyond", "car_frame", "bay_inside", bound=("<=", 0.0)),
    atom("apart", "car_frame", "goal_mark", bound=("<=", NEAR)),
    atom("facing", "car_frame", "goal_mark", bound=("<=", ALIGNED)),
    atom("pace", "car", bound=("<=", STOPPED)),
)
RULES = Rules(
    hold=samples_of_timer(PARKED_S, car.CONTROL_HZ),
    at_once=True,
    events=(
        Crossing((atom("side", "car_frame", "entry", bound=(">", 0.0)),), (_INSIDE, _REVERSING)),
        Covered(Atom("pace", ("car",)), (_INSIDE, _REVERSING), 1.0 / car.CONTROL_HZ, COVERED),
    ),
    # Of several at one step the last that the benchmark tests names the reason: here, the first.
    failures=(
        atom("height", "car_frame", bound=("<", FALLEN)),
        *(atom("gap", "car_frame", line, bound=("<", 0.0)) for line in LINES),
        *(atom("gap", "car_hull", name, bound=("<", 0.0)) for name, _, _ in _boxes()),
        atom("beyond", "car_frame", "area", bound=(">", 0.0)),
        atom("roll", "car_frame", bound=(">", ROLLOVER)),
        atom("pitch", "car_frame", bound=(">", ROLLOVER)),
    ),
)


def _legs() -> tuple[tuple[np.ndarray, bool], ...]:
    """What the expert's rear axle follows: ways [N, 2], and whether backwards."""
    x, y = _START["start"][:2]
    turn = float(GOAL_AT[0]) + RADIUS
    out = np.array([(x + car.REAR, y), (turn + RUN_UP, y)])
    angles = np.linspace(0.0, math.pi / 2, 24)
    arc = np.stack([turn - RADIUS * np.sin(angles), y - RADIUS + RADIUS * np.cos(angles)], axis=1)
    back = np.vstack([out[1:], arc, [(GOAL_AT[0], GOAL_AT[1] + car.REAR)]])
    return (out, False), (back, True)


COURSE = Course(
    name=NAME,
    instruction=INSTRUCTION,
    version=VERSION,
    horizon=HORIZON,
    goal=GOAL,
    rules=RULES,
    start=(*_START["start"][:2], math.radians(_START["start_yaw_deg"])),
    goal_at=(float(GOAL_AT[0]), float(GOAL_AT[1])),
    reverse=True,
    legs=_legs(),
    build=_build,
)


def make(suite: str, index: int) -> Task:
    """The task."""
    return task_of(COURSE, suite, index)
