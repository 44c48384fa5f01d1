"""The benchmark's figures, beside what is declared and what comes of it: budgets, thresholds, tools, what is noted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evals.roboquest import odd_parcel as odd
from evals.roboquest import odd_parcel_parts as odd_parts
from evals.roboquest import puzzle_box as box
from evals.roboquest import puzzle_box_parts as box_parts
from evals.roboquest.kitchen import TOP_Z
from evals.toolsets import toolset_of
from mjx_bench.budgets import Decisions
from mjx_bench.policy import Observation
from mjx_bench.predicates import compile_goal, goal_index
from mjx_bench.signals import Signals
from mjx_bench.tools import BadCall, History, Motion
from tests.agent_plays import quest

# Ticks, metres, kilograms.
FIGURES: list[tuple[str, Any, Any]] = [
    ("ticks of Puzzle Box", box.RECIPE.horizon, 12_000),
    ("ticks of Odd Parcel", odd.RECIPE.horizon, 12_000),
    ("ticks between samples", box.SAMPLE, 20),
    ("a bolt's bolt is out", box_parts.RELEASED, 0.02),
    ("the lid's bolt is out", box_parts.LID_RELEASED, 0.03),
    ("the item is out", box.OUT, 0.30),
    ("the balance has moved", odd_parts.MOVED, 0.02),
    ("a parcel is still in the box", odd_parts.BOX_SLACK, 0.005),
    ("a usual parcel", odd_parts.USUAL, 0.25),
    ("odd by", odd.DEVIATIONS, (0.12, 0.20)),
]


@pytest.mark.parametrize(("declared", "figure"), [row[1:] for row in FIGURES], ids=[row[0] for row in FIGURES])
def test_budgets_and_thresholds_are_the_benchmarks(declared: Any, figure: Any):
    assert declared == figure


@pytest.mark.parametrize(
    ("name", "decisions"),
    [("puzzle_box", 200), ("odd_parcel", 200), ("skill_pick_place", 50), ("skill_drive_pick", 50)],
)
def test_an_agent_gets_as_many_decisions_and_pictures_as_the_benchmarks(name: str, decisions: int):
    toolset = toolset_of(quest(name))
    assert toolset.budget == Decisions(decisions)
    assert toolset.image_size == 512
    assert toolset.history == History(rounds=(0,), packets=2), "pictures of the two newest observations"


def observed() -> Observation:
    """A base that looks along the world's x, and a hand whose axes are the world's."""
    task = quest("puzzle_box")
    model = task.scene.load_spec().compile()
    return Observation(
        task=task,
        step=np.zeros(1, int),
        eef_pos=np.array([[0.0, 0.0, 1.2]]),
        eef_quat=np.array([[1.0, 0.0, 0.0, 0.0]]),
        gripper_qpos=np.zeros((1, 2)),
        joint_pos=np.zeros((1, 7)),
        entity_pos=np.zeros((1, 0, 3)),
        entity_quat=np.zeros((1, 0, 4)),
        articulation={},
        qpos=np.zeros((1, model.nq)),
        qvel=np.zeros((1, model.nv)),
    )


SEEN = observed()
TOOLS = toolset_of(SEEN.task)


def asked(tool: str, **arguments: Any) -> Motion:
    """What a call comes to; an arm's pose is the hand's own where the call has none."""
    given = {"position_world_m": [0.0, 0.0, 1.2]} if tool == "arm" else {}
    given |= {"velocity_body": [0.0, 0.0, 0.0]} if tool == "base" else {}
    found = TOOLS.tool(tool).use(TOOLS.tool(tool).read(given | arguments), SEEN)
    assert isinstance(found, Motion)
    return found


@pytest.mark.parametrize(
    ("tool", "argument", "taken", "refused"),
    [
        *((tool, "ticks", [1, 200], [0, 201]) for tool in ("arm", "base", "wait")),
        *((tool, "gripper", [-1.0, 1.0], [-1.01, 1.01]) for tool in ("arm", "wait")),
        ("arm", "position_world_m", [[-6.0, 6.0, 0.3], [6.0, -6.0, 2.2]], [[-6.01, 0, 1], [0, 6.01, 1]]),
        ("arm", "position_world_m", [], [[0, 0, 0.29], [0, 0, 2.21]]),
        ("arm", "quaternion_xyzw", [[0, 0, 0, 0.9991], [0.6, 0, 0.8008, 0]], [[0, 0, 0, 0.9989], [0.6, 0, 0.802, 0]]),
        ("base", "velocity_body", [[0.5, -0.5, 0.5]], [[0.51, 0, 0], [0, -0.51, 0], [0, 0, 0.51]]),
    ],
)
def test_arguments_are_taken_up_to_their_bounds(tool: str, argument: str, taken: list[Any], refused: list[Any]):
    for value in taken:
        asked(tool, **{argument: value})
    for value in refused:
        with pytest.raises(BadCall) as bad:
            asked(tool, **{argument: value})
        assert bad.value.cause == "values"


def test_a_call_that_names_no_more_than_it_must_runs_as_long_as_the_benchmarks():
    assert {tool: asked(tool).steps for tool in ("arm", "base", "wait")} == {"arm": 120, "base": 20, "wait": 20}
    for tool in ("arm", "wait"):
        action = asked(tool).action(SEEN, 0)
        assert isinstance(action, np.ndarray)
        assert action[6] == 0.0, "the gripper stays as it is"


@pytest.mark.parametrize(
    ("left", "told"),
    [
        # Metres to the pose and in one tick, along each axis.
        ([0.010, 0.000, -0.005], [0.008, 0.000, -0.004]),
        ([0.500, -0.500, 0.010], [0.015, -0.015, 0.008]),
    ],
)
def test_the_arm_covers_four_fifths_of_what_is_left_and_no_more_than_15_mm(left: list[float], told: list[float]):
    action = asked("arm", position_world_m=(SEEN.eef_pos[0] + left).tolist()).action(SEEN, 0)
    assert isinstance(action, np.ndarray)
    assert action[:3] * 0.05 == pytest.approx(told)
    assert action[3:6] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("left", "told"),
    [
        # Radians, of rotation vectors.
        ([0.10, 0.00, -0.06], [0.05, 0.00, -0.03]),
        ([0.90, -0.90, 0.10], [0.12, -0.12, 0.05]),
    ],
)
def test_the_arm_turns_by_half_of_what_is_left_and_no_more_than_0_12_rad(left: list[float], told: list[float]):
    angle = float(np.linalg.norm(left))
    quat = [*(np.sin(angle / 2) * np.array(left) / angle), np.cos(angle / 2)]
    action = asked("arm", quaternion_xyzw=quat).action(SEEN, 0)
    assert isinstance(action, np.ndarray)
    assert action[3:6] * 0.5 == pytest.approx(told)
    assert action[:3] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("name", "noted"),
    [
        ("skill_pick_place", {"left the counter": "container_foot"}),
        ("skill_drive_pick", {"left the counter": "container_foot"}),
        ("puzzle_box", {"the item left the counter": "item"}),
        ("odd_parcel", {f"parcel_{i} left the counter": f"parcel_{i}" for i in range(1, 9)}),
    ],
)
def test_what_is_5_cm_below_the_counter_is_noted_and_nothing_else_is(name: str, noted: dict[str, str]):
    """By the name of what is noted, the entity or region that it is about."""
    task = quest(name)
    index = goal_index(task.atoms, task.scene)
    tests = {n.name: compile_goal(n.atoms, task.scene, index)[1] for n in task.rules.noted}
    assert tests.keys() == noted.keys()
    for which, thing in noted.items():
        for height, fallen in ((TOP_Z - 0.05 + 1e-6, set()), (TOP_Z - 0.05 - 1e-6, {which})):
            s = Signals.zeros(1, index)
            s.entity_pos[:, :, 2] = s.region_pos[:, :, 2] = TOP_Z
            if thing in index.entities:
                s.entity_pos[0, index.entity(thing), 2] = height
            else:
                s.region_pos[0, index.region(thing), 2] = height
            assert {n for n, test in tests.items() if test(s)[0]} == fallen
