"""`rw-courtyard`: follow the road over a low ridge, past six checkpoints, and park on the green patch.

Task 54 of RobotWorld, scoring profile N, with the course, bounds and times of its contract. Every instance is the same, as
there: one start, one layout, one friction. What differs from it:

* The car's masses and gains are ours, its tyres are MuJoCo's contacts (`evals.robotworld.car`), and the road is flat slabs.
* Poses and velocities are judged as the last physics step of a control step found them, 5 ms earlier than there.
* A jump of the pose is not looked for: nothing here moves a car but its wheels.
* Observations hold the scene's `qpos`, `qvel` and `ctrl`, not the benchmark's sensors. The camera's picture is square.
* Running out of time is a time-out here, and a failure there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.robotworld import car
from evals.robotworld.contract import contract
from evals.robotworld.course import checkpoints, heading, vertices
from evals.robotworld.driving import Course, atom, task_of
from mjx_bench.evidence import samples_of_timer
from mjx_bench.task import Atom, Region, Rules, Task

if TYPE_CHECKING:
    import mujoco

NAME = "rw-courtyard"
INSTRUCTION = "follow the road, park aligned on the green patch and stop"
VERSION = "1"
_CONTRACT = contract(NAME)
_START: Mapping[str, Any] = _CONTRACT.start
HORIZON = _CONTRACT.horizon

PATH = vertices(_START["path"])
WIDTH, FRICTION, MARGIN = float(_START["width_m"]), float(_START["friction"]), 0.015
_PASSED = checkpoints(PATH, _START["checkpoint_rule"]["spacing_m"])
GOAL_AT, GOAL_YAW = np.array(_START["goal"], np.float64), math.radians(_START["goal_yaw_deg"])

# Bounds: of a checkpoint, of the goal, of what is safe. Metres, radians, m/s.
NEAR, LEVEL, ALONG = 0.65, 0.22, math.radians(90.0)
ALIGNED, STOPPED, PARKED_S = math.radians(25.0), 0.12, 0.8
OFF_ROAD, ROLLOVER, FALLEN = WIDTH / 2 + 0.03, math.radians(60.0), 0.20


def _build() -> tuple[mujoco.MjSpec, dict[str, Region]]:
    spec = car.empty_ground(FRICTION, 8.0)
    road = car.add_road(spec, PATH, WIDTH, FRICTION)
    marks = [(f"checkpoint_{i}", PATH[v], heading(PATH, v)) for i, v in enumerate(_PASSED)]
    points = car.add_marks(spec, [*marks, ("goal_mark", GOAL_AT, GOAL_YAW)])
    boxes = car.add_boxes(spec, [(name, xy, size) for name, (xy, size) in _START["obstacles"].items()])
    spec.worldbody.add_body(name="goal", pos=GOAL_AT)
    car.add_car(spec, FRICTION, MARGIN, reverse=False)
    spec.worldbody.add_camera(name="agentview", pos=[0.5, -0.5, 15.0], xyaxes=[1, 0, 0, 0, 1, 0], fovy=55.0)
    return spec, {region.name: region for region in (*road, *points, *boxes, *car.regions(MARGIN))}


def _there(mark: str, facing: float) -> tuple[Atom, ...]:
    return (
        atom("apart", "car_frame", mark, bound=("<=", NEAR)),
        atom("level", "car_frame", mark, bound=("<", LEVEL)),
        atom("facing", "car_frame", mark, bound=("<=", facing)),
    )


_ROAD = tuple(f"road_{i:02}" for i in range(len(PATH) - 1))
GOAL = (*_there("goal_mark", ALIGNED), atom("pace", "car", bound=("<=", STOPPED)))
RULES = Rules(
    hold=samples_of_timer(PARKED_S, car.CONTROL_HZ),
    at_once=True,
    stages=tuple(_there(f"checkpoint_{i}", ALONG) for i in range(len(_PASSED))),
    # Of several at one step the last that the benchmark tests names the reason: here, the first.
    failures=(
        *(atom("gap", "car_hull", box, bound=("<", 0.0)) for box in _START["obstacles"]),
        atom("astray", "car_frame", *_ROAD, bound=(">", OFF_ROAD)),
        atom("below", "car_frame", *_ROAD, bound=(">", FALLEN)),
        atom("roll", "car_frame", bound=(">", ROLLOVER)),
        atom("pitch", "car_frame", bound=(">", ROLLOVER)),
    ),
)
COURSE = Course(
    name=NAME,
    instruction=INSTRUCTION,
    version=VERSION,
    horizon=HORIZON,
    goal=GOAL,
    rules=RULES,
    start=(*_START["start"][:2], math.radians(_START["start_yaw_deg"])),
    goal_at=(float(GOAL_AT[0]), float(GOAL_AT[1])),
    reverse=False,
    legs=((PATH[:, :2], False),),
    build=_build,
)


def make(suite: str, index: int) -> Task:
    """The task."""
    return task_of(COURSE, suite, index)
