"""The tools of every task: its benchmark's where there are some, and plain ones for all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evals.servo import increments, rounded
from mjx_bench.budgets import Decisions
from mjx_bench.policy import ACTION_DIMS, Observation
from mjx_bench.task import Task
from mjx_bench.tools import Motion, Param, Stop, Tool, Toolset, executed

DECISIONS, STEPS = 200, 200
ROWS = 50
GAINS, MOST = (0.8, 0.5), (0.05, 0.5)

BRIEF = """\
You control a robot arm in a simulation, which moves only while one of your calls is carried out. You have pictures and
the robot's proprioception. Reply with exactly one tool call each time. A control step is 1/{hz} s. Reaching the goal
ends the episode; so do the tool stop, a reply without a call, {decisions} replies, and {horizon} control steps."""


def toolset_of(task: Task) -> Toolset:
    """The tools of a task, and the rules that an agent plays by."""
    if task.suite == "roboquest":
        from evals.roboquest.tools import toolset

        return toolset(task)
    if task.suite == "robot_agent_bench":
        from evals.robot_agent_bench.tools import toolset as of_household

        return of_household(task)
    if task.suite == "robotworld":
        from evals.robotworld.tools import toolset as by_contract

        return by_contract(task)
    return plain(task)


def plain(task: Task) -> Toolset:
    """Actions as they are, and a pose for the hand of an arm under operational-space control; 200 decisions."""
    mode = task.action_modes[0]
    rows = Param("rows", "actions, each in [-1, 1]", low=-1.0, high=1.0, length=ACTION_DIMS[mode], most=ROWS)
    tools = [
        Tool(
            "apply_actions",
            "Execute actions one after the other.",
            {"actions": rows},
            lambda a, obs: executed(a["actions"]),
        ),
        Tool("stop", "Give up.", {}, lambda a, obs: Stop("declared_stop")),
    ]
    if mode == "osc_pose":
        tools.insert(0, _move_to())
    return Toolset(
        name="plain-1",
        brief=BRIEF.format(hz=task.control_hz, decisions=DECISIONS, horizon=task.horizon),
        tools=tuple(tools),
        state=_state,
        budget=Decisions(DECISIONS),
        cameras=task.scene.observed or task.scene.cameras,
        program_steps=STEPS,
    )


def _move_to() -> Tool:
    params = {
        "position": Param("numbers", "x, y, z of the gripper, world metres", low=-10.0, high=10.0, length=3),
        "gripper": Param("number", "above 0 closes, below 0 opens, 0 leaves it", low=-1.0, high=1.0, default=0.0),
        "steps": Param("integer", "control steps", low=1, high=STEPS),
    }

    def use(a: Mapping[str, Any], obs: Observation) -> Motion:
        turn = obs.eef_quat[0].copy()
        return Motion(
            a["steps"],
            lambda now, step: np.array([*increments(now, a["position"], turn, GAINS, MOST), a["gripper"]]),
        )

    return Tool("move_to", "Move the gripper to a point; it keeps its orientation.", params, use)


def _state(obs: Observation) -> Mapping[str, Any]:
    found: dict[str, Any] = {"step": int(obs.step[0])}
    for name in ("eef_pos", "eef_quat", "gripper_qpos", "joint_pos"):
        value = getattr(obs, name)[0]
        if value.size:
            found[name] = rounded(value, 4)
    return found
