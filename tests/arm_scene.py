"""A small scene of our own for tests of engines: a seven-joint arm with a parallel gripper, a table, and things to move.

Few colliding primitives, so that it compiles in seconds on every engine; torque actuators and names as a LIBERO scene has.
"""

from __future__ import annotations

import functools

import mujoco
import numpy as np

from mjx_bench.physics.scene import SceneModel, compile_scene
from mjx_bench.predicates import Test, compile_goal
from mjx_bench.signals import GRIP, SUPPORT, touch_pair
from mjx_bench.task import Atom, ControllerReset, Entity, Region, Reset, Robot, Scene, Task, Threshold
from mjx_bench.triggers import touches_judged

HOME = np.array([0.0, 0.2, 0.0, -2.0, 0.0, 2.2, 0.785])
CUBE, TOP = 0.02, 0.4  # half an edge, height of the table's surface, metres

_XML = f"""
<mujoco model="arm">
  <compiler angle="radian"/>
  <option timestep="0.002" iterations="6" ls_iterations="10" integrator="implicitfast" cone="elliptic"/>
  <default>
    <geom contype="0" conaffinity="0" condim="3" friction="1 0.005 0.0001"/>
    <joint damping="1" armature="0.1"/>
  </default>
  <worldbody>
    <geom name="table" type="plane" pos="0.5 0 {TOP}" size="0.6 0.6 0.1" contype="1" conaffinity="2"/>
    <site name="goal_region" type="box" pos="0.55 0.2 {TOP}" size="0.06 0.06 0.03"/>
    <body name="link0" pos="0 0 {TOP}">
      <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.06" mass="3"/>
      <body name="link1" pos="0 0 0.333">
        <inertial pos="0 -0.03 -0.07" mass="3" diaginertia="0.3 0.3 0.01"/>
        <joint name="joint1" axis="0 0 1" range="-2.9 2.9"/>
        <body name="link2" quat="0.7071 -0.7071 0 0">
          <inertial pos="0 -0.07 0.03" mass="3" diaginertia="0.02 0.02 0.02"/>
          <joint name="joint2" axis="0 0 1" range="-1.76 1.76"/>
          <body name="link3" pos="0 -0.316 0" quat="0.7071 0.7071 0 0">
            <inertial pos="0.04 0.02 -0.05" mass="2" diaginertia="0.04 0.03 0.02"/>
            <joint name="joint3" axis="0 0 1" range="-2.9 2.9"/>
            <body name="link4" pos="0.0825 0 0" quat="0.7071 0.7071 0 0">
              <inertial pos="-0.04 0.04 0.02" mass="2" diaginertia="0.03 0.02 0.03"/>
              <joint name="joint4" axis="0 0 1" range="-3.07 -0.07"/>
              <body name="link5" pos="-0.0825 0.384 0" quat="0.7071 -0.7071 0 0">
                <inertial pos="0 0.04 -0.1" mass="2" diaginertia="0.04 0.03 0.01"/>
                <joint name="joint5" axis="0 0 1" range="-2.9 2.9"/>
                <body name="link6" quat="0.7071 0.7071 0 0">
                  <inertial pos="0.05 0 0" mass="1.5" diaginertia="0.01 0.01 0.01"/>
                  <joint name="joint6" axis="0 0 1" range="0 3.75"/>
                  <body name="link7" pos="0.088 0 0" quat="0.7071 0.7071 0 0">
                    <inertial pos="0 0 0.08" mass="0.5" diaginertia="0.005 0.005 0.005"/>
                    <joint name="joint7" axis="0 0 1" range="-2.9 2.9"/>
                    <body name="hand" pos="0 0 0.107" quat="0.9239 0 0 -0.3827">
                      <geom type="box" size="0.03 0.1 0.03" pos="0 0 0.03" mass="0.7"/>
                      <site name="grip_site" pos="0 0 0.1034"/>
                      <body name="finger_left" pos="0 0 0.0584">
                        <joint name="finger_joint1" type="slide" axis="0 1 0" range="0 0.04"/>
                        <geom name="pad_left" type="capsule" fromto="0 0.008 0.01 0 0.008 0.045" size="0.008" mass="0.1"
                              contype="4" conaffinity="2"/>
                      </body>
                      <body name="finger_right" pos="0 0 0.0584">
                        <joint name="finger_joint2" type="slide" axis="0 1 0" range="-0.04 0"/>
                        <geom name="pad_right" type="capsule" fromto="0 -0.008 0.01 0 -0.008 0.045" size="0.008"
                              mass="0.1" contype="4" conaffinity="2"/>
                      </body>
                    </body>
                  </body>
                </body>
              </body>
            </body>
          </body>
        </body>
      </body>
    </body>
    <body name="cube" pos="0.5 0 {TOP + CUBE}">
      <freejoint name="cube_free"/>
      <geom name="cube_geom" type="box" size="{CUBE} {CUBE} {CUBE}" mass="0.1" contype="2" conaffinity="7"/>
    </body>
    <body name="ball" pos="0.6 -0.2 {TOP + 0.03}">
      <freejoint name="ball_free"/>
      <geom name="ball_geom" type="sphere" size="0.03" mass="0.05" contype="2" conaffinity="7" condim="6"
            friction="1 0.005 0.001"/>
    </body>
    <body name="post" pos="0.5 0.35 {TOP}">
      <geom name="post_geom" type="sphere" size="0.05" contype="1" conaffinity="2"/>
    </body>
    <body name="drawer" pos="0.8 0 {TOP + 0.05}">
      <geom type="box" size="0.05 0.1 0.05"/>
      <body name="tray" pos="-0.05 0 0">
        <joint name="tray_slide" type="slide" axis="-1 0 0" range="0 0.15" damping="2" armature="0"/>
        <geom name="handle" type="capsule" fromto="-0.03 -0.04 0 -0.03 0.04 0" size="0.01" mass="0.3" contype="4"
              conaffinity="2"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    {"".join(f'<motor name="torque{i}" joint="joint{i}" ctrlrange="-80 80"/>' for i in range(1, 8))}
    <position name="grip1" joint="finger_joint1" kp="1000" kv="20" ctrlrange="0 0.04" forcerange="-20 20"/>
    <position name="grip2" joint="finger_joint2" kp="1000" kv="20" ctrlrange="-0.04 0" forcerange="-20 20"/>
  </actuator>
</mujoco>
"""

ROBOT = Robot(
    arm_joints=tuple(f"joint{i}" for i in range(1, 8)),
    arm_actuators=tuple(f"torque{i}" for i in range(1, 8)),
    gripper_joints=("finger_joint1", "finger_joint2"),
    gripper_actuators=("grip1", "grip2"),
    eef_site="grip_site",
    hand_body="hand",
    torque_limits=((-80.0,) * 7, (80.0,) * 7),
    finger_geoms=(("pad_left",), ("pad_right",)),
)
CLOSED = {"open": Threshold(">", 0.1), "close": Threshold("<", 0.01)}
ENTITIES = (
    Entity("cube", "object", "cube", "cube", "cube_free", contact_geoms=("cube_geom",)),
    Entity("ball", "object", "ball", "ball", "ball_free", contact_geoms=("ball_geom",)),
    Entity("post", "fixture", "post", "post", None, contact_geoms=("post_geom",)),
    Entity("drawer", "fixture", "drawer", "drawer", None, ("tray_slide",), ("handle",), CLOSED),
)
SCENE = Scene(
    key="arm",
    entities={e.name: e for e in ENTITIES},
    regions={"goal_region": Region("goal_region", None, (0.06, 0.06, 0.03))},
    placements=(),
    robot=ROBOT,
    cameras=(),
    load_spec=lambda: mujoco.MjSpec.from_string(_XML),
)
BORNE = touch_pair("ball", SUPPORT + "post")
GOAL = (Atom("on", ("ball", "cube")), Atom("in", ("cube", "goal_region")), Atom("open", ("drawer",)))


def arm_task(horizon: int = 20) -> Task:
    """A task on the scene, by the name of a suite that manifests know."""
    return Task(
        suite="tabletop",
        index=0,
        name="arm",
        version="1",
        instruction="put the ball on the cube in the region and open the drawer",
        scene=SCENE,
        goal=GOAL,
        objects_of_interest=("ball", "cube"),
        horizon=horizon,
        control_hz=50,
        substeps=10,
        settle_steps=2,
        settle_action=(0.0,) * 7,
        load_init_states=lambda: np.stack([initial_state(i, grasped=i % 2 == 1) for i in range(8)]),
        load_reset=reset_of,
        load_fields=instance_fields,
    )


def instance_fields(index: int) -> dict[str, np.ndarray]:
    """A cube of another mass and colour in each instance."""
    model = arm_scene()[0].model
    mass, rgba = model.body_mass.copy(), model.geom_rgba.copy()
    mass[model.body("cube").id] *= 1.0 + 0.1 * index
    rgba[model.geom("cube_geom").id, 0] = index / 8
    return {"body_mass": mass, "geom_rgba": rgba}


@functools.cache
def arm_scene(*, sensors: bool = True) -> tuple[SceneModel, Test]:
    """The scene with contacts of fingers, a grip and a bearing; the test of a goal that reads every kind of signal."""
    touches = (*touches_judged(arm_task(), (), engine="jax"), touch_pair(GRIP, "cube"), BORNE)
    scene = compile_scene(SCENE, touches, sensors=sensors)
    return scene, compile_goal(GOAL, SCENE, scene.index)[1]


def initial_state(seed: int, *, grasped: bool = False) -> np.ndarray:
    """[1 + nq + nv] the arm near its home; the cube and the ball somewhere before it, or the cube in its grip."""
    scene, rng = arm_scene()[0], np.random.default_rng(seed)
    model = scene.model
    qpos = model.qpos0.copy()
    qpos[scene.arm.qpos] = HOME + rng.uniform(-0.1, 0.1, 7)
    for name in ("cube", "ball"):
        at = scene.entity_qpos[scene.index.entity(name)]
        qpos[at : at + 2] += rng.uniform(-0.05, 0.05, 2)
    if grasped:
        data = mujoco.MjData(model)
        data.qpos = qpos
        mujoco.mj_kinematics(model, data)
        cube, ball = (scene.entity_qpos[scene.index.entity(name)] for name in ("cube", "ball"))
        qpos[cube : cube + 3] = data.site_xpos[scene.arm.site]
        qpos[cube + 3 : cube + 7] = data.xquat[scene.hand_body]
        # Both pads press into the cube's sides by a tenth of a millimetre, and so does the ball into the post.
        qpos[scene.gripper_qpos] = np.array([1.0, -1.0]) * (CUBE - 1e-4)
        qpos[ball : ball + 3] = np.add(model.body("post").pos, [0.0, 0.0, 0.05 + 0.03 - 1e-4])
    return np.concatenate([[0.0], qpos, np.zeros(model.nv)])


def solved_state(seed: int) -> np.ndarray:
    """[1 + nq + nv] the goal holds, and everything rests: ball on cube, cube in the region, drawer open."""
    scene, state = arm_scene()[0], initial_state(seed)
    qpos = state[1 : 1 + scene.model.nq]
    cube, ball = (scene.entity_qpos[scene.index.entity(name)] for name in ("cube", "ball"))
    # Heights to which they sink into what they rest on.
    qpos[cube : cube + 3] = [0.55, 0.2, TOP + 0.01984]
    qpos[ball : ball + 3] = [0.55, 0.2, TOP + 0.0696]
    qpos[scene.joint_qpos] = 0.14
    return state


@functools.cache
def reset_of(seed: int = 0) -> Reset:
    """What a controller that was reset at the home pose holds; the post and the drawer a little off their places."""
    scene, rng = arm_scene()[0], np.random.default_rng(seed)
    model, arm = scene.model, scene.arm
    data = mujoco.MjData(model)
    data.qpos[arm.qpos] = HOME
    mujoco.mj_forward(model, data)
    jac, mass = np.zeros((2, 3, model.nv)), np.zeros((model.nv, model.nv))
    mujoco.mj_jacSite(model, data, jac[0], jac[1], arm.site)
    mujoco.mj_fullM(model, data, mass)
    fixtures = ("post", "drawer")
    return Reset(
        seed=seed,
        fixture_pos={n: np.add(model.body(n).pos, [*rng.uniform(-0.02, 0.02, 2), 0.0]) for n in fixtures},
        fixture_quat={n: np.array([1.0, 0.0, 0.0, 0.0]) for n in fixtures},
        controller=ControllerReset(
            eef_pos=data.site_xpos[arm.site].copy(),
            eef_mat=data.site_xmat[arm.site].reshape(3, 3).copy(),
            joint_pos=HOME,
            jac_pos=jac[0][:, arm.dof],
            jac_rot=jac[1][:, arm.dof],
            mass_matrix=mass[np.ix_(arm.dof, arm.dof)],
        ),
    )
