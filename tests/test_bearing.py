"""What bears what: contacts that push up, by their normals and forces; `test_mjx_engine` compares the engines."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

from evals import registry
from mjx_bench.physics.bearing import LEAST_FORCE, bearing, bears
from mjx_bench.physics.grips import add_press
from mjx_bench.physics.scene import compile_scene
from mjx_bench.predicates import touches_of
from mjx_bench.signals import HAND, LEAST_Z, PRESS, SUPPORT, borne_of, touch_pair

_XML = """
<mujoco>
  <option timestep="0.002" gravity="{gravity}"/>
  <worldbody>
    <body name="shelf"><geom name="shelf" type="box" size="0.2 0.2 0.02"/></body>
    <body name="box" pos="{at}"><freejoint/><geom name="box" type="box" size="0.03 0.03 0.03" mass="0.2"/></body>
  </worldbody>
</mujoco>
"""
DOWN, UP, ASIDE, NOWHERE = "0 0 -9.81", "0 0 9.81", "-9.81 0 0", "0 0 0"
ON, UNDER, BESIDE, NEAR = "0 0 0.05", "0 0 -0.05", "0.23 0 0", "0 0 0.0505"


def found(at: str, gravity: str, lower: str, upper: str) -> bool:
    """Whether one bears the other, where a box is pulled to a fixed shelf."""
    spec = mujoco.MjSpec.from_string(_XML.format(at=at, gravity=gravity))
    geom = mujoco.mjtObj.mjOBJ_GEOM
    name = add_press(spec, (geom, lower), (geom, upper))
    model = spec.compile()
    data = mujoco.MjData(model)
    for _ in range(20):
        mujoco.mj_step(model, data)
    return bool(bears(data.sensor(name).data, LEAST_Z[SUPPORT]))


def test_what_lies_on_something_is_borne_by_it():
    assert found(ON, DOWN, "shelf", "box")
    assert not found(ON, DOWN, "box", "shelf"), "the box does not bear the shelf"
    assert found(UNDER, UP, "box", "shelf"), "but it does, pressed to it from below"
    for why, at, gravity in (
        ("beside it", BESIDE, ASIDE),
        ("without a force", ON, NOWHERE),
        ("in the air above it", NEAR, NOWHERE),
    ):
        assert not found(at, gravity, "shelf", "box"), why


@pytest.mark.parametrize(("kind", "degrees"), [(SUPPORT, 60.0), (PRESS, 25.84)])
def test_bounds(kind: str, degrees: float):
    """RoboQuest's: a normal's part along z of 0.5 where something is supported, of 0.9 where something is pressed."""
    up = LEAST_Z[kind]
    assert math.degrees(math.acos(up)) == pytest.approx(degrees, abs=0.01)
    force = np.array([1.0, 1.0, LEAST_FORCE, 1.01 * LEAST_FORCE, 0.0])
    normal = np.array([up, up - 1e-6, 1.0, 1.0, 1.0])
    assert bearing(force, normal, up).tolist() == [True, False, False, True, False]
    assert pytest.approx(1e-5) == LEAST_FORCE


def test_names_of_pairs():
    for pair, borne in (
        (touch_pair("zebra", SUPPORT + "ark"), ("zebra", "ark", 0.5)),
        (touch_pair("ark", SUPPORT + "zebra"), ("ark", "zebra", 0.5)),
        (touch_pair(HAND, PRESS + "submit"), (HAND, "submit", 0.9)),
        (touch_pair(HAND, "submit"), None),
        (("item", "tray"), None),
    ):
        assert borne_of(pair) == borne


def test_a_kitchen_asks_for_the_press_and_for_what_bears_the_item():
    [row] = [r for r in registry.listing("roboquest") if r["name"] == "puzzle_box"]
    task = registry.load_task("roboquest", row["index"])
    pairs = touches_of(task.atoms, task.scene)
    scene = compile_scene(task.scene, pairs)
    asked = {borne_of(pairs[load.column])[:2]: load for load in scene.bearings}  # type: ignore[index]
    assert set(asked) == {("item", "tray"), (HAND, "submit")}
    names = {key: [{scene.model.geom(g).name for g in side} for side in load.geoms] for key, load in asked.items()}
    assert names[HAND, "submit"] == [{"submit_cap"}, set(task.scene.robot.hand_geoms)]
    assert names["item", "tray"] == [set(task.scene.entities[n].contact_geoms) for n in ("tray", "item")]
    assert all(load.sensors.size for load in scene.bearings)
