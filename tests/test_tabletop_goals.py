"""Goals of the native suite: false at the start, true in a solved state, false in one nearly solved."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import mujoco
import numpy as np

from evals.tabletop.shapes import TABLE_Z
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.signals import Signals
from tests.test_tabletop import every_task, instances_of, scene_of


def after_a_step(name: str, rows: Mapping[int, np.ndarray]) -> np.ndarray:
    """Whether the goal holds after one control step in which nothing is asked for, from states by instance."""
    task, scene, success = scene_of(name)
    assert task.load_fields is not None
    physics = MujocoC(scene, len(rows), "osc_pose", task.substeps)
    for lane, (index, state) in enumerate(rows.items()):
        physics.load(lane, state, task.load_reset(0), task.load_fields(index))
    failed = physics.control_step(np.arange(len(rows), dtype=np.int32), np.zeros((len(rows), 7)))
    assert not failed
    return np.asarray(success(physics.signals))


def judged(name: str, rows: Mapping[int, np.ndarray]) -> np.ndarray:
    """Whether the goal holds in states by instance, with nothing stepped."""
    _, scene, success = scene_of(name)
    signals = Signals.zeros(len(rows), scene.index)
    for lane, (index, state) in enumerate(rows.items()):
        model, data = copy.copy(scene.model), mujoco.MjData(scene.model)
        for field, value in instances_of(name).fields(index).items():
            getattr(model, field)[:] = value
        data.qpos[:] = state[1 : 1 + model.nq]
        mujoco.mj_forward(model, data)
        signals.entity_pos[lane] = data.xpos[scene.entity_body]
        signals.region_pos[lane] = data.site_xpos[scene.region_site]
        signals.region_mat[lane] = data.site_xmat[scene.region_site].reshape(-1, 3, 3)
        signals.joint_qpos[lane] = data.qpos[scene.joint_qpos]
        if scene.touch_start.size:
            signals.touch[lane] = np.logical_or.reduceat(data.sensordata[scene.touch_sensor] > 0, scene.touch_start)
    return np.asarray(success(signals))


def qpos_of(name: str, index: int) -> tuple[mujoco.MjModel, np.ndarray]:
    """The model and a writable state of an instance."""
    return scene_of(name)[1].model, scene_of(name)[0].load_init_states()[index]


def put(name: str, state: np.ndarray, thing: str, pos: np.ndarray) -> None:
    """Moves an object's origin in a state."""
    at = 1 + scene_of(name)[1].model.joint(f"{thing}_free").qposadr[0]
    state[at : at + 3] = pos


def where(name: str, index: int, thing: str, *offset: float) -> np.ndarray:
    """[3] of an entity's origin, and `offset` [3] from there."""
    placed = next(p for p in instances_of(name).instance(index).placed if p.thing.name == thing)
    return np.array([*placed.xy, TABLE_Z + placed.height + placed.thing.rest_height]) + (offset or 0.0)


def height(name: str, index: int, thing: str) -> float:
    """Of an object's origin above what it stands on."""
    return next(p.thing.rest_height for p in instances_of(name).instance(index).placed if p.thing.name == thing)


def turn(name: str, state: np.ndarray, joint: str, value: float) -> None:
    """Sets a joint in a state."""
    state[1 + scene_of(name)[1].model.joint(joint).qposadr[0]] = value


def stack(name: str, state: np.ndarray, index: int, *things: str) -> None:
    """Puts each thing on the one before it, a little into it, so that they touch."""
    base = where(name, index, things[0])
    top = base[2] + height(name, index, things[0])
    for thing in things[1:]:
        put(name, state, thing, np.array([base[0] + 0.005, base[1], top + height(name, index, thing) - 1e-4]))
        top += 2 * height(name, index, thing) - 1e-4


Solve = Callable[[str, np.ndarray, int], None]
SOLVED: dict[str, Solve] = {
    "pick_lift": lambda n, s, i: put(n, s, "red_block", np.array([0.0, 0.0, 1.05])),
    "pick_place": lambda n, s, i: stack(n, s, i, "plate", "red_block"),
    "place_in_bin": lambda n, s, i: put(n, s, "red_ball", where(n, i, "bin", 0.02, -0.01, 0.03)),
    "stack_two": lambda n, s, i: stack(n, s, i, "green_block", "red_block"),
    "stack_three_in_order": lambda n, s, i: stack(n, s, i, "red_block", "green_block", "blue_block"),
    "push_to_region": lambda n, s, i: put(n, s, "red_dome", where(n, i, "zone", 0.02, -0.02, height(n, i, "red_dome"))),
    "open_drawer": lambda n, s, i: turn(n, s, "drawer_slide", 0.1),
    "close_drawer": lambda n, s, i: turn(n, s, "drawer_slide", 0.004),
    "open_door": lambda n, s, i: turn(n, s, "door_hinge", 0.8),
    "press_button": lambda n, s, i: turn(n, s, "button_press", 0.010),
    "turn_knob": lambda n, s, i: turn(n, s, "knob_turn", 1.2),
    "insert_peg": lambda n, s, i: put(n, s, "peg", where(n, i, "board", 0, 0, height(n, i, "peg"))),
}
# The wrong way round, or nearly there.
UNSOLVED: dict[str, Solve] = {
    "pick_lift": lambda n, s, i: put(n, s, "red_block", np.array([0.0, 0.0, 0.98])),
    "pick_place": lambda n, s, i: put(n, s, "red_block", where(n, i, "plate", 0.0, 0.0, 0.06)),
    "place_in_bin": lambda n, s, i: put(n, s, "red_ball", where(n, i, "bin", 0.12, 0.0, 0.02)),
    "stack_two": lambda n, s, i: stack(n, s, i, "red_block", "green_block"),
    "stack_three_in_order": lambda n, s, i: stack(n, s, i, "blue_block", "green_block", "red_block"),
    "push_to_region": lambda n, s, i: put(n, s, "red_dome", where(n, i, "zone", 0.04, 0.0, height(n, i, "red_dome"))),
    "open_drawer": lambda n, s, i: turn(n, s, "drawer_slide", 0.08),
    "close_drawer": lambda n, s, i: turn(n, s, "drawer_slide", 0.02),
    "open_door": lambda n, s, i: turn(n, s, "door_hinge", 0.6),
    "press_button": lambda n, s, i: turn(n, s, "button_press", 0.008),
    "turn_knob": lambda n, s, i: turn(n, s, "knob_turn", 1.0),
    "insert_peg": lambda n, s, i: put(n, s, "peg", where(n, i, "board", 0, 0, 0.03 + height(n, i, "peg"))),
}


@every_task
def test_no_instance_starts_solved(name: str):
    states = scene_of(name)[0].load_init_states()
    assert not after_a_step(name, {i: states[i] for i in range(40)}).any()


@every_task
def test_the_goal_holds_in_a_solved_state_and_not_in_one_nearly_solved(name: str):
    for solve, expected in ((SOLVED[name], True), (UNSOLVED[name], False)):
        rows = {}
        for index in range(6):
            rows[index] = qpos_of(name, index)[1]
            solve(name, rows[index], index)
        assert (judged(name, rows) == expected).all(), expected
