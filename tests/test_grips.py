"""A hand holds what both of its pads press from opposite sides, hard enough; `test_mjx_engine` compares the engines."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

from evals import registry
from mjx_bench.physics.grips import LEAST_ANGLE, LEAST_FORCE, add_press, opposed, pressed
from mjx_bench.physics.scene import compile_scene
from mjx_bench.signals import GRIP, held_of, touch_pair

_XML = """
<mujoco>
  <option timestep="0.004" gravity="0 0 0" cone="{cone}"/>
  <worldbody>
    <body name="can"><freejoint/><geom name="can" type="box" size="0.03 0.03 0.05" mass="0.3"/></body>
    <body pos="{a}">
      <joint name="a" type="slide" axis="{a}"/>
      <geom name="pad_a" type="box" size="0.006 0.006 0.006" mass="0.05"/>
    </body>
    <body pos="{b}">
      <joint name="b" type="slide" axis="{b}"/>
      <geom name="pad_b" type="box" size="0.006 0.006 0.006" mass="0.05"/>
    </body>
  </worldbody>
  <actuator><motor joint="a"/><motor joint="b"/></actuator>
</mujoco>
"""
ALONG, BACK, ASIDE = "0.0361 0 0", "-0.0361 0 0", "0 0.0361 0"
BESIDE = "0.0361 0.015 0", "0.0361 -0.015 0"


def squeezed(
    a: str, b: str, force: float, *, cone: str = "pyramidal", steps: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """[3] what pads at `a` and `b` press the can in the middle with, each driven towards it by `force` newtons."""
    spec = mujoco.MjSpec.from_string(_XML.format(a=a, b=b, cone=cone))
    geom, body = mujoco.mjtObj.mjOBJ_GEOM, mujoco.mjtObj.mjOBJ_XBODY
    names = [add_press(spec, (geom, pad), (body, "can")) for pad in ("pad_a", "pad_b")]
    model = spec.compile()
    data = mujoco.MjData(model)
    data.ctrl[:] = -force
    for _ in range(steps):
        mujoco.mj_step(model, data)
    found = [pressed(data.sensor(name).data) for name in names]
    return found[0], found[1]


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_pads_on_either_side_hold(cone: str):
    a, b = squeezed(ALONG, BACK, 5.0, cone=cone, steps=60)
    assert a == pytest.approx([-5.0, 0.0, 0.0], abs=0.05), "towards the can, in newtons"
    assert b == pytest.approx([5.0, 0.0, 0.0], abs=0.05)
    assert opposed(a, b)


def test_what_does_not_hold():
    for why, a, b, force, steps in (
        ("it is between them, and they press too little", ALONG, BACK, 0.2, 60),
        ("around a corner", ALONG, ASIDE, 5.0, 3),
        ("both from one side: a hand that rams it", *BESIDE, 5.0, 3),
        ("nothing presses", ALONG, BACK, -5.0, 60),
    ):
        pushes = squeezed(a, b, force, steps=steps)
        assert not opposed(*pushes), why
        pressing = sum(float(np.linalg.norm(push)) for push in pushes)
        assert (pressing >= LEAST_FORCE) == (force == 5.0), (why, pressing)


def test_bounds():
    def pair(angle: float, a: float, b: float) -> bool:
        return bool(opposed(np.array([a, 0.0, 0.0]), b * np.array([math.cos(angle), math.sin(angle), 0.0])))

    assert pair(LEAST_ANGLE + 1e-6, 3.0, 0.01)
    assert not pair(LEAST_ANGLE - 1e-6, 3.0, 3.0)
    assert pair(math.pi, LEAST_FORCE / 2, LEAST_FORCE / 2)
    assert not pair(math.pi, LEAST_FORCE / 2, LEAST_FORCE / 2 - 1e-6)
    assert not pair(math.pi, 3.0, 0.0), "one pad alone"


def test_a_robot_with_two_hands_holds_with_one_of_them():
    """The pads of each hand go together, and not one of either."""
    [row] = [r for r in registry.listing("robot_agent_bench") if r["name"] == "shelf_pickup_missed"]
    task = registry.load_task("robot_agent_bench", row["index"])
    pair = touch_pair(GRIP, "target")
    assert held_of(pair) == "target"
    assert held_of(("target", "zebra")) is None
    scene = compile_scene(task.scene, (pair,))
    [grip] = scene.grips
    assert grip.column == 0
    names = [[[scene.model.geom(g).name for g in pad] for pad in hand] for hand in grip.geoms]
    assert names == [[["left_pad_a"], ["left_pad_b"]], [["right_pad_a"], ["right_pad_b"]]]
    assert len(grip.sensors) == 2
