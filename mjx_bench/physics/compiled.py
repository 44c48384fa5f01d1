"""Lanes on an engine that executes whole chunks: announced actions go into one program, and control steps read its trace.

The host keeps one row a lane: the state after the control step that was asked for last. A program starts from rows and
returns the rows after each of its control steps, so that a control step moves a cursor, a snapshot copies a row, and an edit
changes a row and forgets what was computed beyond it. Rows are packed into tiles of a fixed width as they come: a lane's
bits depend neither on its place in a tile nor on its neighbours, only on the width.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mjx_bench.control.state import ControllerState
from mjx_bench.errors import BenchError
from mjx_bench.physics.base import Edit, Kinematics, Parked, Pose, Snapshot, Visual
from mjx_bench.physics.edits import Editable, apply_edits
from mjx_bench.physics.mjx_compile import Program
from mjx_bench.physics.mjx_program import EXECUTED, HEALTHY, SUCCESS, Execute, signals_of
from mjx_bench.physics.posing import Posing
from mjx_bench.physics.scene import SceneModel
from mjx_bench.signals import Signals
from mjx_bench.task import Reset

POSED = ("body_pos", "body_quat")

# Times that a program's room is doubled before the lanes that lack it are given up.
MOST_GROWTH = 4


@dataclasses.dataclass(frozen=True, eq=False)
class _Trace:
    """What one call computed: rows [Q, n, R], signals [Q, n, J] and flags [Q, n] after each control step."""

    rows: np.ndarray
    judged: np.ndarray
    flags: np.ndarray


class Compiled:
    """Lanes of one scene on a compiled engine; implements `physics.base.Physics`.

    Args:
      scene: the compiled scene.
      execute: its program.
      lanes: number of lanes; rounded up to whole tiles, since a tile costs the same however many of its lanes are used.
      success: the goal that `execute` was compiled with.
      kept: fields of the model that lanes have their own of and that `execute` does not read.

    Attributes:
      tile: lanes a program.
      grown: how often a program was too small and was made anew with more room.
    """

    def __init__(
        self,
        scene: SceneModel,
        execute: Execute,
        lanes: int,
        success: Callable[[Signals], Any] | None,
        kept: tuple[str, ...] = (),
    ) -> None:
        self.tile = execute.tile
        self.grown = 0
        self.lanes = lanes = -(-lanes // self.tile) * self.tile
        self.scene = scene
        self.index = scene.index
        self.signals = Signals.zeros(lanes, scene.index)
        self._execute = execute
        self._success = success
        self._rows = np.zeros((lanes, execute.moving.size), np.float32)
        self._given = np.zeros((lanes, execute.given.size), np.float32)
        # Live views of both, by name.
        self._row: dict[str, np.ndarray] = execute.moving.split(self._rows)
        self._own: dict[str, np.ndarray] = execute.given.split(self._given)
        self._model = {name: self._own[name] for name in execute.fields}
        self._kept = {n: np.repeat(getattr(scene.model, n)[None], lanes, axis=0) for n in kept}
        self._parked: list[dict[str, Parked]] = [{} for _ in range(lanes)]
        self._visual: list[tuple[Visual, ...]] = [() for _ in range(lanes)]
        self._steps = np.zeros(lanes, np.int64)
        # What is announced, how much of it is executed, and where in which trace each lane is.
        self._plan = np.zeros((lanes, execute.interval, execute.action_dim), np.float32)
        self._planned = np.zeros(lanes, np.int64)
        self._known = np.zeros(lanes, np.int64)
        self._cursor = np.zeros(lanes, np.int64)
        self._column = np.zeros(lanes, np.int64)
        self._trace = np.full(lanes, None, object)  # of _Trace
        self._succeeded = np.zeros(lanes, np.bool_)
        self._posing = Posing(scene)

    @property
    def program(self) -> Program:
        """How what is executed was compiled."""
        return self._execute.program

    def load(
        self, lane: int, init_state: np.ndarray, reset: Reset, fields: Mapping[str, np.ndarray] | None = None
    ) -> None:
        model, row = self.scene.model, self._row
        if init_state.shape != (1 + model.nq + model.nv,):
            raise BenchError(
                f"initial state has {init_state.size} numbers, the scene needs 1 + {model.nq} + {model.nv}"
                " (time, qpos, qvel): it belongs to another scene"
            )
        self._rows[lane] = 0.0
        self._given[lane] = 0.0
        self._write_model(lane, fields or {})
        for name, pos in reset.fixture_pos.items():
            body = self.scene.entity_body[self.index.entity(name)]
            self._own["body_pos"][lane, body] = pos
            self._own["body_quat"][lane, body] = reset.fixture_quat[name]
        mocap = model.body_mocapid >= 0
        self._own["mocap_pos"][lane, model.body_mocapid[mocap]] = model.body_pos[mocap]
        self._own["mocap_quat"][lane, model.body_mocapid[mocap]] = model.body_quat[mocap]
        row["time"][lane] = init_state[0]
        row["qpos"][lane] = init_state[1 : 1 + model.nq]
        row["qvel"][lane] = init_state[1 + model.nq :]
        controller = ControllerState.zeros(1)
        controller.load(0, reset.controller)
        for name, value in controller.row(0).items():
            (row if name in row else self._own)[name][lane] = value
        self._parked[lane] = {}
        self._visual[lane] = ()
        self._steps[lane] = 0
        self._begin(lane)

    def _write_model(self, lane: int, fields: Mapping[str, np.ndarray]) -> None:
        """Gives a lane `fields` of the model, and the scene's own in all others."""
        known = self._model | self._kept
        if unknown := sorted(fields.keys() - known.keys()):
            raise BenchError(
                f"the lane has its own {', '.join(unknown)}, and the engine was compiled for its own {', '.join(known)}"
            )
        for name, rows in known.items():
            rows[lane] = fields.get(name, getattr(self.scene.model, name))

    def _begin(self, lane: int) -> None:
        """Nothing is announced or known beyond the lane's row."""
        self._planned[lane] = self._known[lane] = self._cursor[lane] = 0
        self._trace[lane] = None
        self._succeeded[lane] = False
        self._take_now(np.array([lane]))

    def announce(self, ids: np.ndarray, actions: np.ndarray, counts: np.ndarray) -> None:
        """Kept until the first control step asks for it; then all of it is executed in one go."""
        if actions.shape[1] > self._execute.interval:
            raise BenchError(
                f"{actions.shape[1]} actions announced to a program of {self._execute.interval} control steps"
            )
        self._plan[ids, : actions.shape[1]] = actions
        self._planned[ids] = counts
        self._known[ids] = self._cursor[ids] = 0

    def control_step(self, ids: np.ndarray, actions: np.ndarray) -> dict[int, str]:
        actions = actions.astype(np.float32)
        at = np.minimum(self._cursor[ids], self._execute.interval - 1)
        expected = (self._cursor[ids] < self._planned[ids]) & (self._plan[ids, at] == actions).all(1)
        for lane, action in zip(ids[~expected].tolist(), actions[~expected], strict=True):
            self._plan[lane, 0], self._planned[lane], self._known[lane], self._cursor[lane] = action, 1, 0, 0
        self._run(ids[self._cursor[ids] >= self._known[ids]])
        return self._advance(ids)

    def _run(self, ids: np.ndarray) -> None:
        """Executes what is announced to the lanes `ids` from their rows on, in as many calls as it takes."""
        if not len(ids):
            return
        program = self._execute
        left = self._planned[ids] - self._cursor[ids]
        ahead = np.arange(program.interval)
        at = np.minimum(self._cursor[ids, None] + ahead, program.interval - 1)
        actions = np.where((ahead < left[:, None])[..., None], self._plan[ids[:, None], at], np.float32(0.0))
        # A lane that goes on after its goal held (settling, or a run that success does not end) is not stopped by it again.
        stop = ~self._succeeded[ids]
        parts = self._call(ids, actions, left, stop)
        while any(program.faults_of(part[1]).any() for part in parts) and self.grown < MOST_GROWTH:
            larger = self._execute.grown()
            if larger is None:
                break
            self._execute = program = larger
            self.grown += 1
            parts = self._call(ids, actions, left, stop)
        trace = _Trace(*(np.concatenate([p[k] for p in parts], axis=1) for k in range(3)))
        self._plan[ids] = actions
        self._planned[ids] = left
        self._cursor[ids] = 0
        self._column[ids] = np.arange(len(ids))
        self._known[ids] = ((trace.flags[:, : len(ids)] & EXECUTED) > 0).sum(axis=0)
        self._trace[ids] = trace

    def _call(
        self, ids: np.ndarray, actions: np.ndarray, counts: np.ndarray, stop: np.ndarray
    ) -> list[tuple[np.ndarray, ...]]:
        """Executes actions [n, Q, A] in the lanes `ids`: the traces of each call."""
        calls = []
        for start in range(0, len(ids), self._execute.lanes):
            group = min(self._execute.lanes, -(-(len(ids) - start) // self.tile) * self.tile)
            here = np.arange(start, start + group)
            real = here < len(ids)
            here = np.where(real, here, start)  # lanes that fill up a tile repeat another one and take no step
            chosen = ids[here]
            own = np.where(real, counts[here], 0).astype(np.int32)
            calls.append(self._execute(self._rows[chosen], self._given[chosen], actions[here], own, stop[here]))
        return [tuple(np.asarray(array) for array in call) for call in calls]

    def _advance(self, ids: np.ndarray) -> dict[int, str]:
        """Moves the lanes `ids` to their next known control step."""
        flags, faults = np.zeros(len(ids), np.uint8), np.zeros(len(ids), np.int64)
        rest = np.arange(len(ids))
        while len(rest):
            trace: _Trace = self._trace[ids[rest[0]]]
            same = self._trace[ids[rest]] == trace
            members, rest = rest[same], rest[~same]
            lanes = ids[members]
            at = self._cursor[lanes], self._column[lanes]
            flags[members] = trace.flags[at]
            self._rows[lanes] = trace.rows[at]
            faults[members] = self._execute.faults_of(trace.judged[at])
            judged = signals_of(
                self.scene,
                self._row["qpos"][lanes],
                self._own["body_pos"][lanes],
                self._execute.judged.split(trace.judged[at]),
            )
            for field in dataclasses.fields(judged):
                getattr(self.signals, field.name)[lanes] = getattr(judged, field.name)
        self._cursor[ids] += 1
        self._steps[ids] += 1
        self._succeeded[ids] = (flags & SUCCESS) > 0
        bad = np.flatnonzero((flags & HEALTHY) == 0)
        failed = {int(ids[i]): self._execute.reason(int(faults[i])) for i in bad}
        return dict.fromkeys(self._disagreeing(ids), "compiled and recorded checkers disagree") | failed

    def _disagreeing(self, ids: np.ndarray) -> list[int]:
        """Lanes whose goal came out differently in the program and from the signals that it reported.

        At the very edge of a threshold single precision may: what the host finds in that precision counts as agreement.
        """
        if self._success is None:
            return []
        suspects = ids[np.asarray(self._success(self.signals))[ids] != self._succeeded[ids]]
        if not len(suspects):
            return []
        fields = {f.name: getattr(self.signals, f.name)[suspects] for f in dataclasses.fields(self.signals)}
        single = Signals(**{n: a if a.dtype == np.bool_ else a.astype(np.float32) for n, a in fields.items()})
        return suspects[np.asarray(self._success(single)) != self._succeeded[suspects]].tolist()

    def _take_now(self, ids: np.ndarray) -> None:
        """Makes current what events read of lanes whose rows were written."""
        judged = self._execute.judged.split(np.zeros((len(ids), self._execute.judged.size), np.float32))
        qpos, body_pos = self._row["qpos"][ids], self._own["body_pos"][ids]
        self.signals.entity_now[ids] = signals_of(self.scene, qpos, body_pos, judged).entity_now

    def kinematics(self, ids: np.ndarray) -> Kinematics:
        qpos, qvel, ctrl = (self._row[name][ids].astype(np.float64) for name in ("qpos", "qvel", "ctrl"))
        return self._posing.kinematics(qpos, qvel, ctrl, {name: rows[ids] for name, rows in self._model.items()})

    def poses(self, ids: np.ndarray) -> list[Pose]:
        own = self._model | self._kept
        return [
            Pose(
                self._row["qpos"][lane].astype(np.float64),
                visual=self._visual[lane],
                steps=int(self._steps[lane]),
                **{name: self._model[name][lane].astype(np.float64) for name in POSED},
                fields={name: rows[lane].copy() for name, rows in own.items() if name not in POSED},
            )
            for lane in ids.tolist()
        ]

    def snapshot(self, lane: int) -> Snapshot:
        arrays = {"state": self._rows[lane].copy(), "given": self._given[lane].copy()}
        arrays |= {f"kept.{name}": rows[lane].copy() for name, rows in self._kept.items()}
        arrays |= {f"signals.{name}": value for name, value in self.signals.row(lane).items()}
        return Snapshot(arrays, dict(self._parked[lane]), self._visual[lane], int(self._steps[lane]))

    def restore(self, lane: int, snapshot: Snapshot) -> None:
        self._rows[lane] = snapshot.arrays["state"]
        self._given[lane] = snapshot.arrays["given"]
        for name, value in snapshot.part("kept").items():
            self._kept[name][lane] = value
        self.signals.set_row(lane, snapshot.part("signals"))
        self._parked[lane] = dict(snapshot.parked)
        self._visual[lane] = snapshot.visual
        self._steps[lane] = snapshot.steps
        self._begin(lane)

    def parked(self, lane: int) -> Mapping[str, Parked]:
        return self._parked[lane]

    def edit(self, lane: int, edits: list[Edit]) -> None:
        row, own = self._row, self._own
        editable = Editable(
            row["qpos"][lane],
            row["qvel"][lane],
            own["xfrc_applied"][lane],
            own["body_pos"][lane],
            self._model["body_mass"][lane] if "body_mass" in self._model else self.scene.model.body_mass,
            self._parked[lane],
        )
        steps = int(self._steps[lane])
        self._visual[lane] = apply_edits(self.scene, editable, edits, self._visual[lane], steps)
        if not all(isinstance(edit, Visual) for edit in edits):
            self._known[lane] = 0  # the rest of what is announced is executed again, from here
            self._take_now(np.array([lane]))

    def close(self) -> None:
        """Drops rows, program and the scene's model; the lanes are gone."""
        del self._execute, self._trace, self._posing, self.scene
