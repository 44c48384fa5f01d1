"""The integrator implicitfast in JAX: a tumbling body steps as in MuJoCo, which MJX's own integrator does not do."""

from __future__ import annotations

import jax
import mujoco
import numpy as np
from mujoco import mjx

from mjx_bench.physics.mjx_compile import CPU_OPTIONS
from mjx_bench.physics.mjx_implicit import free_bodies, implicitfast

# A free body that is lopsided about its origin, one that carries a hinge and so is not alone, and a damped slide.
XML = """
<mujoco>
  <option timestep="0.005" integrator="implicitfast"/>
  <worldbody>
    <body name="lopsided" pos="0 0 1">
      <freejoint/>
      <geom type="box" size=".02 .04 .08" pos=".03 .01 0" mass=".2"/>
      <body pos="0 .1 .05"><geom type="sphere" size=".02" mass=".1"/></body>
    </body>
    <body name="carrier" pos="2 0 1">
      <freejoint/>
      <geom type="box" size=".02 .04 .08" mass=".2"/>
      <body pos="0 .1 0"><joint axis="1 0 0" damping=".01"/><geom type="box" size=".01 .02 .05" mass=".1"/></body>
    </body>
    <body pos="4 0 1"><joint type="slide" axis="0 0 1" damping="3"/><geom type="sphere" size=".1" mass=".5"/></body>
  </worldbody>
</mujoco>
"""


def test_a_tumbling_body_steps_as_in_mujoco():
    model = mujoco.MjModel.from_xml_string(XML)
    assert [model.body(b).name for b in free_bodies(model)] == ["lopsided"]
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    data.qpos[3:7] = rng.normal(size=4)
    mujoco.mj_normalizeQuat(model, data.qpos)
    data.qvel[:] = rng.normal(size=model.nv) * 5.0
    m = mjx.put_model(model, impl="jax")
    start = mjx.make_data(m).replace(qpos=data.qpos.copy(), qvel=data.qvel.copy())
    integrate = implicitfast(model)

    def stepped(step) -> np.ndarray:
        compiled = jax.jit(lambda d: step(m, mjx.forward(m, d)).qvel, compiler_options=CPU_OPTIONS)
        return np.asarray(compiled(start))

    mujoco.mj_step(model, data)
    # Metres and radians a second, of up to 10, in single precision.
    np.testing.assert_allclose(stepped(integrate), data.qvel, rtol=0, atol=1e-5)
    assert np.abs(stepped(mjx.implicit) - data.qvel)[:6].max() > 1e-3
