"""The compiled execution of a chunk: up to Q control steps of a tile of lanes in one program, for either MJX engine.

Everything that a control step needs is inside: the control law at every physics step, the physics, the signals at the
instant that `signals` defines, and the goal. The result is a trace with each lane's full state after each control step, from
which the host judges, takes snapshots and goes on.

A lane is done once its own steps are used up, once its state is not finite, or once its goal holds. From then on it is
frozen: the program keeps its last row by selection. So its bits depend on nothing but its own row and actions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from mjx_bench.control.arm import law_of
from mjx_bench.control.arm_jax import Memory, Seen
from mjx_bench.control.bimanual_jax import bimanual
from mjx_bench.control.drive_jax import drive
from mjx_bench.control.joint_jax import joint_position
from mjx_bench.control.mobile_jax import mobile_osc
from mjx_bench.control.osc_jax import osc_pose
from mjx_bench.control.posture_jax import posture
from mjx_bench.control.rotors_jax import rotors
from mjx_bench.physics.mjx_compile import Program, compile_program
from mjx_bench.physics.mjx_rows import CONTROLLER_MOVING, given_layout, judged_layout, moving_layout
from mjx_bench.physics.scene import SceneModel
from mjx_bench.policy import ACTION_DIMS
from mjx_bench.signals import Signals

CONTROL_LAWS: Mapping[str, Callable[..., tuple[jax.Array, Memory]]] = {
    "osc_pose": osc_pose,
    "joint_position": joint_position,
    "rotors": rotors,
    "drive": drive,
    "posture": posture,
    "bimanual": bimanual,
    "mobile_osc": mobile_osc,
}

# A position, velocity or acceleration beyond this counts as not finite, as in MuJoCo (mjMAXVAL).
MAX_VALUE = 1e10

_EXCLUSIVE = threading.Lock()

# What a program says of one control step of one lane.
EXECUTED, HEALTHY, SUCCESS = 1, 2, 4

Parts = dict[str, jax.Array]
# (arm now, its bias torques [7], actuator commands [nu]) to (actuator commands, the controller's memory afterwards).
Law = Callable[[Seen, jax.Array, jax.Array], tuple[jax.Array, Memory]]


class Stepper(Protocol):
    """One physics step of one lane in JAX; engines differ in this only.

    Attributes:
      scene: what is simulated.
      slots: contacts a lane that a program has room for.
      faults: what may be too small in a program, to the bits that say so.
      exclusive: only one program of the engine may run at a time.
    """

    @property
    def scene(self) -> SceneModel: ...

    @property
    def slots(self) -> int: ...

    @property
    def faults(self) -> Mapping[str, int]: ...

    @property
    def exclusive(self) -> bool: ...

    def grown(self) -> Stepper | None:
        """The same with more room; None if room is not what it lacks."""
        ...

    def bare(self, lanes: int) -> tuple[Any, Any]:
        """MJX's model, and its data of one lane of `lanes` that a program steps: for a measurement without this class."""
        ...

    def step(self, moving: Parts, given: Parts, law: Law) -> tuple[Parts, Parts]:
        """Advances one lane by one physics step.

        Args:
          moving: parts of `moving_layout`.
          given: parts of `given_layout`.
          law: to be called with the arm as it is before the step.

        Returns:
          moving: after the step; the controller's part as `law` returned it.
          judged: parts of `judged_layout`, of the state before the step; `fault` int32 [], of the step.
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
      tile: W, lanes that a device steps together; bits depend on it.
      stock: leaves out our compiler options, for the measurement that justifies them.

    Attributes:
      moving, given, judged: layouts of the rows.
      stepper, fields, interval, tile: as given; action_dim: A.
      devices: the local ones that tiles are spread over.
      lanes: of a call, at most: a tile for each device.

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
        scene = stepper.scene
        self.moving = moving_layout(scene.model)
        self.given = given_layout(scene.model, fields)
        self.judged = judged_layout(scene.index)
        self.fields = fields
        self.interval = interval
        self.tile = tile
        self.stepper = stepper
        self.arguments = (action_mode, substeps, interval, fields, success, tile)
        self._law = law_of(CONTROL_LAWS, action_mode, scene.arm)
        self.action_dim = ACTION_DIMS[action_mode]
        self._substeps = substeps
        self._success = success
        self.devices = tuple(jax.local_devices()[:1] if stepper.exclusive else jax.local_devices())
        self.lanes = tile * len(self.devices)
        self._function, self._stock = self._chunk, stock  # one object, so that it is traced once for all devices
        self._programs: dict[int, Program] = {}
        self._compiling = threading.Lock()

    @property
    def program(self) -> Program:
        """How it was compiled for the first device."""
        return self._on(0)

    def compiled(self) -> Execute:
        """Itself, compiled for the first device."""
        self._on(0)
        return self

    def _on(self, place: int) -> Program:
        """The program of a device, compiled when it is first needed.

        One program for all devices, partitioned by XLA, would not do: its passes change bits. So does naming no device where
        there is only one.
        """
        with self._compiling:
            if place not in self._programs:
                there = SingleDeviceSharding(self.devices[place])
                shapes = (
                    jax.ShapeDtypeStruct((self.tile, self.moving.size), np.float32, sharding=there),
                    jax.ShapeDtypeStruct((self.tile, self.given.size), np.float32, sharding=there),
                    jax.ShapeDtypeStruct((self.tile, self.interval, self.action_dim), np.float32, sharding=there),
                    jax.ShapeDtypeStruct((self.tile,), np.int32, sharding=there),
                    jax.ShapeDtypeStruct((self.tile,), np.bool_, sharding=there),
                )
                self._programs[place] = compile_program(self._function, *shapes, stock=self._stock)
            return self._programs[place]

    def __call__(
        self, moving: np.ndarray, given: np.ndarray, actions: np.ndarray, counts: np.ndarray, stop: np.ndarray
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Executes a chunk, and does not wait for it where other programs may run beside it.

        Args:
          moving: float32 [L, R] rows of L lanes, one tile or several, at most one for each device; given: float32 [L, G].
          actions: float32 [L, Q, A].
          counts: int32 [L] how many of them belong to each lane.
          stop: bool [L] where success ends a lane.

        Returns:
          rows [Q, L, R], signals [Q, L, J] and flags uint8 [Q, L] after each control step, sharded over the devices.
        """
        arguments = (moving, given, actions, counts, stop)
        if self.stepper.exclusive:
            with _EXCLUSIVE:
                return jax.block_until_ready(self.program.call(*arguments))
        tiles = len(moving) // self.tile
        parts = [self._on(k).call(*(a[k * self.tile : (k + 1) * self.tile] for a in arguments)) for k in range(tiles)]
        if tiles == 1:
            return parts[0]
        mesh = Mesh(np.array(self.devices[:tiles]), ("lanes",))
        sharding = NamedSharding(mesh, PartitionSpec(None, "lanes"))

        def whole(*shards: jax.Array) -> jax.Array:
            steps, lanes, *rest = shards[0].shape
            shape = (steps, lanes * tiles, *rest)
            return jax.make_array_from_single_device_arrays(shape, sharding, list(shards))

        rows, judged, flags = (whole(*shards) for shards in zip(*parts, strict=True))
        return rows, judged, flags

    def grown(self) -> Execute | None:
        """The same program with more room; None if its engine has no more to give."""
        stepper = self.stepper.grown()
        return None if stepper is None else Execute(stepper, *self.arguments).compiled()

    def faults_of(self, judged: np.ndarray) -> np.ndarray:
        """int [...] what was too small, in bits, of signals [..., J]."""
        return self.judged.split(judged)["fault"].astype(np.int64)

    def reason(self, fault: int) -> str:
        """Why a lane is not healthy."""
        small = [name for name, bits in self.stepper.faults.items() if fault & bits]
        return (
            f"{' and '.join(small)} of {self.stepper.slots} contacts a lane is full" if small else "state is not finite"
        )

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
            new, judged = jax.vmap(self.control_step)(rows, given, action)
            healthy = self.healthy(new) & (self.judged.split(judged)["fault"] == 0)
            success = self.succeeded(new, given, judged)
            rows = jnp.where((running & healthy)[:, None], new, rows)
            flags = running * EXECUTED + healthy * HEALTHY + success * SUCCESS
            step = (rows, judged, flags.astype(jnp.uint8))
            trace = tuple(jax.lax.dynamic_update_index_in_dim(t, s, i, 0) for t, s in zip(trace, step, strict=True))
            running = running & healthy & ~(success & stop) & (i + 1 < counts)
            return i + 1, rows, running, trace

        return jax.lax.while_loop(going, one, (0, moving, counts > 0, trace))[3]

    def control_step(self, row: jax.Array, given_row: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """One lane: row [R] to row [R] and signals [J]."""
        given = self.given.split(given_row)

        def substep(carry: tuple[jax.Array, jax.Array], k: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            moving = self.moving.split(carry[0])
            memory = Memory(**{n: moving[n] if n in CONTROLLER_MOVING else given[n] for n in Memory._fields})

            def law(seen: Seen, bias: jax.Array, ctrl: jax.Array) -> tuple[jax.Array, Memory]:
                return self._law(action, k == 0, seen, bias, ctrl, memory, self.stepper.scene.arm)

            moved, judged = self.stepper.step(moving, given, law)
            faults = self.judged.split(carry[1])["fault"].astype(jnp.int32) | judged["fault"]
            judged["fault"] = faults.astype(row.dtype)
            return (self.moving.join(moved, jnp), self.judged.join(judged, jnp)), None

        start = (row, jnp.zeros(self.judged.size, row.dtype))
        return jax.lax.scan(substep, start, jnp.arange(self._substeps))[0]

    def healthy(self, rows: jax.Array) -> jax.Array:
        """bool [W] whether rows [W, R] are finite."""
        parts = self.moving.split(rows)
        # Comparisons with NaN are false.
        fine = [jnp.all(jnp.abs(parts[n]) < MAX_VALUE, axis=-1) for n in ("qpos", "qvel", "qacc_warmstart")]
        return fine[0] & fine[1] & fine[2]

    def succeeded(self, rows: jax.Array, given: jax.Array, judged: jax.Array) -> jax.Array:
        """bool [W] whether the goal holds after a control step that led to rows [W, R] and signals [W, J]."""
        if self._success is None:
            return jnp.zeros(len(rows), bool)
        return self._success(self.signals(rows, given, judged))

    def signals(self, rows: jax.Array, given: jax.Array, judged: jax.Array) -> Signals:
        """The signals of lanes, by name."""
        body_pos = self.given.split(given)["body_pos"]
        return signals_of(self.stepper.scene, self.moving.split(rows)["qpos"], body_pos, self.judged.split(judged))


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
        entity_vel=judged["entity_vel"],
    )
