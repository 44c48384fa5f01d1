"""The home of RobotAgentBench: its robot, its floor plans, what instances vary, and the map that is revealed of it."""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from evals import registry
from evals.robot_agent_bench import discovery, navigation_map, pickup, selection
from evals.robot_agent_bench.clearance import is_clear
from evals.robot_agent_bench.furniture import BY_NAME, SEAT, TABLE_TOP
from evals.robot_agent_bench.household import PALETTES, Drawer, build, initial_state, inside
from evals.robot_agent_bench.instances import Drawn, Instances
from evals.robot_agent_bench.layouts import layouts
from evals.robot_agent_bench.robot import JOINTS, ROBOT, add_robot
from mjx_bench.control import bimanual as law
from mjx_bench.control.arm_jax import Memory, Seen
from mjx_bench.control.bimanual_jax import bimanual as bimanual_jax
from mjx_bench.physics.base import Physics
from mjx_bench.physics.choice import make_physics
from mjx_bench.physics.mujoco_c import MujocoC

DRINKS = registry.load_task("robot_agent_bench", 0)
HERE = np.zeros(1, np.int32)


def alone() -> tuple[mujoco.MjModel, mujoco.MjData]:
    """The robot alone, at home."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    add_robot(spec)
    model = spec.compile()
    data = mujoco.MjData(model)
    for name, value in zip(JOINTS, law.HOME[:18], strict=False):
        data.qpos[model.joint(name).qposadr[0]] = value
    mujoco.mj_forward(model, data)
    return model, data


def engine(instance: int = 0) -> Physics:
    physics = make_physics("c", DRINKS.scene, (), 1, "bimanual", DRINKS.substeps, fields=DRINKS.load_fields(0))
    physics.load(0, DRINKS.load_init_states()[instance], DRINKS.load_reset(0), DRINKS.load_fields(instance))
    return physics


def test_the_robot_has_the_sheets_joints_and_hands():
    model, data = alone()
    assert (model.nv, model.nu) == (25, 23)
    assert len(JOINTS) == law.STATE
    assert data.site("left_tcp").xpos == pytest.approx([0.76, 0.24, 1.10], abs=0.005)
    assert data.site("right_tcp").xpos == pytest.approx([0.76, -0.24, 1.10], abs=0.005)
    for side, sign in (("left", 1.0), ("right", -1.0)):
        way = sign * data.site(f"{side}_tcp").xmat.reshape(3, 3)[:, 1]
        assert math.degrees(math.asin(-way[2])) == pytest.approx(27.0, abs=1.0)
    arms = sum(model.body(f"left_link_{i}").mass[0] for i in range(1, 8))
    assert arms == pytest.approx(4.8)
    # q_right = -q_left is the mirrored pose.
    rng = np.random.default_rng(0)
    for _ in range(5):
        q = rng.uniform(-1.2, 1.2, 7)
        for i in range(7):
            data.qpos[model.joint(f"left_arm_{i + 1}").qposadr[0]] = q[i]
            data.qpos[model.joint(f"right_arm_{i + 1}").qposadr[0]] = -q[i]
        mujoco.mj_kinematics(model, data)
        left, right = data.site("left_tcp").xpos, data.site("right_tcp").xpos
        assert left * [1, -1, 1] == pytest.approx(right, abs=0.003)


def test_actions_are_commands_around_home():
    assert np.array_equal(law.command(np.zeros(22)), law.HOME)
    assert law.command(np.ones(22)) == pytest.approx(law.HIGH)
    assert law.command(-np.ones(22)) == pytest.approx(law.LOW)
    rng = np.random.default_rng(0)
    wanted = rng.uniform(law.LOW, law.HIGH, (50, 22))
    assert law.command(law.action(wanted)) == pytest.approx(wanted, abs=1e-12)
    assert law.action(law.HIGH + 1.0) == pytest.approx(np.where(law.HIGH > law.HOME, 1.0, 0.0)), "clipped"


def test_servos_are_told_no_more_than_their_speeds_allow():
    physics = engine()
    assert isinstance(physics, MujocoC)
    start = physics.kinematics(HERE).joint_pos[0]
    full = np.ones((1, 22))
    physics.control_step(HERE, full)
    told = physics.kinematics(HERE).ctrl[0]
    moved = told[:20] - start[:20]
    most = law.SPEED[:18] * 0.05
    assert (abs(moved[:18]) <= most + 1e-12).all()
    assert abs(moved[:18]).max() == pytest.approx(0.157, abs=1e-3)
    assert np.hypot(*told[20:22]) == pytest.approx(0.02, abs=1e-9), "0.4 m/s^2"
    assert told[22] == pytest.approx(0.04), "0.8 rad/s^2"
    for _ in range(19):
        physics.control_step(HERE, full)
    seen = physics.kinematics(HERE).joint_pos[0]
    assert np.hypot(*(seen[20:22] - start[20:22])) <= 0.18
    assert seen[14] == pytest.approx(start[14] + 0.1, abs=0.01), "the lift rises by 0.1 m a second"


def test_the_law_is_the_same_in_jax():
    physics = engine()
    assert isinstance(physics, MujocoC)
    arm, rng = physics.scene.arm, np.random.default_rng(0)
    memory = Memory(**{name: jnp.zeros(1) for name in Memory._fields})._replace(stale=jnp.ones(()))
    seen = Seen(**{name: jnp.zeros(1) for name in Seen._fields})
    ctrl = jnp.zeros(23)

    @jax.jit
    def told(
        action: jax.Array, new: jax.Array, now: jax.Array, ctrl: jax.Array, memory: Memory
    ) -> tuple[jax.Array, Memory]:
        return bimanual_jax(action, new, seen._replace(joint_pos=now), ctrl[:0], ctrl, memory, arm)

    for _ in range(8):
        action, now = rng.uniform(-1, 1, (1, 22)), physics.kinematics(HERE).joint_pos[0]
        ctrl, memory = told(jnp.array(action[0]), jnp.array(True), jnp.array(now), ctrl, memory)
        physics.control_step(HERE, action)
        assert np.asarray(ctrl) == pytest.approx(physics.kinematics(HERE).ctrl[0], abs=2e-6)
    held, _ = told(jnp.ones(22), jnp.array(False), jnp.zeros(23), ctrl, memory)
    assert np.array_equal(held, ctrl), "between control steps targets hold"


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two rectangles [4, 2] share more than an edge, by separating axes."""
    for box in (a, b):
        for side in (box[1] - box[0], box[3] - box[0]):
            pa, pb = a @ side, b @ side
            if pa.max() <= pb.min() + 1e-9 or pb.max() <= pa.min() + 1e-9:
                return False
    return True


def base_box(pose: Sequence[float], grown: float = 0.0) -> np.ndarray:
    x, y, yaw = pose
    c, s = math.cos(yaw), math.sin(yaw)
    long, wide = 0.30 + grown, 0.225 + grown
    corners = ((-long, -wide), (long, -wide), (long, wide), (-long, wide))
    return np.array([[x + c * a - s * b, y + s * a + c * b] for a, b in corners])


@pytest.mark.parametrize("plan", layouts(), ids=lambda plan: plan.name)
def test_furniture_fits_into_every_floor_plan_and_work_places_are_free(plan):
    boxes = {name: plan.corners(name) for name in plan.poses}
    assert set(boxes) == set(BY_NAME)
    names = sorted(boxes)
    for i, a in enumerate(names):
        assert all(inside(plan, corner) for corner in boxes[a]), a
        for b in names[i + 1 :]:
            assert not overlap(boxes[a], boxes[b]), (a, b)
    for name in names:
        if BY_NAME[name].work is not None:
            place = base_box(plan.work_place(name), 0.05)
            assert all(inside(plan, corner) for corner in place), name
            assert not [other for other in names if overlap(place, boxes[other])], name


def test_floor_plans_are_of_three_kinds():
    assert len(layouts()) >= 5
    assert {plan.plan for plan in layouts()} == {"rectangle", "L", "T"}


DRAWS: dict[str, Callable[[Drawer], Drawn]] = {
    **{kind.name: functools.partial(selection.draw, kind) for kind in selection.KINDS},
    **{kind.name: functools.partial(pickup.draw, kind) for kind in pickup.KINDS},
    discovery.NAME: discovery.draw,
}


@pytest.mark.parametrize("name", DRAWS)
def test_instances_vary_and_start_in_free_space(name: str):
    instances = Instances(name, DRAWS[name], 60)
    homes = [instances.drawn(i).home for i in range(25)]
    assert len({h.layout for h in homes}) == len(layouts())
    assert len({h.palette for h in homes}) >= 6
    assert len({h.things[0].thing.name for h in homes}) >= 4
    assert len({instances.told(i) for i in range(25)}) >= 5
    for home in homes:
        start = base_box(home.base)
        assert all(inside(home.plan, corner) for corner in start)
        assert not [n for n in home.plan.poses if overlap(start, home.plan.corners(n))]
        assert 0.25 <= home.lights.ambient <= 0.6
        assert 0.5 <= home.lights.key <= 1.0
        assert math.radians(35) <= home.lights.elevation <= math.radians(75)
        assert 0.0 <= home.lights.warmth <= 1.0
        assert len(home.decor) <= 6
        assert all(inside(home.plan, spot[:2]) for spot in home.decor)
        arms = abs(np.array(home.joints) - law.HOME[:18])
        assert arms[:7].max() <= 0.10, "the left arm is at home in all tasks"
        if name != "shelf_pickup_missed":
            assert arms[:14].max() <= 0.10
            assert 0.05 <= home.joints[14] <= 0.30
            assert abs(home.joints[16]) <= 0.3
        assert 0 <= home.palette < len(PALETTES)
        placed = [p for p in home.things if p.pose is not None]
        for i, a in enumerate(placed):
            for b in placed[i + 1 :]:
                assert a.pose is not None
                assert b.pose is not None
                near = math.dist(a.pose[:2], b.pose[:2])
                assert near > 0.05 or abs(a.pose[2] - b.pose[2]) > 0.2
    again = Instances(name, DRAWS[name], 60)
    assert again.drawn(7) == instances.drawn(7)


@pytest.mark.parametrize("name", [kind.name for kind in pickup.KINDS])
def test_a_robot_that_starts_at_the_shelf_touches_nothing(name: str):
    instances = registry.load_task("robot_agent_bench", [*DRAWS].index(name)).extra["instances"]
    for i in range(5):
        assert_untouched(instances, i)
    home = instances.drawn(0).home
    assert is_clear(home, "shelf")
    yaw = home.plan.work_place("shelf")[2]
    x, y, turn = home.base
    for further in (0.6, 0.8):
        moved = (x + further * math.cos(yaw), y + further * math.sin(yaw), turn)
        assert not is_clear(dataclasses.replace(home, base=moved), "shelf")


def assert_untouched(instances: Instances, index: int) -> None:
    """Nothing of the robot touches anything, and nothing lies deeper in anything else than 2 mm."""
    home = instances.drawn(index).home
    model = instances.build(instances.drawn(index)).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = initial_state(model, home)[1 : 1 + model.nq]
    mujoco.mj_forward(model, data)
    robot = model.body_rootid[model.geom_bodyid] == model.body("base").id
    for contact in data.contact:
        assert contact.dist > -0.002
        assert not robot[contact.geom].any(), (index, [model.geom(g).name for g in contact.geom])


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWS)
def test_every_instance_starts_at_rest(name: str):
    """In the first second nothing that lies there moves by 5 mm or turns by 3 degrees, with the robot where it is."""
    t = registry.load_task("robot_agent_bench", [*DRAWS].index(name))
    things = len(t.scene.objects)
    physics = make_physics("c", t.scene, (), 1, "bimanual", t.substeps, fields=t.load_fields(0))
    for i in range(60):
        assert_untouched(t.extra["instances"], i)
        home = t.extra["instances"].drawn(i).home
        physics.load(0, t.load_init_states()[i], t.load_reset(0), t.load_fields(i))
        before = physics.kinematics(HERE)
        held = law.action(np.array([*home.joints, *home.grippers, 0.0, 0.0]))[None]
        for _ in range(20):
            assert physics.control_step(HERE, held) == {}
        after = physics.kinematics(HERE)
        assert np.linalg.norm(after.entity_pos - before.entity_pos, axis=-1)[0, :things].max() < 0.005
        along = abs((after.entity_quat * before.entity_quat).sum(-1))[0, :things]
        assert math.degrees(2 * math.acos(min(1.0, along.min()))) < 3.0


def test_nothing_moves_while_the_robot_stands_at_home():
    physics = engine(3)
    things = len(DRINKS.scene.objects)
    before = physics.kinematics(HERE).entity_pos[0, :things].copy()
    for _ in range(20):
        assert physics.control_step(HERE, np.zeros((1, 22))) == {}
    after = physics.kinematics(HERE)
    assert after.entity_pos[0, :things] == pytest.approx(before, abs=1e-3)
    assert after.joint_pos[0, :18] == pytest.approx(law.HOME[:18], abs=0.06)


def plan_of(height: float) -> navigation_map.Raster:
    """An open floor of 6 x 6 m with a wall-to-wall bar of so much height 1.46 to 1.5 m before a camera at x = 0.02."""
    shape = (150, 151)
    tops, obstacle = np.zeros(shape), np.zeros(shape, np.bool_)
    tops[37:38], obstacle[37:38] = height, True
    return navigation_map.Raster(np.array([0.0, -3.02]), tops, obstacle, np.ones(shape, np.bool_))


def test_what_stands_in_the_way_hides_what_is_behind_it():
    eye = np.array([0.02, 0.0, 1.15])
    ahead = navigation_map.seen(plan_of(0.46), eye, 0.0, 0.3)[:, 75]
    hidden = np.flatnonzero(~ahead[38:125]) + 38
    far = (hidden.max() + 1) * navigation_map.CELL - eye[0]
    assert far == pytest.approx(1.5 * 1.15 / (1.15 - 0.46 - 0.02), abs=0.05), "1.08 m behind the table's far edge"
    assert ahead[37]
    assert ahead[hidden.max() + 1 : 120].all()
    assert not navigation_map.seen(plan_of(1.50), eye, 0.0, 0.3)[38:].any(), "nothing behind the shelf"


def test_the_map_equals_its_plain_loop_and_grows_as_the_robot_turns():
    instances = DRINKS.extra["instances"]
    home = instances.drawn(0).home
    grid = navigation_map.raster(build(home, 60).compile(), home.plan)
    x, y = home.plan.point("sofa", 0.0, 0.2)
    assert grid.height[tuple(grid.cell(np.array([x, y])))] == pytest.approx(SEAT, abs=0.005)
    table = home.plan.point("coffee_table", 0.0, 0.3)
    assert grid.height[tuple(grid.cell(table))] == pytest.approx(TABLE_TOP, abs=0.002)
    physics = engine(0)
    state = physics.kinematics(HERE).joint_pos[0]
    eye, yaw, down = navigation_map.camera_of(state)
    assert isinstance(physics, MujocoC)
    data = mujoco.MjData(physics.scene.model)
    data.qpos[:] = physics.kinematics(HERE).qpos[0]
    mujoco.mj_forward(physics.scene.model, data)
    assert eye == pytest.approx(data.camera("head").xpos, abs=1e-6)
    view = -data.camera("head").xmat.reshape(3, 3)[:, 2]
    assert (yaw, down) == pytest.approx((math.atan2(view[1], view[0]), math.asin(-view[2])), abs=1e-6)
    here = (grid, eye, yaw, down, 41)
    assert np.array_equal(navigation_map.seen(*here), navigation_map.seen_plainly(*here))
    assert navigation_map.seen(*here).any()
    mapped = navigation_map.NavigationMap.empty(grid)
    mapped.update(state, look=False)
    assert mapped.area == pytest.approx(math.pi * 0.6**2, rel=0.6)
    areas = []
    for turn in (0.0, 0.0, 1.5, 3.0):
        mapped.update(state + np.array([*(0.0,) * 22, turn]))
        areas.append(mapped.area)
    assert areas[0] == areas[1] < areas[2] < areas[3]
    assert set(np.unique(mapped.grid())) == {-1, 0, 1}
    assert mapped.picture().shape == (grid.height.shape[1] * 4, grid.height.shape[0] * 4, 3)
    assert len(mapped.trajectory) == 3


def test_the_robots_names_are_in_the_model():
    model = DRINKS.scene.load_spec().compile()
    for name in (*ROBOT.hand_geoms, *(g for side in ROBOT.finger_geoms for g in side)):
        assert model.geom(name).contype[0] or model.geom(name).conaffinity[0]


def test_threads_that_draw_at_once_draw_what_one_alone_draws():
    """Of several tasks, which pose the same robot before the same shelf."""

    def drawn(kind: pickup.Kind, index: int) -> bytes:
        made = Instances(kind.name, lambda drawer: pickup.draw(kind, drawer), 240)
        return repr(made.drawn(index)).encode()

    wanted = [(kind, index) for index in range(12) for kind in pickup.KINDS]
    alone_drawn = [drawn(*each) for each in wanted]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that they meet
    try:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda each: drawn(*each), wanted))
    finally:
        sys.setswitchinterval(usual)
    assert together == alone_drawn
