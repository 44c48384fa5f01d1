"""The compiled execution of a chunk: up to Q control steps of a tile of lanes in one program, for either MJX engine.

Everything that a control step needs is inside: the control law at every physics step, the physics, the signals at the
instant that `signals` defines, and the goal. The result is a trace with each lane's full state after each control step, from
which the host judges, takes snapshots and goes on.

A lane is done once its own steps are used up, once its state is not finite, or once its goal holds. From then on it is
frozen: the program keeps its last row by selection. So its bits depend on nothing but its own row and actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from mjx_bench.control.arm_jax import Memory, Seen
from mjx_bench.control.joint_jax import joint_position
from mjx_bench.control.osc_jax import osc_pose
from mjx_bench.errors import unknown_name
from mjx_bench.physics.mjx_compile import Program, compile_program
from mjx_bench.physics.mjx_rows import CONTROLLER_MOVING, given_layout, judged_layout, moving_layout
from mjx_bench.physics.scene import SceneModel
from mjx_bench.policy import ACTION_DIMS
from mjx_bench.signals import Signals

CONTROL_LAWS: Mapping[str, Callable[..., tuple[jax.Array, Memory]]] = {
    "osc_pose": osc_pose,
    "joint_position": joint_position,
}

# A position, velocity or acceleration beyond this counts as not finite, as in MuJoCo (mjMAXVAL).
MAX_VALUE = 1e10

# What a program says of one control step of one lane.
EXECUTED, HEALTHY, SUCCESS = 1, 2, 4

Parts = dict[str, jax.Array]
# (arm now, its bias torques [7], actuator commands [nu]) to (actuator commands, the controller's memory afterwards).
Law = Callable[[Seen, jax.Array, jax.Array], tuple[jax.Array, Memory]]


class Stepper(Protocol):
    """One physics step of one lane in JAX; engines differ in this only."""

    scene: SceneModel

    def step(self, moving: Parts, given: Parts, law: Law) -> tuple[Parts, Parts]:
        """Advances one lane by one physics step.

        Args:
          moving: parts of `moving_layout`.
          given: parts of `given_layout`.
          law: to be called with the arm as it is before the step.

        Returns:
          moving: after the step; the controller's part as `law` returned it.
          judged: parts of `judged_layout`, of the state before the step.
        """
        ...


class Execute:
    """The compiled chunk of one scene.

    Args:
      stepper: the engine.
      action_mode: a key of `CONTROL_LAWS`.
      substeps: physics steps a control step.
      interval: Q, control steps a call at most.
      fields: of the model that each lane has its own of.
      success: the goal, signals to bool [B]; None for lanes that only ever end by their count.
      tile: W, lanes a call.

    Attributes:
      moving, given, judged: layouts of the rows.
      fields, interval, tile: as given; action_dim: A.
      program: how it was compiled.

    Raises:
      BenchError: an unknown action mode.
    """

    def __init__(
        self,
        stepper: Stepper,
        action_mode: str,
        substeps: int,
        interval: int,
        fields: tuple[str, ...],
        success: Callable[[Signals], Any] | None,
        tile: int,
        *,
        stock: bool = False,
    ) -> None:
        if action_mode not in CONTROL_LAWS:
            raise unknown_name("action mode", action_mode, CONTROL_LAWS)
        scene = stepper.scene
        self.moving = moving_layout(scene.model)
        self.given = given_layout(scene.model, fields)
        self.judged = judged_layout(scene.index)
        self.fields = fields
        self.interval = interval
        self.tile = tile
        self.action_dim = ACTION_DIMS[action_mode]
        self._stepper = stepper
        self._law = CONTROL_LAWS[action_mode]
        self._substeps = substeps
        self._success = success
        shapes = (
            jax.ShapeDtypeStruct((tile, self.moving.size), np.float32),
            jax.ShapeDtypeStruct((tile, self.given.size), np.float32),
            jax.ShapeDtypeStruct((tile, interval, self.action_dim), np.float32),
            jax.ShapeDtypeStruct((tile,), np.int32),
            jax.ShapeDtypeStruct((tile,), np.bool_),
        )
        self.program: Program = compile_program(self._chunk, *shapes, stock=stock)

    def __call__(
        self, moving: np.ndarray, given: np.ndarray, actions: np.ndarray, counts: np.ndarray, stop: np.ndarray
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Executes a chunk, without waiting for it.

        Args:
          moving: float32 [W, R] rows; given: float32 [W, G].
          actions: float32 [W, Q, A].
          counts: int32 [W] how many of them belong to each lane.
          stop: bool [W] where success ends a lane.

        Returns:
          rows [Q, W, R], signals [Q, W, J] and flags uint8 [Q, W] after each control step.
        """
        return self.program.call(moving, given, actions, counts, stop)

    def _chunk(
        self, moving: jax.Array, given: jax.Array, actions: jax.Array, counts: jax.Array, stop: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        last = jnp.max(counts)
        trace = (
            jnp.zeros((self.interval, *moving.shape), moving.dtype),
            jnp.zeros((self.interval, self.tile, self.judged.size), moving.dtype),
            jnp.zeros((self.interval, self.tile), jnp.uint8),
        )

        def going(carry: Any) -> jax.Array:
            i, _, running, _ = carry
            return (i < last) & jnp.any(running)

        def one(carry: Any) -> Any:
            i, rows, running, trace = carry
            action = jax.lax.dynamic_index_in_dim(actions, i, axis=1, keepdims=False)
            new, judged = jax.vmap(self._control_step)(rows, given, action)
            healthy = self._healthy(new)
            success = self._succeeded(new, given, judged)
            rows = jnp.where((running & healthy)[:, None], new, rows)
            flags = running * EXECUTED + healthy * HEALTHY + success * SUCCESS
            step = (rows, judged, flags.astype(jnp.uint8))
            trace = tuple(jax.lax.dynamic_update_index_in_dim(t, s, i, 0) for t, s in zip(trace, step, strict=True))
            running = running & healthy & ~(success & stop) & (i + 1 < counts)
            return i + 1, rows, running, trace

        return jax.lax.while_loop(going, one, (0, moving, counts > 0, trace))[3]

    def _control_step(self, row: jax.Array, given_row: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """One lane: row [R] to row [R] and signals [J]."""
        given = self.given.split(given_row)

        def substep(carry: tuple[jax.Array, jax.Array], k: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            moving = self.moving.split(carry[0])
            memory = Memory(**{n: moving[n] if n in CONTROLLER_MOVING else given[n] for n in Memory._fields})

            def law(seen: Seen, bias: jax.Array, ctrl: jax.Array) -> tuple[jax.Array, Memory]:
                return self._law(action, k == 0, seen, bias, ctrl, memory, self._stepper.scene.arm)

            moved, judged = self._stepper.step(moving, given, law)
            return (self.moving.join(moved, jnp), self.judged.join(judged, jnp)), None

        start = (row, jnp.zeros(self.judged.size, row.dtype))
        return jax.lax.scan(substep, start, jnp.arange(self._substeps))[0]

    def _healthy(self, rows: jax.Array) -> jax.Array:
        """bool [W]."""
        parts = self.moving.split(rows)
        # Comparisons with NaN are false.
        fine = [jnp.all(jnp.abs(parts[n]) < MAX_VALUE, axis=-1) for n in ("qpos", "qvel", "qacc_warmstart")]
        return fine[0] & fine[1] & fine[2]

    def _succeeded(self, rows: jax.Array, given: jax.Array, judged: jax.Array) -> jax.Array:
        """bool [W]."""
        if self._success is None:
            return jnp.zeros(self.tile, bool)
        parts = self.moving.split(rows)
        return self._success(
            signals_of(
                self._stepper.scene, parts["qpos"], self.given.split(given)["body_pos"], self.judged.split(judged)
            )
        )


def signals_of(scene: SceneModel, qpos: Any, body_pos: Any, judged: Mapping[str, Any]) -> Signals:
    """The signals of lanes, in NumPy or JAX.

    Args:
      scene: addresses.
      qpos: [n, nq] after the last physics step.
      body_pos: [n, nbody, 3] of the lanes' models.
      judged: parts of `judged_layout`, each [n, ...].
    """
    numpy = jnp if isinstance(qpos, jax.Array) else np
    now = [
        qpos[:, at : at + 3] if at >= 0 else body_pos[:, body]
        for at, body in zip(scene.entity_qpos, scene.entity_body, strict=True)
    ]
    return Signals(
        eef_pos=judged["eef_pos"],
        entity_pos=judged["entity_pos"],
        entity_now=numpy.stack(now, axis=1) if now else judged["entity_pos"],
        region_pos=judged["region_pos"],
        region_mat=judged["region_mat"],
        joint_qpos=qpos[:, scene.joint_qpos],
        touch=judged["touch"] > 0,
    )
