"""MuJoCo Warp through MJX: one physics step in kernels that JAX calls, the control law in JAX.

The kernels compute a whole step at once, so what a control law sees of the state that the step starts from (Jacobian,
inertia, bias) is computed by MJX's JAX implementation, from a copy of the model in which nothing collides.

Contacts of all lanes of a program share one buffer, and each lane has a buffer of constraints. Their sizes are part of the
program; what does not fit is dropped by the kernels, which say so, and the program is then made anew with larger ones.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx
from mujoco.mjx.third_party import mujoco_warp
from mujoco.mjx.warp import types

from mjx_bench.errors import BenchError
from mjx_bench.observe import warp_renderer
from mjx_bench.physics.bearing import bears
from mjx_bench.physics.grips import held, pressed
from mjx_bench.physics.mjx_jax import arm_of, seen_of
from mjx_bench.physics.mjx_program import Law, Parts
from mjx_bench.physics.mjx_rows import CONTROLLER_MOVING, STATE
from mjx_bench.physics.scene import SceneModel

# Contacts that a program has room for: so many for each thing that moves, and some more. A box on a table has four.
CONTACTS_EACH, SPARE = 8, 16

# Field of the model to whether each lane may have its own; Warp does not read the others at all.
_VARIES: Mapping[str, bool] = types._BATCH_DIM["Model"]

_Overflow = mujoco_warp.OverflowType
# Overflows that lose part of the physics, by what is too small.
FAULTS = {
    "contact buffer": int(_Overflow.BROADPHASE | _Overflow.NARROWPHASE | _Overflow.CCD | _Overflow.EPA_HORIZON),
    "constraint buffer": int(_Overflow.NEFC | _Overflow.NJMAX_NNZ | _Overflow.NVMAX),
    "contact sensor": int(_Overflow.CONTACT_MATCH),
}


class WarpStepper:
    """One physics step of one lane on MuJoCo Warp; see `mjx_program.Stepper`.

    Args:
      scene: the compiled scene, with contact sensors.
      fields: of the model that each lane has its own of.
      tile: lanes of the program.
      contacts: a lane, on average over the tile; None for a number from the scene.

    Attributes:
      slots: contacts a lane.
      faults: `FAULTS`.
      exclusive: MJX hands what a kernel works on over in variables of a module, so programs must not run side by side.

    Raises:
      BenchError: a scene that this engine cannot simulate.
      MissingExtra: Warp is not installed.
    """

    faults = FAULTS
    exclusive = True

    def __init__(self, scene: SceneModel, fields: Sequence[str], tile: int, contacts: int | None = None) -> None:
        warp_renderer.platform()  # starts Warp, or says that it is missing
        self.scene = scene
        self.slots = contacts_of(scene.model) if contacts is None else contacts
        self._fields = tuple(fields)
        self._tile = tile
        for name in fields:
            if _VARIES.get(name) is False:
                raise BenchError(f"engine warp cannot give each lane its own {name}; use --backend c")
        model = copy.copy(scene.model)
        # A detail of how the C engine looks for collisions, which Warp refuses to hear of.
        model.opt.disableflags &= ~mujoco.mjtDisableBit.mjDSBL_MIDPHASE.value
        try:
            self._model = mjx.put_model(model, impl="warp").tree_replace({"opt._impl.warn_overflow": 0})
            self._data = self._room_for(model, tile)
        except NotImplementedError as error:
            raise BenchError(f"engine warp cannot simulate this scene: {error}; use --backend c") from None
        self._free = mjx.put_model(_without_contacts(model), impl="jax")
        self._free_data = mjx.make_data(self._free)

    def grown(self) -> WarpStepper:
        """The same with twice the room."""
        return WarpStepper(self.scene, self._fields, self._tile, 2 * self.slots)

    def bare(self, lanes: int) -> tuple[Any, Any]:
        return self._model, self._room_for(self.scene.model, lanes)

    def _room_for(self, model: mujoco.MjModel, lanes: int) -> Any:
        """Data of one lane of `lanes` that share a contact buffer."""
        return mjx.make_data(model, impl="warp", **buffers(model, self.slots, lanes))

    def step(self, moving: Parts, given: Parts, law: Law) -> tuple[Parts, Parts]:
        own = {name: given[name] for name in self._fields}
        m = self._free.replace(**own)
        free = mjx.com_pos(m, mjx.kinematics(m, self._free_data.replace(qpos=moving["qpos"], qvel=moving["qvel"])))
        seen = mjx.rne(m, mjx.com_vel(m, mjx.tendon_armature(m, mjx.crb(m, mjx.tendon(m, free)))))
        ctrl, memory = law(*arm_of(self.scene, m, seen), moving["ctrl"])
        d = self._data.replace(
            **{n: moving[n] for n in STATE if n != "ctrl"},
            **{n: given[n] for n in ("xfrc_applied", "mocap_pos", "mocap_quat")},
            ctrl=ctrl,
            # Warp takes for granted that fixtures stand where they stood when the data was made.
            geom_xpos=free.geom_xpos,
            geom_xmat=free.geom_xmat,
        )
        own = {name: value.reshape(getattr(self._model, name).shape) for name, value in own.items()}
        d = mjx.step(self._model.replace(**own), d)
        judged = seen_of(self.scene, d, moving["qvel"]) | {
            "touch": self._touches(d),
            "fault": d._impl.overflow & sum(FAULTS.values()),
        }
        return {n: getattr(d, n) for n in STATE} | {n: getattr(memory, n) for n in CONTROLLER_MOVING}, judged

    def _touches(self, d: Any) -> jax.Array:
        """float [P] 1 where a pair has a contact, a hand holds the thing, or one bears the other."""
        found = d.sensordata[self.scene.touch_sensor] > 0
        starts = [*self.scene.touch_start.tolist(), len(self.scene.touch_sensor)]
        parts = [jnp.any(found[a:b]) for a, b in itertools.pairwise(starts)]
        touch = jnp.stack(parts).astype(jnp.float32) if parts else jnp.zeros(0)
        for grip in self.scene.grips:
            now = held((pressed(d.sensordata[a]), pressed(d.sensordata[b])) for a, b in grip.sensors)
            touch = touch.at[grip.column].set(now.astype(touch.dtype))
        for load in self.scene.bearings:
            now = bears(d.sensordata[load.sensors], load.least_z)
            touch = touch.at[load.column].set(now.astype(touch.dtype))
        return touch


def contacts_of(model: mujoco.MjModel) -> int:
    """Contacts a lane that a program has room for, before it is found too small."""
    return CONTACTS_EACH * int(model.ntree) + SPARE


def buffers(model: mujoco.MjModel, contacts: int, lanes: int) -> dict[str, int]:
    """MJX's sizes: `naconmax`, contacts of all `lanes` together, and `njmax`, rows of each lane's constraints."""
    return {"naconmax": contacts * lanes, "njmax": _constraints(model, contacts)}


def _constraints(model: mujoco.MjModel, contacts: int) -> int:
    """Rows of a lane's constraints: all equalities, frictions and limits at once, and `contacts` contacts."""
    elliptic = model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    dims = int(model.geom_condim.max(initial=1))
    rows = dims if elliptic or dims == 1 else 2 * (dims - 1)
    friction = int((model.dof_frictionloss > 0).sum() + (model.tendon_frictionloss > 0).sum())
    limits = int(model.jnt_limited.sum() + model.tendon_limited.sum())
    return 6 * model.neq + friction + limits + rows * contacts


def _without_contacts(model: mujoco.MjModel) -> mujoco.MjModel:
    """A copy that MJX's JAX implementation takes whatever its geoms are, for the stages before contacts."""
    free = copy.copy(model)
    free.geom_contype[:] = free.geom_conaffinity[:] = 0
    free.sensor_type[:] = mujoco.mjtSensor.mjSENS_CLOCK  # it refuses contact sensors of bodies
    return free
