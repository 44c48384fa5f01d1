"""The engine `jax`: exact cursors, snapshots, edits, tiles; agreement with the C engine; bad lanes and bad scenes named."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest

from mjx_bench.control.state import ControllerState
from mjx_bench.errors import BenchError
from mjx_bench.physics.base import Park, SetPosition, Visual
from mjx_bench.physics.choice import make_physics, split_fields, stepper_of
from mjx_bench.physics.compiled import Compiled
from mjx_bench.physics.mjx_jax import JaxStepper
from mjx_bench.physics.mjx_program import Execute
from mjx_bench.physics.mjx_programs import execute_of
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import compile_scene
from mjx_bench.signals import GRIP
from tests.arm_scene import BORNE, SCENE, arm_scene, initial_state, reset_of, solved_state
from tests.scenes import wandering

TILE, INTERVAL, SUBSTEPS = 8, 6, 10
OWN, KEPT = split_fields(("geom_rgba", "body_mass"))


def program(engine: str = "jax") -> Execute:
    """One compilation for all tests of an engine."""
    scene, success = arm_scene(sensors=engine == "warp")
    return execute_of(engine, stepper_of(engine), scene, "osc_pose", SUBSTEPS, INTERVAL, OWN, success, TILE)


def lanes_of(n: int, engine: str = "jax") -> Compiled:
    """An engine whose lane i holds state i; every second lane holds the cube in its grip."""
    scene, success = arm_scene(sensors=engine == "warp")
    physics = Compiled(scene, program(engine), n, success, KEPT)
    for lane in range(n):
        physics.load(lane, initial_state(lane, grasped=bool(lane % 2)), reset_of())
    return physics


def ids_of(*lanes: int) -> np.ndarray:
    return np.array(lanes, np.int32)


def chunks(steps: int, lanes: int, seed: int) -> np.ndarray:
    """[lanes, steps, 7] actions; lanes that hold the cube go on holding it."""
    actions = wandering(steps, lanes, seed, down=0.15).transpose(1, 0, 2)
    actions[1::2, :, 6] = 1.0
    return actions


def run(physics: Compiled, ids: np.ndarray, actions: np.ndarray, interval: int = INTERVAL) -> None:
    """Executes actions [n, T, 7] in announced chunks."""
    for start in range(0, actions.shape[1], interval):
        chunk = actions[:, start : start + interval]
        physics.announce(ids, chunk, np.full(len(ids), chunk.shape[1]))
        for step in range(chunk.shape[1]):
            assert physics.control_step(ids, chunk[:, step]) == {}


def digests(physics: Compiled, lanes: range | list[int]) -> list[str]:
    return [physics.snapshot(lane).digest() for lane in lanes]


def check_parity(engine: str) -> None:
    """One control step from 200 injected states on `engine` and on C.

    The states are those of a rollout on C, half of them with the cube between the fingers and the ball on the post.
    """
    scene, _ = arm_scene()
    c, other = MujocoC(scene, TILE, "osc_pose", SUBSTEPS), lanes_of(TILE, engine)
    warmstart = c._batch.bind("qacc_warmstart")
    ids = np.arange(TILE, dtype=np.int32)
    for lane in range(TILE):
        c.load(lane, initial_state(lane, grasped=bool(lane % 2)), reset_of())
    worst: dict[str, list[np.ndarray]] = {}
    touching, held, borne = 0, np.zeros(TILE, int), np.zeros(TILE, int)
    for action in chunks(25, TILE, seed=3).transpose(1, 0, 2):
        for name in ("qpos", "qvel", "ctrl"):
            other._row[name][:] = getattr(c._fields, name)
        other._row["qacc_warmstart"][:] = warmstart
        for field in dataclasses.fields(ControllerState):
            rows = other._row if field.name in other._row else other._own
            rows[field.name][:] = getattr(c._controller, field.name)
        for lane in range(TILE):
            other._begin(lane)
        assert c.control_step(ids, action) == other.control_step(ids, action) == {}
        pairs = {n: (getattr(c._fields, n), other._row[n]) for n in ("qpos", "qvel", "ctrl")}
        pairs |= {n: (getattr(c.signals, n), getattr(other.signals, n)) for n in vars(c.signals) if n != "touch"}
        for name, (a, b) in pairs.items():
            worst.setdefault(name, []).append(np.abs(a - b).reshape(TILE, -1).max(1))
        np.testing.assert_array_equal(c.signals.touch, other.signals.touch)
        touching += int(c.signals.touch.any(1).sum())
        held += c.signals.touch[:, scene.index.touch(GRIP, "cube")]
        borne += c.signals.touch[:, scene.index.touch(*BORNE)]
    assert touching >= 50, "the states are to be rich in contacts"
    assert held[1::2].min() >= 20, "held from about the start"
    assert held[::2].max() == 0
    assert borne[1::2].min() > 0, "the ball lies on the post"
    assert borne[::2].max() == 0
    # Metres and radians, their speeds, Nm; single precision away from contacts, solver tolerance in them.
    for name, median, nearly_all in (
        ("qpos", 2e-6, 1e-3),
        ("qvel", 2e-4, 5e-2),
        ("ctrl", 2e-4, 5e-3),
        ("eef_pos", 1e-6, 1e-5),
        ("entity_pos", 1e-6, 3e-4),
        ("entity_now", 1e-6, 3e-4),
        ("region_pos", 1e-7, 1e-7),
        ("region_mat", 1e-7, 1e-7),
        ("joint_qpos", 1e-6, 1e-4),
    ):
        difference = np.concatenate(worst[name])
        assert np.median(difference) < median, name
        assert np.quantile(difference, 0.97) < nearly_all, name


def test_one_control_step_from_200_injected_states_agrees_with_the_c_engine():
    check_parity("jax")


def test_a_lane_has_the_same_bits_in_any_number_of_tiles_at_any_place_and_in_any_company():
    actions = chunks(2 * INTERVAL, 33, seed=2)
    wanted = None
    for n in (33, 16, 7, 1):
        physics = lanes_of(n)
        assert physics.lanes == -(-n // TILE) * TILE
        run(physics, np.arange(n, dtype=np.int32), actions[:n])
        got = digests(physics, range(n))
        wanted = wanted or got
        assert got == wanted[:n]
    order = np.random.default_rng(0).permutation(33)
    physics = lanes_of(33)
    for place, lane in enumerate(order):
        physics.load(place, initial_state(lane, grasped=bool(lane % 2)), reset_of())
    run(physics, np.arange(33, dtype=np.int32), actions[order])
    assert digests(physics, range(33)) == [wanted[lane] for lane in order]
    # Two lanes alone, one control step at a time, of which nothing was announced.
    physics = lanes_of(33)
    for step in range(2 * INTERVAL):
        assert physics.control_step(ids_of(5, 20), actions[[5, 20], step]) == {}
    assert digests(physics, [5, 20]) == [wanted[5], wanted[20]]


def test_a_snapshot_in_the_middle_of_a_chunk_continues_with_the_same_bits_in_another_lane():
    actions = chunks(2 * INTERVAL, 3, seed=4)
    physics, ids, cut = lanes_of(3), ids_of(0, 1, 2), 4
    physics.announce(ids, actions[:, :INTERVAL], np.full(3, INTERVAL))
    for step in range(cut):
        physics.control_step(ids, actions[:, step])
    snapshot = physics.snapshot(1)
    for step in range(cut, INTERVAL):
        physics.control_step(ids, actions[:, step])
    assert physics.snapshot(1).digest() != snapshot.digest()
    run(physics, ids, actions[:, INTERVAL:])
    physics.restore(2, snapshot)
    assert physics.snapshot(2).digest() == snapshot.digest()
    np.testing.assert_array_equal(physics.signals.eef_pos[2], snapshot.part("signals")["eef_pos"])
    run(physics, ids_of(2), actions[1:2, cut:])
    assert physics.snapshot(2).digest() == physics.snapshot(1).digest()
    other = lanes_of(1)
    other.restore(0, snapshot)
    run(other, ids_of(0), actions[1:2, cut:])
    assert other.snapshot(0).digest() == physics.snapshot(1).digest()


def test_an_edit_in_the_middle_of_a_chunk_is_followed_by_the_rest_of_the_chunk_and_by_no_other_lane():
    actions = chunks(INTERVAL, 2, seed=5)
    moved = [SetPosition("ball", np.array([0.45, 0.1, 0.45])), SetPosition("post", np.array([0.3, 0.3, 0.4]))]
    edited, plain = lanes_of(2), lanes_of(2)
    ids, both, cut = ids_of(0, 1), np.full(2, INTERVAL), 2
    edited.announce(ids, actions, both)
    for step in range(INTERVAL):
        if step == cut:
            edited.edit(0, moved)
            now = edited.signals.entity_now[0]
            np.testing.assert_allclose(now[edited.index.entity("ball")], [0.45, 0.1, 0.45], atol=1e-7)
            np.testing.assert_allclose(edited.kinematics(ids).entity_pos[0, 2], [0.3, 0.3, 0.4], atol=1e-7)
        edited.control_step(ids, actions[:, step])
    run(plain, ids, actions)
    assert edited.snapshot(1).digest() == plain.snapshot(1).digest()
    # The same as stopping there, changing, and going on.
    stepped = lanes_of(1)
    run(stepped, ids_of(0), actions[:1, :cut])
    stepped.edit(0, moved)
    run(stepped, ids_of(0), actions[:1, cut:])
    assert stepped.snapshot(0).digest() == edited.snapshot(0).digest()


def test_an_action_that_was_not_announced_counts_as_it_comes():
    actions = chunks(INTERVAL, 2, seed=6)
    physics, plain, ids = lanes_of(2), lanes_of(2), ids_of(0, 1)
    other = actions.copy()
    other[0, 3:] *= 0.5
    physics.announce(ids, actions, np.full(2, INTERVAL))
    for step in range(INTERVAL):
        physics.control_step(ids, other[:, step])
    run(plain, ids, other)
    assert digests(physics, [0, 1]) == digests(plain, [0, 1])


def test_a_visual_edit_changes_no_bit_and_computes_nothing_again(monkeypatch):
    actions = chunks(INTERVAL, 1, seed=7)
    physics, plain, ids = lanes_of(1), lanes_of(1), ids_of(0)
    calls = []
    monkeypatch.setattr(Execute, "__call__", lambda self, *args: calls.append(1) or self.program.call(*args))
    physics.announce(ids, actions, np.full(1, INTERVAL))
    physics.control_step(ids, actions[:, 0])
    physics.edit(0, [Visual("set_lighting", {"scale": 0.2})])
    for step in range(1, INTERVAL):
        physics.control_step(ids, actions[:, step])
    assert calls == [1]
    run(plain, ids, actions)
    assert physics.snapshot(0).digest() == plain.snapshot(0).digest()
    assert physics.poses(ids)[0].visual == (Visual("set_lighting", {"scale": 0.2}, 1),)


def test_a_parked_object_stays_where_it_is_and_comes_back_as_it_left():
    physics, ids = lanes_of(2), ids_of(0)
    cube = physics.index.entity("cube")
    run(physics, ids, chunks(INTERVAL, 1, seed=8))
    before, slot = physics.kinematics(ids), np.array([-2.0, 0.0, 5.0])
    physics.edit(0, [Park("cube", slot)])
    run(physics, ids, chunks(100, 1, seed=9))
    parked = physics.kinematics(ids)
    # Two seconds under forces that cancel in single precision.
    np.testing.assert_allclose(parked.entity_pos[0, cube], slot, atol=1e-5)
    np.testing.assert_allclose(parked.entity_quat[0, cube], before.entity_quat[0, cube], atol=1e-5)
    stored = physics.parked(0)["cube"]
    physics.edit(0, [SetPosition("cube", stored.pos, stored.quat)])
    after = physics.kinematics(ids)
    np.testing.assert_array_equal(after.entity_pos[0, cube], before.entity_pos[0, cube])
    assert physics.parked(0) == {}
    physics.edit(0, [SetPosition("cube", np.array([0.5, -0.3, 0.6]))])
    run(physics, ids, chunks(INTERVAL, 1, seed=10))
    assert physics.kinematics(ids).entity_pos[0, cube, 2] < 0.58, "it has its weight again"


def test_a_lane_with_fields_of_its_own_equals_the_c_engine_with_them():
    scene, _ = arm_scene()
    mass = scene.model.body_mass * 1.5
    rgba = np.full_like(scene.model.geom_rgba, 0.25)
    physics, c, ids = lanes_of(2), MujocoC(scene, 1, "osc_pose", SUBSTEPS), ids_of(0)
    for engine in (physics, c):
        engine.load(0, initial_state(0), reset_of(), {"body_mass": mass, "geom_rgba": rgba})
        engine.control_step(ids, np.full((1, 7), 0.5))
    physics.control_step(ids_of(1), np.full((1, 7), 0.5))
    # The torque that holds the arm up grows with its mass.
    arm = scene.arm.actuators
    np.testing.assert_allclose(physics._row["ctrl"][0, arm], c._fields.ctrl[0, arm], rtol=0, atol=1e-2)
    assert np.abs(physics._row["ctrl"][0, arm] - physics._row["ctrl"][1, arm]).max() > 1.0
    np.testing.assert_array_equal(physics.poses(ids)[0].fields["geom_rgba"], rgba)
    with pytest.raises(BenchError, match="its own geom_size, and the engine was compiled for its own body_pos"):
        physics.load(0, initial_state(0), reset_of(), {"geom_size": scene.model.geom_size})


def test_a_lane_that_blows_up_is_named_and_the_others_go_on():
    actions = chunks(INTERVAL, 3, seed=11)
    physics, plain, ids = lanes_of(3), lanes_of(3), ids_of(0, 1, 2)
    physics._row["qvel"][1, 3] = np.nan
    physics.announce(ids, actions, np.full(3, INTERVAL))
    assert physics.control_step(ids, actions[:, 0]) == {1: "state is not finite"}
    for step in range(1, INTERVAL):
        assert physics.control_step(ids_of(0, 2), actions[[0, 2], step]) == {}
    run(plain, ids, actions)
    assert digests(physics, [0, 2]) == digests(plain, [0, 2])


def test_success_stops_a_lane_in_the_program_and_not_beyond_what_is_asked():
    still = np.zeros((2, INTERVAL, 7))
    physics, ids = lanes_of(2), ids_of(0, 1)
    physics.load(0, solved_state(0), reset_of())
    physics.announce(ids, still, np.full(2, INTERVAL))
    assert physics.control_step(ids, still[:, 0]) == {}
    success = arm_scene(sensors=False)[1]
    assert success(physics.signals)[:2].tolist() == [True, False]
    assert physics._known[:2].tolist() == [1, INTERVAL], "the program went no further in the lane that is done"
    # Asked to go on regardless, it does, to where a lane goes that no checker ever stopped.
    for step in range(1, INTERVAL):
        assert physics.control_step(ids, still[:, step]) == {}
    blind = Compiled(physics.scene, program(), 1, None)
    blind.load(0, solved_state(0), reset_of())
    for step in range(INTERVAL):
        blind._succeeded[0] = True
        assert blind.control_step(ids_of(0), still[:1, step]) == {}
    assert blind._rows[0].tobytes() == physics._rows[0].tobytes()


def test_a_checker_that_disagrees_with_the_recorded_signals_voids_the_lane():
    physics, ids = lanes_of(2), ids_of(0, 1)
    physics.load(0, solved_state(0), reset_of())
    physics._success = lambda signals: np.zeros(len(signals.eef_pos), np.bool_)
    failed = physics.control_step(ids, np.zeros((2, 7)))
    assert failed == {0: "compiled and recorded checkers disagree"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"type": mujoco.mjtGeom.mjGEOM_CYLINDER, "size": [0.02, 0.02, 0]},
            "'post_geom' (cylinder) and 'cube_geom' (box)",
        ),
        ({"gap": 0.01}, "knows no contact gap: geom 'post_geom'"),
    ],
)
def test_what_mjx_cannot_simulate_is_refused_by_name(change, message):
    def spec():
        made = SCENE.load_spec()
        for name, value in change.items():
            setattr(made.geom("post_geom"), name, value)
        return made

    with pytest.raises(BenchError) as refused:
        make_physics("jax", dataclasses.replace(SCENE, load_spec=spec), (), 1, "osc_pose", SUBSTEPS)
    assert message in str(refused.value)


def test_refuses_a_state_of_another_scene_an_unknown_law_and_a_field_that_cannot_vary():
    physics = lanes_of(1)
    with pytest.raises(BenchError, match="belongs to another scene"):
        physics.load(0, np.zeros(79), reset_of())
    with pytest.raises(BenchError, match="did you mean osc_pose"):
        make_physics("jax", SCENE, (), 1, "osc_pos", SUBSTEPS)
    with pytest.raises(BenchError, match="its own geom_condim"):
        JaxStepper(compile_scene(SCENE, ()), ("body_pos", "geom_condim"))
