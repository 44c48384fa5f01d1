"""Kitchens: what varies and what may not, room for the task and the robot, and what stands and falls in them."""

from __future__ import annotations

import functools
import hashlib

import mujoco
import numpy as np
import pytest

from evals import registry
from evals.instances import EVALUATION, TEMPLATE, TRAINING, differing
from evals.roboquest import instances as making
from evals.roboquest import kitchen as kitchens
from evals.roboquest.constant import Constant
from evals.roboquest.instances import streams
from evals.roboquest.kitchen import TOP_Z, Footprint, clear_of, draw_kitchen, kitchen
from evals.roboquest.layouts import LAYOUTS, PLANS
from evals.roboquest.robot import AHEAD, ASIDE, BEHIND, ROBOT
from evals.roboquest.skills import PICK_PLACE
from evals.roboquest.styles import STYLES
from evals.tabletop.draw import Draw, Placed
from mjx_bench.physics.mjx_jax import contact_slots, refuse

# Of Puzzle Box, Odd Parcel and Search Room.
FOOTPRINTS = (Footprint(1.20, 0.66), Footprint(1.20, 0.60), Footprint(0.66, 0.42))
TASK = registry.load_task("roboquest", 1)
INSTANCES = TASK.extra["instances"]


@functools.cache
def template() -> mujoco.MjModel:
    model: mujoco.MjModel = INSTANCES.template
    return model


def some(footprint: Footprint, number: int) -> kitchens.Kitchen:
    return kitchen(Draw(np.random.default_rng(number)), footprint, number, number % len(STYLES))


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def within(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(np.array([a[0] - b[0], b[1] - a[1], a[2] - b[2], b[3] - a[3]]) > -1e-6)


@pytest.mark.parametrize("footprint", FOOTPRINTS, ids=str)
def test_every_layout_has_room_for_the_task_and_for_the_robot_before_it(footprint: Footprint):
    for number in range(LAYOUTS):
        k = some(footprint, number)
        x0, x1, y0, y1 = k.layout.parts["counter"].rectangle
        hx, hy = footprint.x / 2, footprint.y / 2
        assert x0 < -hx, k
        assert hx < x1, k
        assert y0 == pytest.approx(-hy - 0.03)
        assert hy < y1
        for x, y, scale in k.decor:
            # Nothing of it is wider than the bowl's 7.5 cm.
            aside = max(abs(x) - hx, abs(y) - hy)
            assert aside >= 0.02 + 0.075 * scale - 0.03, f"layout {number}: {x}, {y}"
            assert x0 < x < x1
            assert y0 < y < y1
        x, y, _ = k.start
        assert y == pytest.approx(y0 - 0.20)
        stands = (x - ASIDE, x + ASIDE, y - BEHIND, y + AHEAD)
        room = k.layout.room
        assert within(stands, room)
        assert not any(overlap(stands, rectangle) for rectangle in k.layout.obstacles), f"layout {number}"
        parts = list(k.layout.obstacles)
        apart = [(a, b) for i, a in enumerate(parts) for b in parts[:i]]
        shrunk = [tuple(v + s * 1e-6 for v, s in zip(a, (1, -1, 1, -1), strict=True)) for a, _ in apart]
        assert not any(overlap(a, b) for a, (_, b) in zip(shrunk, apart, strict=True)), f"layout {number}"
        assert all(within(rectangle, room) for rectangle in parts), f"layout {number}"


def test_the_second_half_of_the_layouts_mirrors_the_first():
    for number in range(len(PLANS)):
        one = kitchens.layout(number, -0.3, 0.7, 1.8, 0.1)
        other = kitchens.layout(number + len(PLANS), -0.3, 0.7, 1.8, 0.1)
        assert {(-b, -a, c, d) for a, b, c, d in one.obstacles} == set(other.obstacles)
        assert other.room == (-one.room[1], -one.room[0], *one.room[2:])
    assert not clear_of(some(FOOTPRINTS[0], 4), 0.0, 0.0, 0.1), "the counter is in the way"


def test_all_kitchens_are_one_model_in_other_numbers_and_a_compiled_engine_takes_them():
    fields = set(INSTANCES.varied)
    for number in range(0, LAYOUTS, 5):
        drawn = making.draw(PICK_PLACE, number)
        k = kitchen(Draw(np.random.default_rng(number)), PICK_PLACE.footprint, number, (7 * number) % len(STYLES))
        spec = kitchens.empty_kitchen(k, PICK_PLACE.substeps)
        for item in drawn.placed:
            x, y = item.xy
            at = [x, y, TOP_Z + item.thing.rest_height]
            item.thing.add(spec.worldbody, at) if item.thing.free_joint else item.thing.add(
                spec.worldbody, at, [1, 0, 0, 0]
            )
        model = spec.compile()
        assert (model.ngeom, model.nq, model.nv, model.nu) == (
            template().ngeom, template().nq, template().nv, template().nu,
        )  # fmt: skip
        assert [model.geom(i).name for i in range(model.ngeom)] == [template().geom(i).name for i in range(model.ngeom)]
        assert differing(template(), model) <= fields
    assert "geom_sameframe" not in fields
    refuse(template(), INSTANCES.varied)
    assert contact_slots(template()) <= 70
    assert template().nq == 3 + 7 + 2 + 7


def test_styles_for_evaluation_are_never_trained_on_and_layouts_all_come():
    found: dict[bool, set[int]] = {True: set(), False: set()}
    layouts = set()
    for i in range(200):
        for evaluation, index in ((True, EVALUATION.start + i), (False, TRAINING.start + i)):
            k = making.draw(PICK_PLACE, index).quest.kitchen
            found[evaluation].add(k.style)
            layouts.add(k.layout.number)
    assert found == {True: set(range(10, 15)), False: set(range(10))}
    assert layouts == set(range(LAYOUTS))


def test_instances_come_from_the_five_streams_of_the_benchmark_and_come_again():
    salt = int.from_bytes(hashlib.sha256(b"puzzle_box").digest()[:4], "little")
    wanted = [np.random.default_rng(s).random(3) for s in np.random.SeedSequence([salt, 1_000_007]).spawn(5)]
    for draw, numbers in zip(streams("puzzle_box", 1_000_007), wanted, strict=True):
        np.testing.assert_array_equal(draw.rng.random(3), numbers)
    one, other = (INSTANCES._made(12) for _ in range(2))
    np.testing.assert_array_equal(one.state, other.state)
    for name in INSTANCES.varied:
        np.testing.assert_array_equal(one.fields[name], other.fields[name])
    assert not np.array_equal(one.state, INSTANCES[13])
    # What is drawn of one stream leaves the others as they are.
    first, again = streams("puzzle_box", 3), streams("puzzle_box", 3)
    draw_kitchen(first[0], FOOTPRINTS[0], evaluation=True)
    assert first[2].between(0.0, 1.0) == again[2].between(0.0, 1.0)


def left_alone(container: tuple[float, float, float], seconds: float, drive: float = 0.0) -> mujoco.MjData:
    """Instance 0 on plain MuJoCo, the container elsewhere, the arm without weight; the base's goal moves along y, m/s."""
    model = making.build(PICK_PLACE, making.draw(PICK_PLACE, 0)).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = INSTANCES.instance(0).state[1 : 1 + model.nq]
    at = int(model.joint("container_free").qposadr[0])
    data.qpos[at : at + 3] = container
    for joint, servo in zip(ROBOT.base_joints, ROBOT.base_actuators, strict=True):
        data.ctrl[model.actuator(servo).id] = data.qpos[model.joint(joint).qposadr[0]]
    for body in range(model.nbody):
        if model.body(body).name.startswith("robot0"):
            model.body_gravcomp[body] = 1.0
    y = model.actuator(ROBOT.base_actuators[1]).id
    for _ in range(round(seconds / model.opt.timestep)):
        data.ctrl[y] += drive * model.opt.timestep
        mujoco.mj_step(model, data)
    return data


def test_what_stands_on_the_counter_stays_and_what_is_put_beyond_its_edge_lies_on_the_floor():
    half = INSTANCES.instance(0).placed[0].thing.rest_height
    front = PICK_PLACE.footprint.front
    for spot, height in (((0.2, front + 0.05), TOP_Z + half), ((0.6, front - 0.2), None)):
        data = left_alone((*spot, TOP_Z + half + 0.002), 1.5)
        at = int(data.model.joint("container_free").qposadr[0])
        if height is None:
            assert data.qpos[at + 2] < 0.1
        else:
            np.testing.assert_allclose(data.qpos[at : at + 3], [*spot, height], atol=1.5e-3)


def test_the_base_stops_at_the_counter():
    data = left_alone((0.3, 0.1, TOP_Z + 0.06), 1.5, drive=0.4)
    y = float(data.qpos[data.model.joint(ROBOT.base_joints[1]).qposadr[0]])
    assert y + AHEAD == pytest.approx(PICK_PLACE.footprint.front, abs=0.015)


def test_a_constant_is_a_region_as_high_as_its_value():
    spec = mujoco.MjSpec()
    number = Constant("chain", (0, 0, 0), value=5.0)
    number.add(spec.worldbody, [0.1, 0.2, TOP_Z], [1, 0, 0, 0])
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    assert data.site(number.region).xpos[2] == pytest.approx(5.0)
    assert str(number.at_least(4.5)) == "height(chain_value) >= 4.5"
    assert Placed(number, (0.1, 0.2)).thing.radius == 0.0


def test_the_template_is_an_instance_of_its_own():
    assert INSTANCES.instance(TEMPLATE).state.shape == INSTANCES[0].shape
    with pytest.raises(IndexError, match="instance -1"):
        INSTANCES[-1]
