"""Notices in what a policy observes that the scene has changed at once, so that actions chosen before can be dropped.

Read is what the policy itself reads: its first camera where it sees, the positions of entities where it is told them. A
change is a jump from one control step to the next that the step before it did not make, so that a picture which flickers
from now on counts once.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mjx_bench.policy import Observation

# Above what a robot at work changes in one control step of 50 ms, below what the benchmarks' events do.
JUMP_M = 0.04  # of an entity: 0.8 m/s
FLICKER = 6.0  # grey levels, mean over the picture

_BLOCK = 4  # pixels a side that are averaged: sensor noise and edges count less, and less is remembered


@dataclasses.dataclass(frozen=True)
class Sight:
    """What is remembered of one lane.

    Attributes:
      seen: positions [E, 3], metres, or a picture in blocks [H / 4, W / 4, 3], grey levels.
      jumped: whether it had jumped from the one before.
    """

    seen: np.ndarray
    jumped: bool = False


def sights(obs: Observation) -> list[np.ndarray]:
    """What to compare, of each lane of an observation."""
    if not obs.images:
        return list(obs.entity_pos.copy())
    picture = next(iter(obs.images.values()))
    height, width = (n // _BLOCK * _BLOCK for n in picture.shape[1:3])
    blocks = picture[:, :height, :width].astype(np.float32)
    blocks = blocks.reshape(len(picture), height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK, 3)
    return list(blocks.mean((2, 4)))


def notice(last: Sight | None, now: np.ndarray) -> tuple[Sight, bool]:
    """What to remember, and whether the scene changed at once between `last` and `now`."""
    if last is None:
        return Sight(now), False
    if now.ndim == 2:
        jumped = now.size > 0 and float(np.linalg.norm(now - last.seen, axis=-1).max()) > JUMP_M
    else:
        jumped = float(np.abs(now - last.seen).mean()) > FLICKER
    return Sight(now, jumped), jumped and not last.jumped
