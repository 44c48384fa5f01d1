"""From a described scene to a compiled model and the addresses of everything that an engine reads or writes."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from mjx_bench.control.arm import ArmIndex, index_arm
from mjx_bench.errors import BenchError
from mjx_bench.signals import SignalIndex
from mjx_bench.task import Scene

# Bytes of per-lane solver memory. LIBERO asks for far more than its scenes use, and every lane reserves it; a lane that
# runs out is voided.
ARENA_BYTES = 64 * 2**20


@dataclasses.dataclass(frozen=True)
class SceneModel:
    """A compiled scene.

    Attributes:
      model: texture-free, with one contact sensor a touch pair.
      index: columns of the signals.
      arm: addresses of the arm.
      entity_body: int [E] root bodies.
      entity_qpos: int [E] address of the free joint's 7 coordinates, -1 for a fixture.
      entity_dof: int [E] address of its 6 velocities, -1 for a fixture.
      entity_bodies: E lists of all bodies of the entity.
      region_site: int [R] sites.
      joint_qpos: int [J] articulation joints.
      touch_sensor: int [P] addresses in sensordata.
      gripper_qpos: int [2] finger joints.
      hand_body: body whose orientation is reported.
    """

    model: mujoco.MjModel
    index: SignalIndex
    arm: ArmIndex
    entity_body: np.ndarray
    entity_qpos: np.ndarray
    entity_dof: np.ndarray
    entity_bodies: tuple[np.ndarray, ...]
    region_site: np.ndarray
    joint_qpos: np.ndarray
    touch_sensor: np.ndarray
    gripper_qpos: np.ndarray
    hand_body: int


def compile_scene(scene: Scene, touches: tuple[tuple[str, str], ...]) -> SceneModel:
    """Compiles `scene` with a contact sensor for every pair in `touches`.

    A pair is sensed between the two entities' body subtrees, which costs a fraction of a sensor for every pair of geoms.

    Raises:
      BenchError: a name is missing in the model, or an entity's touching geoms are not its subtree's colliding geoms.
    """
    spec = scene.load_spec()
    spec.memory = ARENA_BYTES
    sensors = []
    for a, b in touches:
        sensor = spec.add_sensor(
            name=f"touch:{a}:{b}",
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=mujoco.mjtObj.mjOBJ_XBODY,
            objname=scene.entities[a].body,
            reftype=mujoco.mjtObj.mjOBJ_XBODY,
            refname=scene.entities[b].body,
            # Data: whether a contact was found. No reduction, one slot.
            intprm=[1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND), 0, 1],
        )
        sensors.append(sensor.name)
    model = spec.compile()
    stages = {model.sensor_needstage[model.sensor(s).id] for s in sensors}
    assert stages <= {int(mujoco.mjtStage.mjSTAGE_POS)}, "engines read touches together with poses"
    for name in {n for pair in touches for n in pair}:
        _check_contact_geoms(model, scene, name)

    entities = tuple(scene.entities)
    regions = tuple(scene.regions)
    joints = tuple(dict.fromkeys(j for e in scene.entities.values() for j in e.joints))
    body = np.array([model.body(scene.entities[e].body).id for e in entities], np.int64)
    free = [scene.entities[e].free_joint for e in entities]
    return SceneModel(
        model=model,
        index=SignalIndex(entities, regions, joints, touches),
        arm=index_arm(model, scene.robot),
        entity_body=body,
        entity_qpos=np.array([model.joint(j).qposadr[0] if j else -1 for j in free], np.int64),
        entity_dof=np.array([model.joint(j).dofadr[0] if j else -1 for j in free], np.int64),
        entity_bodies=tuple(_subtree(model, b) for b in body),
        region_site=np.array([model.site(r).id for r in regions], np.int64),
        joint_qpos=np.array([model.joint(j).qposadr[0] for j in joints], np.int64),
        touch_sensor=np.array([model.sensor(s).adr[0] for s in sensors], np.int64),
        gripper_qpos=np.array([model.joint(j).qposadr[0] for j in scene.robot.gripper_joints], np.int64),
        hand_body=model.body(scene.robot.hand_body).id,
    )


def _subtree(model: mujoco.MjModel, root: int) -> np.ndarray:
    """Ids of `root` and all bodies below it (a child's id is always larger than its parent's)."""
    inside = {int(root)}
    for i in range(int(root) + 1, model.nbody):
        if int(model.body_parentid[i]) in inside:
            inside.add(i)
    return np.array(sorted(inside), np.int64)


def _check_contact_geoms(model: mujoco.MjModel, scene: Scene, name: str) -> None:
    entity = scene.entities[name]
    bodies = _subtree(model, model.body(entity.body).id)
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    sensed = {model.geom(g).name for g in np.flatnonzero(np.isin(model.geom_bodyid, bodies) & collides)}
    judged = {g for g in entity.contact_geoms if collides[model.geom(g).id]}
    if sensed != judged:
        odd = sorted(sensed ^ judged)
        raise BenchError(
            f"touching {name!r} cannot be sensed by its body: geom {odd[0]!r} is in its body tree or in its list of"
            f" touching geoms, but not in both ({len(odd)} such)"
        )
