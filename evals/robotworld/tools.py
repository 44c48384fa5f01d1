"""RobotWorld's tools, from the contracts of its tasks: `observe`, `drive`, `apply_action`, `move_eef` and its fellows.

A command is checked first and then repeated for every step that was asked for, without a ramp. An episode is ended by
its task or by the non-action budget (`evals.robotworld.budget`), never by a call, a text or a claim. What differs from
the benchmark: poses of an arm are of our hand and in world axes, within 20 m, and an arm is servoed there by increments; a
program observes numbers only (`evals.robotworld.channels`). An agent is told of what runs here (`evals.robotworld.brief`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from evals.robotworld import budget
from evals.robotworld.brief import NUMBERS, brief
from evals.robotworld.channels import cameras, channels
from evals.robotworld.contract import Contract, contract
from evals.servo import POSITION, ROTATION, check_length, increments
from mjx_bench.budgets import Spent
from mjx_bench.control.drive import SPEED, STEERING
from mjx_bench.fields import thaw
from mjx_bench.policy import ACTION_DIMS, Observation
from mjx_bench.task import Task
from mjx_bench.tools import History, Motion, Param, Told, Tool, Toolset, held

NOTE = Param("text", "a short note on why", most=2000, default="")
PROGRAM_STEPS = 250
STEPS = (1, 50)  # of a call, where a contract leaves them to a planner
# Full speed of the hand: gains, and metres and radians a control step along each axis.
GAINS, MOST = (1.0, 1.0), (POSITION, ROTATION)
FAR = 20.0  # metres from the origin along each axis, of positions that are taken; the contracts declare no bound
UNBOUNDED = 100.0  # of actions without declared bounds


@dataclasses.dataclass(frozen=True)
class Accounted:
    """The benchmark's ledger as a budget and as its own account."""

    ledger: budget.Ledger

    def open(self) -> Accounted:
        """See `mjx_bench.budgets.Budget.open`."""
        return Accounted(budget.Ledger(self.ledger.limits))

    @property
    def stopped(self) -> str | None:
        """See `mjx_bench.budgets.Account.stopped`."""
        return self.ledger.stopped

    def charge(self, spent: Spent) -> Accounted:
        """See `mjx_bench.budgets.Account.charge`."""
        kind: Literal["robot", "turn"] = "robot" if spent.kind == "call" else "turn"
        return Accounted(budget.charge(self.ledger, budget.Event(kind, spent.steps, spent.turn)))

    def told(self) -> Mapping[str, Any]:
        """See `mjx_bench.budgets.Account.told`."""
        limits = self.ledger.limits
        found: dict[str, Any] = {"nonaction_in_a_row": self.ledger.consecutive, "nonaction_total": self.ledger.total}
        return found | {"nonaction_limits": [limits.consecutive, limits.total]}

    def record(self) -> Mapping[str, Any]:
        """See `mjx_bench.budgets.Account.record`."""
        return self.ledger.record()


def toolset(task: Task) -> Toolset:
    """The tools of a task, by its contract."""
    rules = contract(task.name)
    names, mode = rules.interface.tools, task.action_modes[0]
    made = {tool.name: tool for tool in (_arm_tools(rules) if mode == "osc_pose" else _vector_tools(rules, mode))}
    limits = budget.Limits.of(rules)
    told = channels(task)
    return Toolset(
        name=f"robotworld-3 {rules.task}",
        brief=brief(task, told, limits),
        tools=tuple(made[name] for name in names),
        state=told.read,
        budget=Accounted(budget.Ledger(limits)),
        cameras=cameras(task),
        image_size=512,
        history=History(rounds=(0, 2, 4, 6, 8), packets=1),
        one_call=False,
        answer_ends=False,
        rejection=None,
        program_steps=PROGRAM_STEPS if rules.code_control else 0,
        action_bounds=_bounds(rules) if mode != "osc_pose" else (-1.0, 1.0),
    )


def _steps(rules: Contract) -> Param:
    low, high = rules.interface.steps_per_call or STEPS
    return Param("integer", "control steps that the command is repeated for", low=low, high=high)


def _bounds(rules: Contract) -> tuple[float, float]:
    """Of every number of an action."""
    bounds = thaw(rules.interface.scaling).get("bounds")
    if isinstance(bounds, list):
        return float(bounds[0]), float(bounds[1])
    return (-1.0, 1.0) if bounds else (-UNBOUNDED, UNBOUNDED)


def _vector_tools(rules: Contract, mode: str) -> list[Tool]:
    """`observe`, and the one tool that takes the whole action."""
    low, high = _bounds(rules)
    observe = Tool("observe", "Observe again; nothing moves.", {"note": NOTE}, lambda a, obs: Told())
    if mode == "drive":
        params = {
            "speed": Param("number", f"wheel speed; 1 is {SPEED:g} m/s", -1.0, 1.0),
            "steering": Param(
                "number",
                f"1 is a central angle of {STEERING:g} rad to the left, {np.tan(STEERING):.3f} rad of the wheels' joints",
                -1.0,
                1.0,
            ),
        }
        params |= {"steps": _steps(rules), "note": NOTE}
        use = lambda a, obs: held(np.array([a["speed"], a["steering"]]), a["steps"])  # noqa: E731
        return [observe, Tool("drive", "Drive with this speed and steering.", params, use)]
    params = {
        "action": Param("numbers", NUMBERS[mode], low=low, high=high, length=ACTION_DIMS[mode]),
        "steps": _steps(rules),
        "note": NOTE,
    }
    return [
        observe,
        Tool("apply_action", "Hold this action.", params, lambda a, obs: held(a["action"], a["steps"])),
    ]


def _arm_tools(rules: Contract) -> list[Tool]:
    """Absolute poses of the hand, and the gripper, alone and together."""
    steps = _steps(rules)
    position = Param(
        "numbers", "x, y, z of the gripper, world metres; as it is if left out", -FAR, FAR, length=3, default=None
    )
    quat = Param(
        "numbers", "w, x, y, z of the gripper, world, of length 1; as it is if left out", -1, 1, length=4, default=None
    )
    gripper = Param("number", "0 opens, 1 closes", low=0.0, high=1.0)
    kept = dataclasses.replace(gripper, about="0 opens, 1 closes; as told last if left out", default=None)
    return [
        Tool("move_eef", "Move the gripper to a pose; its opening stays.", _named(position, quat, None, steps), _pose),
        Tool("set_gripper", "Open or close; the arm stays.", _named(None, None, gripper, steps), _pose),
        Tool("move_robot", "Both at once.", _named(position, quat, kept, steps), _pose),
    ]


def _named(position: Param | None, quat: Param | None, gripper: Param | None, steps: Param) -> dict[str, Param]:
    named = {"position": position, "quaternion_wxyz": quat, "gripper_close": gripper, "steps": steps, "note": NOTE}
    return {name: param for name, param in named.items() if param is not None}


def _pose(a: Mapping[str, Any], obs: Observation) -> Motion:
    position, quat, gripper = a.get("position"), a.get("quaternion_wxyz"), a.get("gripper_close")
    if quat is not None:
        check_length(quat)
    to = obs.eef_pos[0].copy() if position is None else position
    turn = obs.eef_quat[0].copy() if quat is None else quat / np.linalg.norm(quat)
    grip = 0.0 if gripper is None else 1.0 if gripper >= 0.5 else -1.0
    return Motion(a["steps"], lambda now, step: np.array([*increments(now, to, turn, GAINS, MOST), grip]))
