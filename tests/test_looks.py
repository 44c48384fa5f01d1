"""Visual edits against the tables of the LIBERO-MAX format and MuJoCo's own quaternions."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from mjx_bench.errors import BenchError
from mjx_bench.observe.looks import FIELDS, brightness_of, looks_of
from mjx_bench.physics.base import Visual

MODEL = mujoco.MjModel.from_xml_string("""
<mujoco>
  <asset><material name="white" rgba="1 1 1 1"/><material name="glass" rgba=".2 .4 .6 .3"/></asset>
  <worldbody>
    <light pos="0 0 3" diffuse=".8 .8 .8" specular=".3 .3 .3" ambient="0 0 0"/>
    <camera name="agentview" pos="1 .2 .5" xyaxes="0 1 0 -.5 0 1" fovy="45"/>
    <camera name="wrist" pos="0 0 1"/>
    <geom size=".1"/>
    <geom size=".1" rgba=".2 .4 .6 .5" material="white"/>
  </worldbody>
</mujoco>""")


def test_no_edit_no_change_and_the_model_is_never_written():
    before = {name: getattr(MODEL, name).copy() for name in FIELDS}
    looks = looks_of(MODEL, ())
    looks_of(
        MODEL, [Visual("set_lighting", {"scale": 0.2}), Visual("shift_camera", {"camera": "wrist", "yaw_degrees": 9})]
    )
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(looks, name), before[name])
        np.testing.assert_array_equal(getattr(MODEL, name), before[name])


def test_light_scales_all_its_parts_and_compounds():
    looks = looks_of(MODEL, [Visual("set_lighting", {"scale": 0.3}), Visual("set_lighting", {"scale": 3.33333333})])
    np.testing.assert_allclose(looks.light_diffuse, [[0.8] * 3], rtol=1e-7)
    np.testing.assert_allclose(looks.light_specular, [[0.3] * 3], rtol=1e-7)
    assert not looks_of(MODEL, [Visual("set_lighting", {})]).light_diffuse.any(), "no scale is no light"


def test_exposure_follows_the_latest_change_of_light():
    dark, bright = Visual("set_lighting", {"scale": 0.3}), Visual("set_lighting", {"scale": 3.3})
    assert brightness_of([]) is None
    assert brightness_of([Visual("set_visual_theme", {})]) is None
    assert brightness_of([dark]) == 0.75
    assert brightness_of([dark, bright]) == 1.25
    assert brightness_of([Visual("set_lighting", {"scale": 1.0})]) == 1.25


@pytest.mark.parametrize(
    ("yaw", "delta", "fovy"), [(18.0, (0.06, 0.0, 0.02), 12.0), (-22.0, (-0.06, 0.03, 0.0), -12.0)]
)
def test_a_camera_turns_on_the_spot_about_the_vertical_of_its_parent(yaw, delta, fovy):
    shift = {"camera": "agentview", "delta_position_m": delta, "yaw_degrees": yaw, "delta_fovy_degrees": fovy}
    looks, c = looks_of(MODEL, [Visual("shift_camera", shift)]), MODEL.camera("agentview").id
    np.testing.assert_allclose(looks.cam_pos[c], MODEL.cam_pos[c] + delta, atol=1e-15)
    turn, want = np.zeros(4), np.zeros(4)
    mujoco.mju_axisAngle2Quat(turn, np.array([0.0, 0.0, 1.0]), np.deg2rad(yaw))
    mujoco.mju_mulQuat(want, turn, MODEL.cam_quat[c])
    np.testing.assert_allclose(looks.cam_quat[c], want, atol=1e-14)
    assert looks.cam_fovy[c] == 45.0 + fovy
    np.testing.assert_array_equal(looks.cam_quat[1 - c], MODEL.cam_quat[1 - c])


def test_a_field_of_view_may_be_set_and_must_stay_in_range():
    set_it = Visual("shift_camera", {"camera": "agentview", "fovy_degrees": 60.0})
    assert looks_of(MODEL, [set_it]).cam_fovy[MODEL.camera("agentview").id] == 60.0
    with pytest.raises(BenchError, match="field of view 165 degrees"):
        looks_of(MODEL, [Visual("shift_camera", {"camera": "agentview", "delta_fovy_degrees": 120.0})])


@pytest.mark.parametrize(
    ("order", "factor", "material", "geom"),
    [
        ([2, 0, 1], [0.70, 1.15, 1.30], (0.70, 1, 1), (0.35, 0.575, 0.65)),
        ([1, 2, 0], [1.25, 0.70, 1.10], (1, 0.70, 1), (0.625, 0.35, 0.55)),
    ],
)
def test_a_theme_recolours_every_geom_and_material_and_keeps_their_alpha(order, factor, material, geom):
    looks = looks_of(MODEL, [Visual("set_visual_theme", {"rgb_permutation": order, "rgb_multiplier": factor})])
    np.testing.assert_allclose(looks.mat_rgba[0], [*material, 1.0], atol=1e-6)
    np.testing.assert_allclose(looks.geom_rgba[0], [*geom, 1.0], atol=1e-6)
    own = np.array([0.2, 0.4, 0.6])[order] * factor
    np.testing.assert_allclose(looks.geom_rgba[1], [*np.clip(own, 0, 1), 0.5], atol=1e-6)
    assert looks.mat_rgba[1, 3] == pytest.approx(0.3)
