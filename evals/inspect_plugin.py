"""Our arm and its tasks for inspect-robots, which finds them by the entry points in pyproject.toml.

    inspect-robots run --task mjx-bench-push --embodiment mjx-bench-panda-planar --policy random
    inspect-robots run --task mjx-bench -T suite=tabletop -T task=stack_two --embodiment mjx-bench-panda --policy ...

A scene names a task and one of its instances, so one robot runs them all; an episode is judged as in an evaluation. Units
of an action are metres, radians, and a gripper from 0 (closed) to 1 (open); its axes are the world's. A void episode is a
fault.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from inspect_robots.embodiment import PRIVILEGED_SUCCESS, RENDERABLE, RESETTABLE, EmbodimentBase, EmbodimentInfo
from inspect_robots.errors import ConfigError, EmbodimentFault
from inspect_robots.scene import Scene
from inspect_robots.scorer import success_at_end
from inspect_robots.spaces import ActionSemantics, Box, CameraSpec, ObservationSpace, StateField, StateSpec
from inspect_robots.task import Task as InspectTask
from inspect_robots.types import Action, Observation, StepResult

from evals import registry
from evals.servo import POSITION, ROTATION, rotation_to
from evals.tabletop.shapes import TABLE_Z
from mjx_bench.agents.lane import Lane
from mjx_bench.observe.choice import choose
from mjx_bench.physics.choice import choose as choose_engine
from mjx_bench.task import Task
from mjx_bench.types import Verdict

SEED = 195  # of resets, as in evaluations
CONTROL_HZ = 20.0
CAMERAS = ("agentview", "robot0_eye_in_hand")
OPENING = 0.08  # metres between the fingers, open
FIST = 0.022  # height of the closed hand above the table in the plane, metres

_LABELS = ("x", "y", "z", "rx", "ry", "rz", "gripper")
_DOCS = """A Panda on a table, hand pointing down. An action moves the hand by so many metres along the world's axes (x away
from the base, y to its left, z up) and turns it by a rotation vector; the gripper is 0 closed and 1 open."""
_PLANAR = (
    "A Panda on a table whose closed hand moves in a plane above it: an action is metres along the world's x and y."
)


class Panda(EmbodimentBase):
    """The native suites' arm under operational-space control.

    Args:
      planar: the closed hand moves in a plane above the table, by two numbers.
      image_size: pixels a side of its cameras' pictures; 0 for no pictures.
      backend: engine.
      renderer: of pictures.
    """

    def __init__(
        self, *, planar: bool = False, image_size: int = 0, backend: str = "c", renderer: str = "auto"
    ) -> None:
        self._planar, self._size = planar, image_size
        self._engine = choose_engine(backend)[0]
        self._renderer = choose(renderer)[0] if image_size else None
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._lane: Lane | None = None
        self._down = np.zeros(4)
        name = "mjx-bench-panda-planar" if planar else "mjx-bench-panda"
        seen = {RENDERABLE} if image_size else set()
        self.info = EmbodimentInfo(
            name=name,
            action_space=_plane() if planar else _space(),
            observation_space=ObservationSpace(
                cameras=tuple(CameraSpec(c, image_size, image_size) for c in CAMERAS) if image_size else (),
                state=_state_spec(planar),
            ),
            control_hz=CONTROL_HZ,
            is_simulated=True,
            capabilities=frozenset({RESETTABLE, PRIVILEGED_SUCCESS, *seen}),
            docs=_PLANAR if planar else _DOCS,
        )

    def reset(self, scene: Scene, *, seed: int | None = None) -> Observation:
        """Starts the instance that the scene names; a seed changes nothing, since an instance is all there is."""
        try:
            suite, index, instance = (scene.metadata[name] for name in ("suite", "index", "instance"))
        except KeyError as error:
            raise ConfigError(f"scene {scene.id!r} names no {error}: it is not a scene of an mjx-bench task") from None
        key = (str(suite), int(index))
        if key not in self._lanes:
            task = registry.load_task(*key, seeds=(SEED,))
            if task.action_modes[0] != "osc_pose" or task.control_hz != CONTROL_HZ:
                raise ConfigError(
                    f"{task.suite} {task.name} is not a task of this arm; it takes {task.action_modes[0]}"
                )
            cameras = CAMERAS if self._size else ()
            self._lanes[key] = Lane(task, self._engine, cameras, self._size, self._renderer)
        self._lane = self._lanes[key]
        self._lane.begin(f"inspect {scene.id}", int(instance), SEED)
        self._down = self._lane.observe().eef_quat[0].copy()
        return self._observe(scene.instruction)

    def step(self, action: Action) -> StepResult:
        """One control step."""
        lane = self._lane
        if lane is None or lane.episode.verdict is not None:
            raise EmbodimentFault("no episode is running; reset first")
        data = np.asarray(action.data, np.float64).reshape(-1)
        if data.shape != self.info.action_space.shape or not np.isfinite(data).all():
            raise EmbodimentFault(
                f"an action of shape {data.shape} or not finite; expected {self.info.action_space.shape}"
            )
        lane.step(self._flat(data) if self._planar else _whole(data), first=True)
        e = lane.episode
        if e.verdict is Verdict.VOID:
            raise EmbodimentFault(f"void: {e.reason}")
        success = e.verdict is Verdict.SUCCESS
        info: dict[str, Any] = {"success": success}
        if e.verdict is not None:
            info |= {"verdict": str(e.verdict), "reason": e.reason, "progress": float(e.standing.progress)}
        return StepResult(
            observation=self._observe(None),
            reward=float(success),
            terminated=e.verdict in (Verdict.SUCCESS, Verdict.FAILURE),
            termination_reason=None if e.verdict is None else str(e.verdict),
            truncated=e.verdict is Verdict.TIMEOUT,
            info=info,
        )

    def close(self) -> None:
        """Gives back engines and renderers."""
        with contextlib.ExitStack() as held:
            for lane in self._lanes.values():
                held.enter_context(lane)
        self._lanes, self._lane = {}, None

    def _flat(self, data: np.ndarray) -> np.ndarray:
        """[7] of a step in the plane: the height is kept, the hand points as at the start, and its fingers are closed."""
        assert self._lane is not None
        obs = self._lane.observe()
        rise = TABLE_Z + FIST - float(obs.eef_pos[0, 2])
        turn = rotation_to(obs.eef_quat[0], self._down)
        return np.clip([*data / POSITION, 0.5 * rise / POSITION, *turn / ROTATION, 1.0], -1.0, 1.0)

    def _observe(self, instruction: str | None) -> Observation:
        lane = self._lane
        assert lane is not None
        obs, task = lane.observe(), lane.task
        hand = obs.eef_pos[0]
        state: dict[str, Any] = {
            "eef_pos": hand[:2].copy() if self._planar else hand.copy(),
            "gripper": np.array([np.clip(np.abs(obs.gripper_qpos[0]).sum() / OPENING, 0.0, 1.0)]),
        }
        if self._planar:
            target = list(task.scene.entities).index(task.trigger_entity or "")
            state["target_pos"] = obs.entity_pos[0, target, :2].copy()
        else:
            state |= {"eef_quat": obs.eef_quat[0].copy(), "joint_pos": obs.joint_pos[0].copy()}
        return Observation(images=dict(lane.pictures()), state=state, instruction=instruction)


def planar_panda(**options: Any) -> Panda:
    """The arm whose closed hand moves in a plane."""
    return Panda(planar=True, **options)


def _whole(data: np.ndarray) -> np.ndarray:
    """[7] of the control law: a gripper that is above a half open opens."""
    grip = 1.0 if data[6] < 0.5 else -1.0
    return np.clip([*data[:3] / POSITION, *data[3:6] / ROTATION, grip], -1.0, 1.0)


def _space() -> Box:
    most = np.array([POSITION] * 3 + [ROTATION] * 3)
    semantics = ActionSemantics("eef_delta_pose", "axis_angle", "continuous", "world", _LABELS)
    return Box((7,), np.array([*-most, 0.0]), np.array([*most, 1.0]), semantics)


def _plane() -> Box:
    most = np.full(2, POSITION)
    return Box((2,), -most, most, ActionSemantics("eef_delta_pos", frame="world", dim_labels=_LABELS[:2]))


def _state_spec(planar: bool) -> StateSpec:
    fields: tuple[tuple[str, int, str], ...]
    if planar:
        fields = (("eef_pos", 2, "m"), ("target_pos", 2, "m"), ("gripper", 1, "normalized"))
    else:
        fields = (
            ("eef_pos", 3, "m"),
            ("eef_quat", 4, "unit_quat"),
            ("joint_pos", 7, "rad"),
            ("gripper", 1, "normalized"),
        )
    return StateSpec(tuple(StateField(key, (n,), unit) for key, n, unit in fields))


def task(
    suite: str = "tabletop", task: str = "push_to_region", instances: int = 4, max_steps: int | None = None
) -> InspectTask:
    """The first instances of one of our tasks, by name or index; `max_steps` below its horizon cuts episodes short."""
    rows = {name: row for row in registry.task_table(suite) for name in (row["name"], str(row["index"]))}
    if str(task) not in rows:
        raise registry.no_task((suite,), str(task))
    row = rows[str(task)]
    found: Task = registry.load_task(suite, row["index"], seeds=(SEED,))
    scenes = [
        Scene(
            id=f"{suite}-{found.name}-{i}",
            instruction=found.instruction_of(i),
            metadata={"suite": suite, "index": row["index"], "instance": i},
        )
        for i in range(instances)
    ]
    return InspectTask(f"{suite}-{found.name}", scenes, success_at_end(), max_steps=max_steps or found.horizon)


def push(instances: int = 4, max_steps: int | None = None) -> InspectTask:
    """Push the dome into the square."""
    return task("tabletop", "push_to_region", instances, max_steps)


def close_drawer(instances: int = 4, max_steps: int | None = None) -> InspectTask:
    """Close the drawer."""
    return task("tabletop", "close_drawer", instances, max_steps)
