"""What a task is: a scene described by names, a goal over them, and the rules of the episode.

A `Task` is host data, frozen and cheap: no simulator is imported here. `Scene.load_model` is where MuJoCo comes in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from mjx_bench.rules import COMPARE as COMPARE
from mjx_bench.rules import GOAL_ALONE as GOAL_ALONE
from mjx_bench.rules import Atom as Atom
from mjx_bench.rules import Covered as Covered
from mjx_bench.rules import Crossing as Crossing
from mjx_bench.rules import Finds as Finds
from mjx_bench.rules import Fraction as Fraction
from mjx_bench.rules import Hits as Hits
from mjx_bench.rules import Noted as Noted
from mjx_bench.rules import Part as Part
from mjx_bench.rules import Rules as Rules
from mjx_bench.rules import Score as Score
from mjx_bench.rules import Threshold as Threshold

if TYPE_CHECKING:
    import mujoco


@dataclasses.dataclass(frozen=True)
class ShownSite:
    """A site that cameras see while a joint passes a test: the glow of a stove's burner.

    Attributes:
      name: of the site.
      joint: name of the joint.
      test: of the joint's position.
    """

    name: str
    joint: str
    test: Threshold


@dataclasses.dataclass(frozen=True)
class Entity:
    """A movable object (it has a free joint) or a fixture (its root body hangs on the world).

    Attributes:
      name: the name that goals, events and manifests use.
      kind: "object" or "fixture".
      category: asset category, e.g. "akita_black_bowl".
      body: name of the root body in the model.
      free_joint: name of the free joint of an object, None for a fixture.
      joints: names of the articulation joints (no free joint), in the source's order.
      contact_geoms: names of the geoms that count as touching.
      thresholds: predicate name (open, close, turnon, turnoff) to its joint test.
    """

    name: str
    kind: Literal["object", "fixture"]
    category: str
    body: str
    free_joint: str | None
    joints: tuple[str, ...] = ()
    contact_geoms: tuple[str, ...] = ()
    thresholds: Mapping[str, Threshold] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Region:
    """A box site that goals refer to.

    Attributes:
      name: the site's name in the model and in goals.
      parent: the entity it belongs to, None for a region of the workspace (then `on` needs no contact).
      half_size: [3] half extents in the site's frame, metres.
      joints: joints of the body it sits in: `open(region)` reads these with the parent's thresholds.
    """

    name: str
    parent: str | None
    half_size: tuple[float, float, float]
    joints: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where an entity starts, as the task file says it: `predicate(entity, on)`, e.g. on("bowl_1", "main_table_region").

    `support` is the entity or workspace that `on` resolves to: "main_table", "floor", "flat_stove_1", ...
    """

    predicate: str
    entity: str
    on: str
    support: str


@dataclasses.dataclass(frozen=True)
class Robot:
    """Names of the robot's parts in the model. One without an arm has no joints, no gripper, and `arm_actuators` alone.

    Attributes:
      arm_joints: [7] joint names, base to wrist.
      arm_actuators: [7] torque actuators, same order.
      gripper_joints: [2] finger joints.
      gripper_actuators: [2] position servos, same order.
      eef_site: site between the fingertips; the end effector of the control law and of triggers.
      hand_body: body whose orientation is reported as the end effector's orientation.
      torque_limits: [2][7] lower and upper limits of the commanded torques, Nm.
      finger_geoms: left and right finger-pad collision geoms.
      hand_geoms: collision geoms of the hand, fingers included, whose touch counts as the robot's.
      base_joints: [3] of a base that drives: slides along the world's x and y, and a hinge about z; none for a fixed one.
      base_actuators: [3] position servos, same order.
      gripper_speed: of the gripper's internal command, which runs from -1 to 1, a second; 5 is robosuite 1.4's.
      other_hands: regions of the scene that are between the fingertips of further hands; triggers go by the nearest of all.
      grips: of each hand, the collision geoms of its two pads; () for one hand whose pads are `finger_geoms`.
    """

    arm_joints: tuple[str, ...]
    arm_actuators: tuple[str, ...]
    gripper_joints: tuple[str, ...]
    gripper_actuators: tuple[str, ...]
    eef_site: str
    hand_body: str
    torque_limits: tuple[tuple[float, ...], tuple[float, ...]]
    finger_geoms: tuple[tuple[str, ...], tuple[str, ...]]
    hand_geoms: tuple[str, ...] = ()
    base_joints: tuple[str, ...] = ()
    base_actuators: tuple[str, ...] = ()
    gripper_speed: float = 5.0
    other_hands: tuple[str, ...] = ()
    grips: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()


@dataclasses.dataclass(frozen=True)
class Push:
    """A force on an object's root body.

    Attributes:
      entity: the object.
      force: [3] newtons, world axes, at the body's centre of mass.
    """

    entity: str
    force: np.ndarray


@dataclasses.dataclass(frozen=True)
class ControllerReset:
    """What the source's arm controller still holds from its reset when an initial state is restored.

    The first substep after a restored state is computed from these, not from the state (see `control/osc.py`).

    Attributes:
      eef_pos: [3] end-effector position at the reset pose.
      eef_mat: [3, 3] its orientation; also the orientation goal held until a rotation is commanded.
      joint_pos: [7] nominal arm posture; the null-space target for the whole episode.
      jac_pos, jac_rot: [3, 7] Jacobians of the end effector at the reset pose.
      mass_matrix: [7, 7] arm block of the joint-space inertia at the reset pose.
    """

    eef_pos: np.ndarray
    eef_mat: np.ndarray
    joint_pos: np.ndarray
    jac_pos: np.ndarray
    jac_rot: np.ndarray
    mass_matrix: np.ndarray


@dataclasses.dataclass(frozen=True)
class Reset:
    """What one seed fixes beyond the initial state: fixture poses and the controller's reset.

    Attributes:
      seed: the policy seed that the source's own reset was run with.
      fixture_pos: fixture name to [3] root body position (model `body_pos`).
      fixture_quat: fixture name to [4] root body orientation, wxyz.
      controller: what the arm controller holds.
    """

    seed: int
    fixture_pos: Mapping[str, np.ndarray]
    fixture_quat: Mapping[str, np.ndarray]
    controller: ControllerReset


class Lens(Protocol):
    """What a camera does to its pictures, as part of the source that a task comes from."""

    def __call__(self, images: Mapping[str, np.ndarray], frames: Sequence[int]) -> dict[str, np.ndarray]:
        """The pictures as the camera gives them; a picture depends on itself and its frame alone.

        Args:
          images: camera to uint8 [n, H, W, 3], upright. They are not changed.
          frames: of each of the n pictures, control steps since its lane was loaded.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Scene:
    """One physics model, described by names.

    Attributes:
      key: content hash; scenes with equal keys are the same model.
      entities: name to entity, objects first, in the task file's order.
      regions: name to region.
      placements: the task file's initial predicates that place an entity.
      robot: the arm.
      cameras: names of the cameras.
      observed: the cameras of the source's own observation, in its order: sensor noise is drawn in it.
      load_spec: returns a fresh texture-free `mujoco.MjSpec` of the scene.
      load_textured_spec: the same with textures, for renderers; None when the scene has none to load.
      shown_groups: groups of geoms that cameras see; MuJoCo's own choice unless the source makes another.
      shown_sites: the sites that cameras see; every other site stays hidden.
      exact: of a scene whose collision shapes are simplified, the one that it stands for; what is seen is the same in both.
      lens: what the source's own camera does to pictures, before any event does; None for nothing.
    """

    key: str
    entities: Mapping[str, Entity]
    regions: Mapping[str, Region]
    placements: tuple[Placement, ...]
    robot: Robot
    cameras: tuple[str, ...]
    load_spec: Callable[[], mujoco.MjSpec]
    load_textured_spec: Callable[[], mujoco.MjSpec] | None = None
    observed: tuple[str, ...] = ()
    shown_groups: tuple[int, ...] = (0, 1, 2)
    shown_sites: tuple[ShownSite, ...] = ()
    exact: Scene | None = None
    lens: Lens | None = None

    @property
    def objects(self) -> tuple[str, ...]:
        return tuple(n for n, e in self.entities.items() if e.kind == "object")

    @property
    def fixtures(self) -> tuple[str, ...]:
        return tuple(n for n, e in self.entities.items() if e.kind == "fixture")


class InitStates(Protocol):
    """Initial states by index: an array [N, 1 + nq + nv], or something that makes them one at a time."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True)
class Task:
    """The contract of one task.

    Attributes:
      suite, index, name: where it comes from; `name` is the task file's stem.
      version: changes when anything that can change a result does.
      instruction: what the policy is told.
      scene: the world.
      goal: atoms that must hold at the same instant.
      objects_of_interest: entities that the task file names as such.
      horizon: policy steps before the episode times out.
      control_hz: control steps a second.
      substeps: physics steps a control step.
      settle_steps: control steps before the policy acts; success is ignored during them.
      settle_action: [A] action of those steps, for the first of `action_modes`.
      load_init_states: returns the initial states, float64 [N, 1 + nq + nv]: time, qpos, qvel.
      load_reset: seed to `Reset`; may run the source's own reset once and cache it.
      load_fields: index of an initial state to the model fields (names and shapes of MuJoCo's MjModel) that differ from the
        scene's in this instance: sizes, masses, colours; None where only the state differs.
      rules: when the goal counts and what else ends an episode.
      action_modes: control laws that the robot takes actions for.
      load_pushes: index of an initial state to the pushes of that instance by the policy steps executed before: each is
        applied for one control step, in both arms of a pair; None for none.
      load_instruction: index of an initial state to what the policy is told in that instance; None for `instruction`.
      approached: the entity whose distance from the end effector triggers measure and that events move; None for the rule of
        `trigger_entity`.
    """

    suite: str
    index: int
    name: str
    version: str
    instruction: str
    scene: Scene
    goal: tuple[Atom, ...]
    objects_of_interest: tuple[str, ...]
    horizon: int
    control_hz: int
    substeps: int
    settle_steps: int
    settle_action: tuple[float, ...]
    load_init_states: Callable[[], InitStates]
    load_reset: Callable[[int], Reset]
    load_fields: Callable[[int], Mapping[str, np.ndarray]] | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rules: Rules = GOAL_ALONE
    action_modes: tuple[str, ...] = ("osc_pose", "joint_position")
    load_pushes: Callable[[int], Mapping[int, Push]] | None = None
    approached: str | None = None
    load_instruction: Callable[[int], str] | None = None

    def fields_of(self, row: int) -> Mapping[str, np.ndarray]:
        """`load_fields` of an initial state; nothing where only the state differs."""
        return {} if self.load_fields is None else self.load_fields(row)

    def pushes_of(self, row: int) -> Mapping[int, Push]:
        """`load_pushes` of an initial state; nothing where there are none."""
        return {} if self.load_pushes is None else self.load_pushes(row)

    def instruction_of(self, row: int) -> str:
        """`load_instruction` of an initial state; the task's own where every instance is told the same."""
        return self.instruction if self.load_instruction is None else self.load_instruction(row)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """Everything that judging an episode reads."""
        return (*self.goal, *self.rules.atoms())

    @property
    def goal_entities(self) -> tuple[str, ...]:
        """Goal arguments resolved to entities, in goal order, without repetition."""
        out: list[str] = []
        for atom in self.goal:
            for arg in atom.args:
                name = self.entity_of(arg)
                if name is not None and name not in out:
                    out.append(name)
        return tuple(out)

    def entity_of(self, name: str) -> str | None:
        """The entity that a goal argument belongs to: itself, or the longest entity name that prefixes it plus `_`."""
        if name in self.scene.entities:
            return name
        owners = [e for e in self.scene.entities if name.startswith(e + "_")]
        return max(owners, key=len) if owners else None

    @property
    def trigger_entity(self) -> str | None:
        """`approached`; else the first goal-relation subject that is a movable object; else the first goal entity."""
        if self.approached is not None:
            return self.approached
        for atom in self.goal:
            name = self.entity_of(atom.args[0]) if atom.args else None
            if name is not None and self.scene.entities[name].kind == "object":
                return name
        return self.goal_entities[0] if self.goal_entities else None

    @property
    def receptacle(self) -> str | None:
        """Entity of the second argument of the first binary goal relation."""
        for atom in self.goal:
            if len(atom.args) == 2:
                return self.entity_of(atom.args[1])
        return None
