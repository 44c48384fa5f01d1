"""What a checker or a trigger may read, whichever engine stepped the lanes.

Signals are taken at the instant that LIBERO judges: poses and contacts as the last physics step left them, that is, of the
state before it, beside joint positions after it.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mjx_bench.lane_arrays import LaneArrays

# Names of the finger pads in touch pairs; no entity's name has a colon.
FINGERS = ("finger:left", "finger:right")
# Name of the whole hand in touch pairs.
HAND = "hand:any"
# Name in touch pairs of any hand that holds something: see `physics.grips`.
GRIP = "hand:grip"
# Before the name of what bears the other of a pair from below, or what the other presses down: see `physics.bearing`. How
# far up the normal of such a contact points at least, its part along z, are RoboQuest's figures.
SUPPORT, PRESS = "support:", "press:"
LEAST_Z = {SUPPORT: 0.5, PRESS: 0.9}


@dataclasses.dataclass(frozen=True)
class SignalIndex:
    """Names of the columns of `Signals`.

    Attributes:
      entities, regions, joints, touches: of what.
      movers: entities whose velocity is a signal: they have a free joint.
      hands: those of the regions that triggers take for the end effector too.
    """

    entities: tuple[str, ...]
    regions: tuple[str, ...]
    joints: tuple[str, ...]
    touches: tuple[tuple[str, str], ...]
    movers: tuple[str, ...] = ()
    hands: tuple[str, ...] = ()

    def entity(self, name: str) -> int:
        return self.entities.index(name)

    def region(self, name: str) -> int:
        return self.regions.index(name)

    def joint(self, name: str) -> int:
        return self.joints.index(name)

    def mover(self, name: str) -> int:
        return self.movers.index(name)

    def touch(self, a: str, b: str) -> int:
        """Column of the unordered pair (a, b)."""
        return self.touches.index(touch_pair(a, b))

    def columns_of(self, part: SignalIndex) -> dict[str, np.ndarray]:
        """Where the columns of `part`, a subset of this index, are: `Signals` field to int [n]."""
        entities = np.array([self.entity(e) for e in part.entities], np.int64)
        regions = np.array([self.region(r) for r in part.regions], np.int64)
        return {
            "entity_pos": entities,
            "region_pos": regions,
            "region_mat": regions,
            "joint_qpos": np.array([self.joint(j) for j in part.joints], np.int64),
            "touch": np.array([self.touch(*pair) for pair in part.touches], np.int64),
            "entity_vel": np.array([self.mover(e) for e in part.movers], np.int64),
        }


def held_of(pair: tuple[str, str]) -> str | None:
    """What is asked to be held by a pair with `GRIP`; None for a pair of touches."""
    if GRIP not in pair:
        return None
    return pair[0] if pair[1] == GRIP else pair[1]


def borne_of(pair: tuple[str, str]) -> tuple[str, str, float] | None:
    """What is asked to be borne, by what, and its `LEAST_Z`; None for a pair of another kind."""
    for lower, upper in (pair, pair[::-1]):
        for kind, least_z in LEAST_Z.items():
            if lower.startswith(kind):
                return upper, lower.removeprefix(kind), least_z
    return None


def touch_pair(a: str, b: str) -> tuple[str, str]:
    """The unordered pair of two entities, as `SignalIndex.touches` spells it."""
    return (a, b) if a <= b else (b, a)


@dataclasses.dataclass
class Signals(LaneArrays):
    """Signals of `B` lanes; rows of lanes that did not step keep their last values.

    Attributes:
      eef_pos: [B, 3] end-effector site, before the last physics step.
      entity_pos: [B, E, 3] root body positions, before the last physics step.
      entity_now: [B, E, 3] positions after it: the free joint's, or the model's `body_pos` of a fixture.
      region_pos: [B, R, 3] site positions, before the last physics step.
      region_mat: [B, R, 3, 3] site orientations, before the last physics step.
      joint_qpos: [B, J] articulation joints after it.
      touch: bool [B, P] whether the pair had a contact in the last physics step; with `GRIP`, whether a hand held the thing;
        with `SUPPORT` or `PRESS`, whether one bore the other.
      entity_vel: [B, V, 6] velocities of root bodies before the last physics step: m/s in world axes, rad/s in the body's.
    """

    eef_pos: np.ndarray
    entity_pos: np.ndarray
    entity_now: np.ndarray
    region_pos: np.ndarray
    region_mat: np.ndarray
    joint_qpos: np.ndarray
    touch: np.ndarray
    entity_vel: np.ndarray

    @classmethod
    def zeros(cls, lanes: int, index: SignalIndex) -> Signals:
        e, r = len(index.entities), len(index.regions)
        return cls(
            eef_pos=np.zeros((lanes, 3)),
            entity_pos=np.zeros((lanes, e, 3)),
            entity_now=np.zeros((lanes, e, 3)),
            region_pos=np.zeros((lanes, r, 3)),
            region_mat=np.zeros((lanes, r, 3, 3)),
            joint_qpos=np.zeros((lanes, len(index.joints))),
            touch=np.zeros((lanes, len(index.touches)), np.bool_),
            entity_vel=np.zeros((lanes, len(index.movers), 6)),
        )
