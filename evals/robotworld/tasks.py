"""RobotWorld's tasks on this engine, as a source for `evals.registry`, and the list of all 84, those that do not run too."""

from __future__ import annotations

from typing import Any

from evals.native import Native, TaskRow
from evals.robotworld import courtyard, juggle, mug, payload, push_recovery, reverse_bay, stacking
from evals.robotworld.contract import load

SUITE = "robotworld"

# Those that run, in the order in which they came.
MODULES = (payload, stacking, mug, courtyard, reverse_bay, juggle, push_recovery)
ROWS = tuple(TaskRow(SUITE, i, m.NAME, m.INSTRUCTION, m.GOAL, m.HORIZON) for i, m in enumerate(MODULES))

# What all tasks of a group would need that is not here, and what one task needs beside that.
LACKS = {
    "RoboDojo": "two ARX X5 arms and their collision-aware motion planner",
    "BEHAVIOR-1K": "the R1Pro robot and whole houses with sliced, dusty and frozen objects",
    "RoboCasa": "kitchens with the mobile PandaOmron and its arm, base and torso tools",
    "RoboLab": "its bins, tools, food, fruit and shelf",
    "HumanoidSoccer": "the Unitree G1 with a ball and a goal",
    "AI-CPS": "a Panda that holds a tool under noisy joint increments at 60 Hz",
    "WheeledLab": "its course",
    "Bench2Dex": "two UR5 arms with 20-joint hands",
    "Digit": "the Digit biped and its closed leg chains",
    "Flamingo": "the Flamingo robot, whose parameters are not public",
    "OmniDrones": "a quadrotor under an inverted pendulum",
    "OmniIsaacGymEnvs": "the ANYmal quadruped and its rough terrain",
    "ReflexBench": "a Panda that carries a cup, and a launched ball",
    "Robot Lab": "the Unitree A1",
    "SteadyTray": "the Unitree G1 with delayed actuators and a tray",
    "TTRL": "the Booster T1 and table tennis",
    "Wheel-Legged": "a wheel-legged robot, whose parameters are not public",
    "Wheeled Quadruped": "a wheeled quadruped, whose parameters are not public",
}
LACKS_TOO = {
    "03": "a liquid",
    "12": "the support arm's motion, which is not public",
    "13": "a liquid",
    "14": "the belt, whose speed is not public",
    "50": "tyres that drift under its native perturbations",
    "51": "the F1TENTH car, and tyres that drift under its native perturbations",
    "52": "its terrain and goal, which are not public",
    "80": "the scripted opponent, which is not public",
}


def listing() -> list[dict[str, Any]]:
    """One row for each of the 84 tasks, plain JSON values: those of its contract, and whether it runs here.

    A row has what `registry.task_table` has of a task that runs (with its atoms as the goal); of one that does not, `index`
    is None and the goal is the benchmark's predicates. `lacks` says why it does not run.
    """
    runs = {row.name: row for row in ROWS}
    rows = []
    for c in load():
        here = runs.get(c.task)
        lacks = [table[key] for table, key in ((LACKS, c.group), (LACKS_TOO, c.id)) if key in table]
        rows.append(
            {
                "suite": SUITE,
                "index": None if here is None else here.index,
                "name": c.task,
                "instruction": c.goal if here is None else here.instruction,
                "goal": [str(test) for test in (c.predicates if here is None else here.goal)],
                "horizon": c.horizon,
                "runs": here is not None,
                "lacks": "" if here is not None else "; ".join(lacks),
                "id": c.id,
                "group": c.group,
                "domain": c.domain,
                "kind": c.kind,
                "robot": c.interface.robot,
                "tools": list(c.interface.tools),
                "action_dim": c.interface.dim,
                "control_hz": c.interface.control_hz,
                "seconds": round(c.seconds, 4),
                "evidence": list(c.families),
                "over_time": [rule["kind"] for rule in c.over_time],
                "profile": c.profile,
                "nonaction_budget": [c.consecutive, c.total],
            }
        )
    return rows


SOURCE = Native(SUITE, ROWS, lambda index: MODULES[index].make(SUITE, index), listing)
