"""From a described scene to a compiled model and the addresses of everything that an engine reads or writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import mujoco
import numpy as np

from mjx_bench.control.arm import ArmIndex, index_arm
from mjx_bench.physics.contact_sensors import Part, add_contact_sensor
from mjx_bench.physics.grips import SENSED, add_press
from mjx_bench.signals import FINGERS, GRIP, HAND, LEAST_Z, SignalIndex, borne_of, held_of
from mjx_bench.task import Scene

# Bytes of per-lane solver memory. LIBERO asks for far more than its scenes use, and every lane reserves it; a lane that
# runs out is voided.
ARENA_BYTES = 64 * 2**20


@dataclasses.dataclass(frozen=True)
class Grip:
    """A thing that is asked to be held.

    Attributes:
      column: of the touches, that of the thing with `GRIP`.
      sensors: of each hand's two pads, int [n] addresses in sensordata, all numbers of all their sensors.
      geoms: of each hand's two pads, ids.
      thing: ids of its geoms.
    """

    column: int
    sensors: tuple[tuple[np.ndarray, np.ndarray], ...]
    geoms: tuple[tuple[np.ndarray, np.ndarray], ...]
    thing: np.ndarray


@dataclasses.dataclass(frozen=True)
class Bearing:
    """A thing that is asked to be borne by another.

    Attributes:
      column: of the touches.
      least_z: see `physics.bearing.bears`.
      sensors: int [n] addresses in sensordata, all numbers of all their sensors.
      geoms: ids of the lower thing's, and of the upper one's.
    """

    column: int
    least_z: float
    sensors: np.ndarray
    geoms: tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class SceneModel:
    """A compiled scene.

    Attributes:
      model: texture-free, with contact sensors for every touch pair if they were asked for.
      index: columns of the signals.
      arm: addresses of the arm.
      entity_body: int [E] root bodies.
      entity_qpos: int [E] address of the free joint's 7 coordinates, -1 for a fixture.
      entity_dof: int [E] address of its 6 velocities, -1 for a fixture.
      entity_bodies: E lists of all bodies of the entity.
      mover_dof: int [V, 6] addresses of the velocities of the entities whose velocity is a signal.
      region_site: int [R] sites.
      joint_qpos: int [J] articulation joints.
      touch_sensor: int [S] addresses in sensordata of the sensors of all pairs, pair by pair.
      touch_start: int [P] where each pair's begin.
      touch_geoms: P pairs of int arrays: the geoms of either side, for an engine that reads its own contacts.
      grips: things of which `GRIP` is asked; the pairs above have neither sensors nor geoms for those.
      bearings: things that are asked to be borne; likewise.
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
    mover_dof: np.ndarray
    region_site: np.ndarray
    joint_qpos: np.ndarray
    touch_sensor: np.ndarray
    touch_start: np.ndarray
    touch_geoms: tuple[tuple[np.ndarray, np.ndarray], ...]
    grips: tuple[Grip, ...]
    bearings: tuple[Bearing, ...]
    gripper_qpos: np.ndarray
    hand_body: int


def compile_scene(scene: Scene, touches: tuple[tuple[str, str], ...], *, sensors: bool = True) -> SceneModel:
    """Compiles `scene` for engines that report the contacts of every pair in `touches`.

    Args:
      scene: what to compile.
      touches: pairs of names.
      sensors: adds contact sensors, for an engine whose contacts cannot be read otherwise.

    Raises:
      BenchError: a part of the robot is missing in the model.
    """
    spec = scene.load_spec()
    spec.memory = ARENA_BYTES
    plain = spec.compile()
    touching = {name: _touching(plain, scene, name) for name in {n for pair in touches for n in pair}}
    groups = [[_add_touch(spec, x, y) for x in touching[a] for y in touching[b]] for a, b in touches if sensors]
    held = {column: name for column, pair in enumerate(touches) if (name := held_of(pair)) is not None}
    presses = {name: _add_presses(spec, plain, scene, name) for name in held.values()} if sensors else {}
    borne = {column: found for column, pair in enumerate(touches) if (found := borne_of(pair)) is not None}
    loads = {
        (upper, lower): [
            add_press(spec, x, y) for x in _pressing(plain, scene, lower) for y in _pressing(plain, scene, upper)
        ]
        for upper, lower, _ in borne.values()
        if sensors
    }
    model = spec.compile() if groups else plain
    stages = {model.sensor_needstage[model.sensor(s).id] for group in groups for s in group}
    assert stages <= {int(mujoco.mjtStage.mjSTAGE_POS)}, "engines read touches together with poses"

    index = signal_index(scene, touches)
    body = np.array([model.body(scene.entities[e].body).id for e in index.entities], np.int64)
    free = [scene.entities[e].free_joint for e in index.entities]
    return SceneModel(
        model=model,
        index=index,
        arm=index_arm(model, scene.robot),
        entity_body=body,
        entity_qpos=np.array([model.joint(j).qposadr[0] if j else -1 for j in free], np.int64),
        entity_dof=np.array([model.joint(j).dofadr[0] if j else -1 for j in free], np.int64),
        entity_bodies=tuple(_subtree(model, b) for b in body),
        mover_dof=np.array(
            [model.joint(scene.entities[e].free_joint).dofadr[0] + np.arange(6) for e in index.movers], np.int64
        ).reshape(-1, 6),
        region_site=np.array([model.site(r).id for r in index.regions], np.int64),
        joint_qpos=np.array([model.joint(j).qposadr[0] for j in index.joints], np.int64),
        touch_sensor=np.array([model.sensor(s).adr[0] for group in groups for s in group], np.int64),
        touch_start=np.cumsum([0, *(len(group) for group in groups[:-1])])[: len(groups)],
        touch_geoms=tuple((_geoms(plain, scene, a), _geoms(plain, scene, b)) for a, b in touches),
        grips=tuple(
            Grip(
                column,
                tuple(
                    _each_pad(hand, lambda s: model.sensor(s).adr[0] + np.arange(SENSED))
                    for hand in presses.get(name, ())
                ),
                tuple(_each_pad(hand, lambda g: [plain.geom(g).id]) for hand in _pads(scene)),
                _geoms(plain, scene, name),
            )
            for column, name in held.items()
        ),
        bearings=tuple(
            Bearing(
                column,
                least_z,
                np.array(
                    [n for s in loads.get((upper, lower), ()) for n in model.sensor(s).adr[0] + np.arange(SENSED)],
                    np.int64,
                ),
                (_geoms(plain, scene, lower), _geoms(plain, scene, upper)),
            )
            for column, (upper, lower, least_z) in borne.items()
        ),
        gripper_qpos=np.array([model.joint(j).qposadr[0] for j in scene.robot.gripper_joints], np.int64),
        hand_body=model.body(scene.robot.hand_body).id,
    )


def signal_index(scene: Scene, touches: tuple[tuple[str, str], ...]) -> SignalIndex:
    """The columns of the signals of `scene`: everything in it, and the contacts of the pairs `touches`."""
    joints = tuple(dict.fromkeys(j for e in scene.entities.values() for j in e.joints))
    movers = tuple(name for name, e in scene.entities.items() if e.free_joint is not None)
    hands = scene.robot.other_hands
    return SignalIndex(tuple(scene.entities), tuple(scene.regions), joints, touches, movers, hands)


def _subtree(model: mujoco.MjModel, root: int) -> np.ndarray:
    """Ids of `root` and all bodies below it (a child's id is always larger than its parent's)."""
    inside = {int(root)}
    for i in range(int(root) + 1, model.nbody):
        if int(model.body_parentid[i]) in inside:
            inside.add(i)
    return np.array(sorted(inside), np.int64)


def _pads(scene: Scene) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Geoms of the two pads of each hand."""
    return scene.robot.grips or (scene.robot.finger_geoms,)


def _add_presses(
    spec: mujoco.MjSpec, model: mujoco.MjModel, scene: Scene, thing: str
) -> list[tuple[list[str], list[str]]]:
    """Names of the sensors of each hand's two pads."""
    geom, parts = mujoco.mjtObj.mjOBJ_GEOM, _pressing(model, scene, thing)
    sides = [
        [[add_press(spec, (geom, g), part) for g in pad for part in parts] for pad in hand] for hand in _pads(scene)
    ]
    return [(a, b) for a, b in sides]


def _pressing(model: mujoco.MjModel, scene: Scene, name: str) -> list[Part]:
    """What to sense for forces: geoms one by one, since a sensor's slots have room for the contacts of two of them."""
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    return [(mujoco.mjtObj.mjOBJ_GEOM, model.geom(g).name) for g in _geoms(model, scene, name) if collides[g]]


def _each_pad(
    hand: tuple[Sequence[str], Sequence[str]], find: Callable[[str], Sequence[int] | np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """int [n] of each of a hand's two pads: what is found by its names."""
    a, b = (np.array([i for name in pad for i in find(name)], np.int64) for pad in hand)
    return a, b


def _touching(model: mujoco.MjModel, scene: Scene, name: str) -> list[Part]:
    """What to sense for contacts of an entity or a finger: a body tree where that is right, else geoms one by one.

    A sensor for a body tree costs a fraction of one for each geom. But some fixtures have visual geoms that collide and do
    not count as touching (the flat stove's), and those must not be sensed.
    """
    if name in FINGERS:
        return [(mujoco.mjtObj.mjOBJ_GEOM, g) for g in scene.robot.finger_geoms[FINGERS.index(name)]]
    if name == GRIP or name.startswith(tuple(LEAST_Z)):
        return []
    if name == HAND:
        return [(mujoco.mjtObj.mjOBJ_GEOM, g) for g in scene.robot.hand_geoms]
    entity = scene.entities[name]
    bodies = _subtree(model, model.body(entity.body).id)
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    in_tree = {model.geom(g).name for g in np.flatnonzero(np.isin(model.geom_bodyid, bodies) & collides)}
    counted = {g for g in entity.contact_geoms if collides[model.geom(g).id]}
    if in_tree == counted:
        return [(mujoco.mjtObj.mjOBJ_XBODY, entity.body)]
    return [(mujoco.mjtObj.mjOBJ_GEOM, g) for g in sorted(counted)]


def _geoms(model: mujoco.MjModel, scene: Scene, name: str) -> np.ndarray:
    """Ids of the geoms of an entity or a finger that count as touching."""
    if name in FINGERS:
        names: tuple[str, ...] = scene.robot.finger_geoms[FINGERS.index(name)]
    elif name == HAND:
        names = scene.robot.hand_geoms
    elif name == GRIP or name.startswith(tuple(LEAST_Z)):
        names = ()
    else:
        names = scene.entities[name].contact_geoms
    return np.array([model.geom(g).id for g in names], np.int64)


def _add_touch(spec: mujoco.MjSpec, a: Part, b: Part) -> str:
    """Adds a sensor that is positive while anything of `a` is in contact with anything of `b`; returns its name.

    Pairs may share one: a finger's contacts are also the hand's.
    """
    return add_contact_sensor(spec, "touch", a, b, [mujoco.mjtConDataField.mjCONDATA_FOUND])
