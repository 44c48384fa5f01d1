"""The courtyard: its road and checkpoints, the car, the measures that it is judged by, and who parks on the patch."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from evals import registry
from evals.robotworld import car, courtyard
from evals.robotworld.contract import contract
from evals.robotworld.course import checkpoints, heading, length, vertices
from mjx_bench.control.drive import drive
from mjx_bench.control.drive_jax import drive as drive_jax
from mjx_bench.errors import BenchError
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import compile_scene
from mjx_bench.predicates import compile_atom, goal_index
from mjx_bench.records import load_run
from mjx_bench.signals import SignalIndex, Signals
from mjx_bench.task import Atom, Region, Threshold
from mjx_bench.types import Verdict
from policies.reference.oracle import Oracle
from policies.simple import Zero
from tests.robotworld_runs import HERE, engine, engines_step_alike, judge_of, places, run, verdict, verdicts

TASK = registry.load_task("robotworld", 3)


class Steady(Zero):
    """Drives at one speed with one steering."""

    def __init__(self, speed: float, steering: float) -> None:
        super().__init__()
        self.spec = dataclasses.replace(self.spec, name="steady", action_mode="drive")
        self._action = np.array([speed, steering], np.float32)

    def act(self, carries: Any, obs: Any, seeds: Any) -> Any:
        return np.tile(self._action, (len(carries), self.spec.horizon, 1)), carries


@pytest.mark.parametrize(
    ("task", "metres", "number"), [("54", 14.670, 6), ("55", 31.292, 15), ("56", 19.989, 9), ("57", 20.553, 10)]
)
def test_roads_are_as_long_as_published_and_have_their_checkpoints(task: str, metres: float, number: int):
    path = vertices(contract(task).start["path"])
    assert length(path) == pytest.approx(metres, abs=1e-3)
    assert len(checkpoints(path, 2.0)) == number


def test_the_courtyards_checkpoints_are_the_published_ones():
    found = courtyard.PATH[checkpoints(courtyard.PATH, 2.0)]
    assert found == pytest.approx(
        np.array([(-4, -3, 0), (-2, -3, 0), (0, -2, 0.15), (2, 0, 0), (4.25, 1.5, 0), (7, 2, 0)])
    )
    assert [heading(courtyard.PATH, i) for i in (0, len(courtyard.PATH) - 1)] == [0.0, 0.0]
    with pytest.raises(BenchError, match="expected a line or an arc"):
        vertices(["curve (0,0)->(1,1) n3"])


def test_bounds_are_the_contracts():
    c = contract("54")
    assert (TASK.horizon, TASK.control_hz) == (c.horizon, c.interface.control_hz)
    assert [p.value for p in c.predicates] == [
        len(TASK.rules.stages), courtyard.NEAR, courtyard.LEVEL, np.degrees(courtyard.ALIGNED), courtyard.STOPPED,
    ]  # fmt: skip
    assert TASK.rules.hold == 40
    model = compile_scene(TASK.scene, ()).model
    assert model.opt.timestep * TASK.substeps * TASK.control_hz == pytest.approx(1.0)
    assert 1.0 / model.opt.timestep == c.extras["physics_hz"]


def test_the_car_has_the_published_wheels():
    model = compile_scene(TASK.scene, ()).model
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    at = np.array([data.xpos[model.body(f"wheel_{name}").id] for name in ("fl", "fr", "rl", "rr")])
    at -= data.xpos[model.body("car").id]
    assert at[:, 0] == pytest.approx([0.1385, 0.1385, -0.158, -0.158])
    assert at[:, 1] == pytest.approx([0.115, -0.115, 0.115, -0.115])
    assert model.geom("tyre_fl").size[0] == 0.0488


@pytest.mark.parametrize("aside", [-1.25, -0.6, 0.6, 1.25])
def test_the_road_has_no_gap_where_it_bends_on_the_ridge(aside: float):
    """Along the crest, to both sides, from above: nothing is as low as the ground."""
    model = compile_scene(TASK.scene, ()).model
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    ahead, group = np.radians((26.565 + 45.0) / 2), np.array([0, 1, 0, 0, 0, 0], np.uint8)
    for angle in ahead + np.radians(np.linspace(-10.0, 10.0, 9)):
        above = np.array([0.0, -2.0, 2.0]) + aside * np.array([-np.sin(angle), np.cos(angle), 0.0])
        down = mujoco.mj_ray(model, data, above, np.array([0.0, 0.0, -1.0]), group, 1, -1, np.zeros(1, np.int32))
        assert 0.12 < 2.0 - down < 0.156


@pytest.mark.parametrize(("speed", "steering"), [(0.3, 0.0), (0.2, 0.6), (0.2, -0.6)])
def test_the_car_goes_as_fast_and_turns_as_tightly_as_it_is_told(speed: float, steering: float):
    """3 m/s for a speed of 1, less what the tyres are smaller than their nominal radius; the circle of a bicycle."""
    physics, track = engine(TASK), []
    for _ in range(150):
        assert physics.control_step(HERE, np.array([[speed, steering]])) == {}
        track.append(physics.kinematics(HERE).qpos[0, :7].copy())
    xy = np.array(track)[-50:, :2]
    told = 3.0 * speed * 0.0488 / 0.05
    assert np.linalg.norm(np.diff(xy, axis=0), axis=1).mean() * 50 == pytest.approx(told, rel=0.06)
    yaw = np.unwrap([2 * np.arctan2(q[6], q[3]) for q in track])
    rate = (yaw[-1] - yaw[-50]) / (49 / 50)
    assert rate == pytest.approx(told * np.tan(np.tan(0.488 * steering)) / 0.2965, rel=0.15, abs=0.01)


def test_commands_are_clipped_and_hold_alike_in_numpy_and_jax():
    physics = engine(TASK)
    assert isinstance(physics, MujocoC)
    fields, arm = physics._fields, physics.scene.arm
    for action, wheels, steering in (
        ([0.5, 0.0], 30.0, 0.0), ([2.0, 1.0], 60.0, 0.53082), ([-1.0, -3.0], 0.0, -0.53082), ([-0.2, 0.5], 0.0, 0.24897),
    ):  # fmt: skip
        told = np.array([action])
        drive(HERE, told, True, fields, None, arm)  # type: ignore[arg-type]
        single, _ = drive_jax(jnp.array(action), jnp.array(True), None, None, jnp.zeros(6), None, arm)  # type: ignore[arg-type]
        assert fields.ctrl[0] == pytest.approx([steering] * 2 + [wheels] * 4, abs=2e-5)
        assert np.asarray(single) == pytest.approx(fields.ctrl[0], abs=1e-5)
    before = fields.ctrl.copy()
    drive(HERE, np.array([[1.0, 1.0]]), False, fields, None, arm)  # type: ignore[arg-type]
    assert np.array_equal(before, fields.ctrl)
    assert car.robot(reverse=True).torque_limits[0][2:] == (-60.0,) * 4


# ---- measures on the ground

NAMES = ("car", "box", "road_0", "road_1")
SCENE: Any = SimpleNamespace(
    entities={},
    regions={
        "car": Region("car", None, (0.3, 0.18, 0.05)),
        "box": Region("box", None, (0.5, 0.5, 0.5)),
        "road_0": Region("road_0", None, (2.0, 0.5, 0.01)),
        "road_1": Region("road_1", None, (2.0, 0.5, 0.01)),
    },
)
INDEX = SignalIndex((), NAMES, (), ())


def turned(yaw: float = 0.0, pitch: float = 0.0, roll: float = 0.0) -> np.ndarray:
    (cy, sy), (cp, sp), (cr, sr) = ((np.cos(a), np.sin(a)) for a in np.radians([yaw, pitch, roll]))
    z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    return z @ y @ np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])


def says(atom: Atom, **poses: tuple[Any, np.ndarray]) -> bool:
    """What an atom says where regions are at [3] and turned by [3, 3]: in double precision, and in single by JAX."""
    s = Signals.zeros(1, INDEX)
    s.region_mat[:] = np.eye(3)
    s.region_pos[0, 2:] = (0, 0, 0), (2, 2, 0)  # from (-2, 0) to (2, 0), and on to (2, 4)
    s.region_mat[0, 3] = turned(90.0)
    for name, (at, mat) in poses.items():
        s.region_pos[0, NAMES.index(name)], s.region_mat[0, NAMES.index(name)] = at, mat
    test = compile_atom(atom, SCENE, INDEX)
    [found] = test(s).tolist()
    fields = {f.name: jnp.array(getattr(s, f.name)) for f in dataclasses.fields(s)}
    assert bool(test(Signals(**fields))[0]) is found  # type: ignore[arg-type]
    return found


def astray(bound: float) -> Atom:
    return Atom("astray", ("car", "road_0", "road_1"), Threshold(">", bound))


@pytest.mark.parametrize(
    ("x", "y", "yaw", "away"),
    [(0.0, 0.5, 0.0, 0.68), (0.0, 0.0, 90.0, 0.3), (2.0, 3.0, 90.0, 0.18), (1.5, 3.0, 90.0, 0.68), (-3.0, 0.0, 0.0, 1.3124)],
)  # fmt: skip
def test_how_far_the_worst_corner_is_from_the_road(x: float, y: float, yaw: float, away: float):
    pose = {"car": ((x, y, 0.05), turned(yaw))}
    assert says(astray(away - 1e-3), **pose)
    assert not says(astray(away + 1e-3), **pose)


@pytest.mark.parametrize(
    ("x", "y", "yaw", "apart"),
    [(1.0, 0.0, 0.0, 0.2), (0.79, 0.0, 0.0, -0.01), (1.0, 0.0, 90.0, 0.32), (0.9, 0.9, 45.0, 0.2657)],
)  # fmt: skip
def test_rectangles_overlap_or_are_apart(x: float, y: float, yaw: float, apart: float):
    pose = {"car": ((x, y, 0.0), turned(yaw)), "box": ((0, 0, 0), np.eye(3))}
    gap = says(Atom("gap", ("car", "box"), Threshold("<", apart + 1e-3)), **pose)
    assert gap
    assert not says(Atom("gap", ("car", "box"), Threshold("<", apart - 1e-3)), **pose)
    assert says(Atom("gap", ("car", "box"), Threshold("<", 0.0)), **pose) is (apart < 0)


def test_headings_lean_and_depth():
    def within(name: str, degrees: float, **pose: Any) -> bool:
        args = ("car", "box") if name == "facing" else ("car",)
        return says(Atom(name, args, Threshold("<=", np.radians(degrees))), **pose)

    level = (0.0, 0.0, 0.0)
    assert within("facing", 25.01, car=(level, turned(25.0)), box=(level, np.eye(3)))
    assert not within("facing", 24.99, car=(level, turned(-25.0)), box=(level, np.eye(3)))
    assert within("facing", 20.01, car=(level, turned(170.0)), box=(level, turned(-170.0)))
    assert within("roll", 60.01, car=(level, turned(40.0, 5.0, -60.0)))
    assert not within("roll", 59.99, car=(level, turned(40.0, 5.0, 60.0)))
    assert within("pitch", 60.01, car=(level, turned(40.0, 60.0, 10.0)))
    assert not within("pitch", 59.99, car=(level, turned(40.0, -60.0, 10.0)))
    below = Atom("below", ("car", "road_0", "road_1"), Threshold(">", 0.2))
    assert says(below, car=((0, 0, -0.201), np.eye(3)))
    assert not says(below, car=((0, 0, -0.2), np.eye(3)))
    # On a slope of 1 in 10 the road is 0.1 m higher a metre on.
    slope = turned(0.0, -np.degrees(np.arctan(0.1)))
    inside = Atom("beyond", ("car", "box"), Threshold("<=", 0.0))
    assert says(inside, car=((0.199, 0.319, 0), np.eye(3)), box=(level, np.eye(3)))
    assert not says(inside, car=((0.199, 0.321, 0), np.eye(3)), box=(level, np.eye(3)))
    assert not says(inside, car=((0.199, 0.319, 0), turned(10.0)), box=(level, np.eye(3)))
    assert says(inside, car=((0.14, 0.14, 0), turned(45.0)), box=(level, turned(45.0)))
    side = Atom("side", ("car", "box"), Threshold("<=", 0.1))
    assert says(side, car=((5.0, 0.099, 0), np.eye(3)), box=(level, np.eye(3)))
    assert not says(side, car=((-0.11, 5.0, 0), np.eye(3)), box=(level, turned(90.0)))
    assert says(below, car=((1.0, 0, -0.11), np.eye(3)), road_0=((0, 0, 0), slope))
    assert not says(below, car=((1.0, 0, -0.09), np.eye(3)), road_0=((0, 0, 0), slope))


@pytest.mark.parametrize(
    ("atom", "message"),
    [
        (Atom("gap", ("car", "box")), "give it a bound"),
        (Atom("gap", ("car", "bx"), Threshold("<", 0.0)), "did you mean box"),
        (Atom("astray", ("car",), Threshold(">", 0.0)), "takes 2 or more arguments, got 1"),
        (Atom("gapp", ("car", "box"), Threshold("<", 0.0)), "did you mean gap"),
    ],
)
def test_what_cannot_be_judged_is_refused(atom: Atom, message: str):
    with pytest.raises(BenchError, match=message):
        compile_atom(atom, SCENE, INDEX)


# ---- its bounds, on made-up signals

JUDGE, COLUMNS = judge_of(TASK), goal_index(TASK.atoms, TASK.scene)
GATES = [(*courtyard.PATH[v], np.degrees(heading(courtyard.PATH, v))) for v in checkpoints(courtyard.PATH, 2.0)]
ON_ROAD = (-5.0, -3.0, 0.0, 0.0)


def drives(poses: Any, pace: float = 0.0, **lean: float) -> tuple[Verdict, str]:
    """What becomes of a car at x, y, z and yaw (degrees) after each step, that moves and leans alike at all of them."""
    s = Signals.zeros(len(poses), COLUMNS)
    s.region_pos[:], s.region_mat[:] = places(TASK.scene.load_spec, COLUMNS.regions)
    for name in ("car_frame", "car_hull"):
        s.region_pos[:, COLUMNS.region(name)] = [pose[:3] for pose in poses]
        s.region_mat[:, COLUMNS.region(name)] = [turned(pose[3], **lean) for pose in poses]
    s.entity_vel[:, COLUMNS.mover("car"), 0] = pace
    return verdict(JUDGE, s)


def parks(way: Any, rest: int = 40, pace: float = 0.0) -> bool:
    """Whether a car that went this way, and stands at its end for so many steps, is a success; it never fails."""
    found = drives([*way, *[way[-1]] * (rest - 1)], pace)
    assert found[0] is not Verdict.FAILURE, found
    return found[0] is Verdict.SUCCESS


def test_it_parks_after_all_checkpoints_in_order():
    assert parks(GATES)
    assert not parks(GATES, rest=39)
    assert not parks([GATES[-1]])
    for i in range(len(GATES) - 1):
        assert not parks([*GATES[:i], *GATES[i + 1 :]]), i
    assert not parks([GATES[1], GATES[0], *GATES[2:]])
    assert parks([GATES[1], *GATES]), "what comes too early is no more than ignored"


# Metres and degrees from where a checkpoint is.
NEAR, AWAY = ((0.649, 0.0, 0.0, 0.0), (0.0, -0.649, 0.0, 0.0)), ((0.651, 0.0, 0.0, 0.0), (0.0, -0.651, 0.0, 0.0))
LEVEL, HIGH = (0.0, 0.0, 0.2199, 0.0), (0.0, 0.0, 0.2201, 0.0)


@pytest.mark.parametrize("gate", range(5))
def test_a_checkpoint_has_its_bounds(gate: int):
    """All but the last, which is where the goal is."""
    for offs, counts in (
        ((*NEAR, LEVEL, (0.0, 0.0, 0.0, 89.99), (0.0, 0.0, 0.0, -89.99)), True),
        ((*AWAY, HIGH, (0.0, 0.0, 0.0, 90.01), (0.0, 0.0, 0.0, -90.01)), False),
    ):
        for off in offs:
            way = [*GATES[:gate], np.add(GATES[gate], off), *GATES[gate + 1 :]]
            assert parks(way) is counts, off


def test_the_goal_has_its_bounds():
    for offs, counts in (
        ((*NEAR, LEVEL, (0.0, 0.0, 0.0, 24.99), (0.0, 0.0, 0.0, -24.99)), True),
        ((*AWAY, HIGH, (0.0, 0.0, 0.0, 25.01), (0.0, 0.0, 0.0, -25.01)), False),
    ):
        for off in offs:
            assert parks([*GATES, np.add(GATES[-1], off)]) is counts, off
    assert parks(GATES, pace=0.1199)
    assert not parks(GATES, pace=0.1201)


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        # A rectangle of 0.60 x 0.36 m, for crates 0.015 m larger all around: along it, across it, and at a corner of one.
        ((4.0, 0.8151, 0.0, 90.0), (4.0, 0.8149, 0.0, 90.0), "gap(car_hull, cargo_c) < 0"),
        ((3.8, 0.6951, 0.0, 0.0), (3.8, 0.6949, 0.0, 0.0), "gap(car_hull, cargo_c) < 0"),
        ((3.39178, 0.66233, 0.0, 33.69), (3.39189, 0.66217, 0.0, 33.69), "gap(car_hull, cargo_c) < 0"),
        ((-5.0, -1.8501, 0.0, 0.0), (-5.0, -1.8499, 0.0, 0.0), "astray(car_frame, road_00, ..., road_15) > 1.33"),
        ((-5.0, -4.1499, 0.0, 0.0), (-5.0, -4.1501, 0.0, 0.0), "astray(car_frame, road_00, ..., road_15) > 1.33"),
        ((-5.0, -3.0, -0.1999, 0.0), (-5.0, -3.0, -0.2001, 0.0), "below(car_frame, road_00, ..., road_15) > 0.2"),
        ((0.0, -2.0, -0.0499, 45.0), (0.0, -2.0, -0.0501, 45.0), "below(car_frame, road_00, ..., road_15) > 0.2"),
    ],
)
def test_crates_the_edge_and_the_ground_have_their_bounds(good: Any, bad: Any, reason: str):
    assert drives([ON_ROAD, good, ON_ROAD]) == (Verdict.TIMEOUT, "horizon")
    assert drives([ON_ROAD, bad, ON_ROAD]) == (Verdict.FAILURE, reason)


@pytest.mark.parametrize("axis", ["roll", "pitch"])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_car_that_leans_by_60_degrees_has_rolled_over(axis: str, side: float):
    for degrees, ends in ((0.0, False), (59.99, False), (60.01, True), (85.0, True)):
        found = drives([ON_ROAD], **{axis: side * degrees})
        assert found == ((Verdict.FAILURE, f"{axis}(car_frame) > 1.0472") if ends else (Verdict.TIMEOUT, "horizon"))


# ---- episodes


def test_pursuit_parks_and_nothing_else_does(tmp_path: Path):
    [record] = run(tmp_path / "oracle", TASK, Oracle())
    assert (record.verdict, record.reason, record.progress) == ("success", "goal", 1.0)
    assert record.success_step == record.end_step < TASK.horizon
    eef = np.asarray(load_run(tmp_path / "oracle").array(record, "eef_pos"))
    assert np.linalg.norm(eef[-40:, :2] - courtyard.GOAL_AT[:2], axis=1).max() < courtyard.NEAR
    assert np.abs(np.diff(eef[-40:, :2], axis=0)).max() * 50 < courtyard.STOPPED
    [zero] = run(tmp_path / "zero", dataclasses.replace(TASK, horizon=150), Zero())
    assert (zero.verdict, zero.end_step) == ("timeout", 150)


def test_leaving_the_road_ends_it(tmp_path: Path):
    [record] = run(tmp_path / "run", TASK, Steady(0.3, 0.0))
    assert record.verdict == "failure"
    assert record.reason == "astray(car_frame, road_00, ..., road_15) > 1.33"
    assert record.end_step < 600


def test_touching_cargo_ends_it_on_the_road(tmp_path: Path):
    """Where the road passes the third crate, 0.4 m from its middle, this one drives on its right."""
    path = courtyard.PATH.copy()
    path[9:14, :2] += 0.35 * np.array([0.5547, -0.8321])
    beside = dataclasses.replace(TASK, extra={**TASK.extra, "legs": ((path[:, :2], False),)})
    [record] = run(tmp_path / "run", beside, Oracle())
    assert (record.verdict, record.reason) == ("failure", "gap(car_hull, cargo_c) < 0")


def test_a_car_does_not_go_backwards():
    physics = engine(TASK)
    for _ in range(100):
        physics.control_step(HERE, np.array([[-1.0, 0.0]]))
    assert physics.kinematics(HERE).qpos[0, 0] == pytest.approx(-6.0, abs=0.005)


@pytest.mark.slow
def test_engines_drive_alike():
    """Thirty control steps with changing speed and steering, C against JAX."""
    engines_step_alike(TASK, lambda rng: rng.uniform([0.0, -0.5], [0.4, 0.5], (4, 2)), bound=1e-3)


@pytest.mark.slow
def test_on_jax_it_parks_too(tmp_path: Path):
    assert verdicts(tmp_path / "run", TASK, Oracle(), backend="jax") == {"success": 1}
