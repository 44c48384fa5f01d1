"""MuJoCo's C engine, batched: `mujoco.batch.Batch` with the control law between physics steps.

Each physics step is continued to the velocity stage of the new state (`stage=mjSTAGE_VEL`). That costs nothing, since the
next step starts there, and it makes the Jacobian, inertia and bias current for the control law. It also means that, before
the last physics step of a control step, poses and contact sensors (of the position stage, since they ask for no force) hold
exactly what LIBERO judges: the state that step starts from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import mujoco
import mujoco.batch
import numpy as np

from mjx_bench.control.arm import law_of
from mjx_bench.control.bimanual import bimanual
from mjx_bench.control.drive import drive
from mjx_bench.control.joint import joint_position
from mjx_bench.control.mobile import mobile_osc
from mjx_bench.control.osc import osc_pose
from mjx_bench.control.posture import posture
from mjx_bench.control.rotors import rotors
from mjx_bench.control.state import ControllerState, Fields
from mjx_bench.errors import BenchError
from mjx_bench.lane_arrays import LaneArrays
from mjx_bench.physics.base import ControlLaw, Edit, Kinematics, Parked, Pose, Snapshot, Visual
from mjx_bench.physics.bearing import bears
from mjx_bench.physics.edits import Editable, apply_edits
from mjx_bench.physics.grips import held, pressed
from mjx_bench.physics.scene import SceneModel
from mjx_bench.signals import Signals
from mjx_bench.task import Reset

CONTROL_LAWS: Mapping[str, ControlLaw] = {
    "osc_pose": osc_pose,
    "joint_position": joint_position,
    "rotors": rotors,
    "drive": drive,
    "posture": posture,
    "bimanual": bimanual,
    "mobile_osc": mobile_osc,
}

_POSED = ("body_pos", "body_quat")
_VEL = mujoco.mjtStage.mjSTAGE_VEL.value
# What each of MuJoCo's warnings means for the lane that raised it.
_WARNINGS = {
    mujoco.mjtWarning.mjWARN_INERTIA: "inertia matrix is close to singular",
    mujoco.mjtWarning.mjWARN_CONTACTFULL: "contact buffer is full",
    mujoco.mjtWarning.mjWARN_CNSTRFULL: "constraint buffer is full",
    mujoco.mjtWarning.mjWARN_BADQPOS: "position is not finite",
    mujoco.mjtWarning.mjWARN_BADQVEL: "velocity is not finite",
    mujoco.mjtWarning.mjWARN_BADQACC: "acceleration is not finite",
    mujoco.mjtWarning.mjWARN_BADCTRL: "control is not finite",
}


def _ignore(message: str) -> None:
    """Receives MuJoCo's warnings, which are counted lane by lane in the batch."""


# MuJoCo would append every warning to MUJOCO_LOG.TXT in the working folder. Here each one voids its lane instead. Set once,
# at import: the first call of a process deadlocks when two threads make it together (MuJoCo 3.17), as workers do.
mujoco.set_mju_user_warning(_ignore)


class MujocoC:
    """Lanes of one scene on the C engine; implements `physics.base.Physics`.

    Args:
      scene: the compiled scene.
      lanes: number of lanes.
      action_mode: a key of `CONTROL_LAWS`.
      substeps: physics steps a control step.
      threads: threads that step lanes side by side; results do not depend on it.
    """

    grown = 0

    def __init__(self, scene: SceneModel, lanes: int, action_mode: str, substeps: int, threads: int = 1) -> None:
        self.lanes = lanes
        self.scene = scene
        self.index = scene.index
        self.signals = Signals.zeros(lanes, scene.index)
        self._law = law_of(CONTROL_LAWS, action_mode, scene.arm)
        self._substeps = substeps
        self._batch = mujoco.batch.Batch(scene.model, nsim=lanes, nthread=threads, persistent=True)
        self._fields = Fields(**{f.name: self._batch.bind(f.name) for f in dataclasses.fields(Fields)})
        # Fields of the model that each lane has its own of. Fixtures are static bodies: their poses always are.
        self._model = {name: self._batch.expand(name) for name in _POSED}
        self._controller = ControllerState.zeros(lanes)
        self._parked: list[dict[str, Parked]] = [{} for _ in range(lanes)]
        self._visual: list[tuple[Visual, ...]] = [() for _ in range(lanes)]
        self._steps = np.zeros(lanes, np.int64)
        self._warnings = self._batch.warning[:, :, 1].copy()

    def load(
        self, lane: int, init_state: np.ndarray, reset: Reset, fields: Mapping[str, np.ndarray] | None = None
    ) -> None:
        model, f = self.scene.model, self._fields
        if init_state.shape != (1 + model.nq + model.nv,):
            raise BenchError(
                f"initial state has {init_state.size} numbers, the scene needs 1 + {model.nq} + {model.nv}"
                " (time, qpos, qvel): it belongs to another scene"
            )
        ids = np.array([lane], np.int32)
        self._batch.reset(ids, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        self._write_model(lane, fields or {})
        for name, pos in reset.fixture_pos.items():
            body = self.scene.entity_body[self.index.entity(name)]
            self._model["body_pos"][lane, body] = pos
            self._model["body_quat"][lane, body] = reset.fixture_quat[name]
        f.time[lane] = init_state[0]
        f.qpos[lane] = init_state[1 : 1 + model.nq]
        f.qvel[lane] = init_state[1 + model.nq :]
        self._controller.load(lane, reset.controller)
        self._parked[lane] = {}
        self._visual[lane] = ()
        self._steps[lane] = 0
        self._forward(ids)

    def _write_model(self, lane: int, fields: Mapping[str, np.ndarray]) -> None:
        """Gives a lane `fields` of the model, and the scene's own in all others."""
        for name in fields.keys() - self._model.keys():
            self._model[name] = self._batch.expand(name)
        for name, rows in self._model.items():
            rows[lane] = fields.get(name, getattr(self.scene.model, name))

    def announce(self, ids: np.ndarray, actions: np.ndarray, counts: np.ndarray) -> None:
        """Nothing to do: this engine steps when it is asked to."""

    def control_step(self, ids: np.ndarray, actions: np.ndarray) -> dict[int, str]:
        actions = np.ascontiguousarray(actions, np.float64)
        batch, last = self._batch, self._substeps - 1
        failed: dict[int, str] = {}
        for k in range(self._substeps):
            self._law(ids, actions, k == 0, self._fields, self._controller, self.scene.arm)
            if k == last:
                self._read_judged(ids)
            try:
                batch.step(ids, stage=_VEL)
            except mujoco.batch.SimulationError as error:
                failed |= {int(i): f"MuJoCo error: {batch.error(int(i))}" for i in error.ids}
        self._steps[ids] += 1
        s, f, scene = self.signals, self._fields, self.scene
        for grip in scene.grips:
            # Forces are of the acceleration stage, so that they still are those of the state that is judged.
            s.touch[ids, grip.column] = held(
                (pressed(f.sensordata[ids[:, None], a]), pressed(f.sensordata[ids[:, None], b]))
                for a, b in grip.sensors
            )
        for load in scene.bearings:
            s.touch[ids, load.column] = bears(f.sensordata[ids[:, None], load.sensors], load.least_z)
        s.joint_qpos[ids] = f.qpos[ids[:, None], scene.joint_qpos]
        s.entity_now[ids] = self._entity_now(ids)
        return failed | self._unhealthy(ids)

    def _read_judged(self, ids: np.ndarray) -> None:
        """Takes the signals of the state that the next physics step starts from."""
        s, f, scene = self.signals, self._fields, self.scene
        s.eef_pos[ids] = f.site_xpos[ids, scene.arm.site]
        s.entity_pos[ids] = f.xpos[ids[:, None], scene.entity_body]
        s.region_pos[ids] = f.site_xpos[ids[:, None], scene.region_site]
        s.region_mat[ids] = f.site_xmat[ids[:, None], scene.region_site].reshape(len(ids), -1, 3, 3)
        s.entity_vel[ids] = f.qvel[ids[:, None, None], scene.mover_dof]
        if scene.touch_start.size:
            # Counted up to each pair's first sensor: a pair may have none, where the robot lacks what would touch.
            counts = np.zeros((len(ids), len(scene.touch_sensor) + 1), np.int64)
            np.cumsum(f.sensordata[ids[:, None], scene.touch_sensor] > 0, axis=1, out=counts[:, 1:])
            bounds = counts[:, np.append(scene.touch_start, len(scene.touch_sensor))]
            s.touch[ids] = bounds[:, 1:] > bounds[:, :-1]

    def _entity_now(self, ids: np.ndarray) -> np.ndarray:
        """[n, E, 3] positions that events read and write: the free joint's, or the model's for a fixture."""
        scene = self.scene
        now = self._model["body_pos"][ids[:, None], scene.entity_body]
        for e, adr in enumerate(scene.entity_qpos):
            if adr >= 0:
                now[:, e] = self._fields.qpos[ids, adr : adr + 3]
        return now

    def _unhealthy(self, ids: np.ndarray) -> dict[int, str]:
        counts = self._batch.warning[ids, :, 1]
        failed: dict[int, str] = {}
        if (counts != self._warnings[ids]).any():
            for i, row in zip(ids, counts, strict=True):
                kinds = np.flatnonzero(row != self._warnings[i])
                if kinds.size:
                    failed[int(i)] = _WARNINGS[mujoco.mjtWarning(int(kinds[0]))]
            self._warnings[ids] = counts
        finite = np.isfinite(self._fields.qpos[ids]).all(1) & np.isfinite(self._fields.qvel[ids]).all(1)
        for i in ids[~finite]:
            failed.setdefault(int(i), "state is not finite")
        return failed

    def kinematics(self, ids: np.ndarray) -> Kinematics:
        f, scene = self._fields, self.scene
        return Kinematics(
            eef_pos=f.site_xpos[ids, scene.arm.site],
            eef_quat=f.xquat[ids, scene.hand_body],
            gripper_qpos=f.qpos[ids[:, None], scene.gripper_qpos],
            joint_pos=f.qpos[ids[:, None], scene.arm.qpos],
            entity_pos=f.xpos[ids[:, None], scene.entity_body],
            entity_quat=f.xquat[ids[:, None], scene.entity_body],
            articulation={n: f.qpos[ids, a] for n, a in zip(self.index.joints, scene.joint_qpos, strict=True)},
            qpos=f.qpos[ids],
            qvel=f.qvel[ids],
            ctrl=f.ctrl[ids],
        )

    def poses(self, ids: np.ndarray) -> list[Pose]:
        return [
            Pose(
                self._fields.qpos[lane].copy(),
                visual=self._visual[lane],
                steps=int(self._steps[lane]),
                **{name: self._model[name][lane].copy() for name in _POSED},
                fields={name: rows[lane].copy() for name, rows in self._model.items() if name not in _POSED},
            )
            for lane in ids.tolist()
        ]

    def snapshot(self, lane: int) -> Snapshot:
        arrays = {"state": self._batch.state[lane].copy()}
        arrays |= {f"model.{name}": rows[lane].copy() for name, rows in self._model.items()}
        for prefix, part in self._parts():
            arrays |= {f"{prefix}.{name}": value for name, value in part.row(lane).items()}
        return Snapshot(arrays, dict(self._parked[lane]), self._visual[lane], int(self._steps[lane]))

    def restore(self, lane: int, snapshot: Snapshot) -> None:
        self._batch.state[lane] = snapshot.arrays["state"]
        self._write_model(lane, snapshot.part("model"))
        for prefix, part in self._parts():
            part.set_row(lane, snapshot.part(prefix))
        self._parked[lane] = dict(snapshot.parked)
        self._visual[lane] = snapshot.visual
        self._steps[lane] = snapshot.steps
        self._forward(np.array([lane], np.int32))

    def _parts(self) -> tuple[tuple[str, LaneArrays], ...]:
        """Everything of a lane beside the engine's own state, by the prefix of its names in a snapshot."""
        return (("controller", self._controller), ("signals", self.signals))

    def parked(self, lane: int) -> Mapping[str, Parked]:
        return self._parked[lane]

    def edit(self, lane: int, edits: list[Edit]) -> None:
        f, model = self._fields, self._model
        mass = model["body_mass"][lane] if "body_mass" in model else self.scene.model.body_mass
        editable = Editable(
            f.qpos[lane], f.qvel[lane], f.xfrc_applied[lane], model["body_pos"][lane], mass, self._parked[lane]
        )
        steps = int(self._steps[lane])
        self._visual[lane] = apply_edits(self.scene, editable, edits, self._visual[lane], steps)
        self._forward(np.array([lane], np.int32))

    def _forward(self, ids: np.ndarray) -> None:
        """Makes pose, velocity and the signals that events read current for lanes whose state was written."""
        self._batch.forward(ids, stage=_VEL)
        self.signals.entity_now[ids] = self._entity_now(ids)
        self._warnings[ids] = self._batch.warning[ids, :, 1]

    def close(self) -> None:
        """Drops the batch and the scene's model; the lanes are gone.

        What still holds this object, such as the cycle of a finished runner, then holds no model until it is collected.
        """
        del self._batch, self._fields, self._model, self.scene
