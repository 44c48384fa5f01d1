"""What openpi's LIBERO client sends for an observation, habits included, so that a policy trained on it sees the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.resize import resize_with_pad
from mjx_bench.errors import BenchError
from mjx_bench.policy import Observation

# What `PolicySpec` must ask for.
CAMERAS = ("agentview", "robot0_eye_in_hand")
IMAGE_SIZE = 256

SENT_SIZE = 224

_KEYS = dict(zip(("observation/image", "observation/wrist_image"), CAMERAS, strict=True))


def openpi_inputs(obs: Observation) -> list[dict[str, Any]]:
    """One request a lane.

    Returns:
      B dicts: `observation/image` and `observation/wrist_image`, uint8 [224, 224, 3], mirrored left to right;
      `observation/state`, float64 [8]: end effector position (3, world metres), orientation as an axis times an angle
      (3, radians), finger joint positions (2, metres); `prompt`, what the lane is told.

    Raises:
      BenchError: pictures of another camera or size than the client's.
    """
    return _requests(obs, {key: _sent(obs, camera) for key, camera in _KEYS.items()})


def own_inputs(obs: Observation, *, mirrored: bool) -> list[dict[str, Any]]:
    """The same with pictures as they were rendered, for a server that wants them so; mirrored left to right if told."""
    pictures = {key: obs.images[camera] for key, camera in _KEYS.items()}
    return _requests(obs, {key: p[:, :, ::-1] if mirrored else p for key, p in pictures.items()})


def state_of(obs: Observation) -> np.ndarray:
    """float64 [B, 8], as the client has it: see `openpi_inputs`."""
    rotation = np.array([axis_angle(quat) for quat in obs.eef_quat]).reshape(-1, 3)
    return np.concatenate([obs.eef_pos, rotation, obs.gripper_qpos], axis=1)


def _requests(obs: Observation, pictures: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    state = state_of(obs)
    return [
        {
            **{key: images[lane] for key, images in pictures.items()},
            "observation/state": state[lane],
            "prompt": obs.instruction(lane),
        }
        for lane in range(len(state))
    ]


def _sent(obs: Observation, camera: str) -> np.ndarray:
    """The client turns LIBERO's picture, whose rows run from the bottom up, by 180 degrees: upright, but mirrored."""
    if camera not in obs.images:
        raise BenchError(
            f"openpi's client sends {camera}, and the observation has {', '.join(obs.images) or 'no'} images"
        )
    images = obs.images[camera]
    if images.shape[1:3] != (IMAGE_SIZE, IMAGE_SIZE):
        height, width = images.shape[1:3]
        raise BenchError(f"openpi's client renders {IMAGE_SIZE} pixels a side, not {width} by {height}")
    return resize_with_pad(np.ascontiguousarray(images[:, :, ::-1]), SENT_SIZE, SENT_SIZE)


def axis_angle(quat: np.ndarray) -> np.ndarray:
    """[4] wxyz to [3], as robosuite computes it: a negative w gives an angle beyond half a turn."""
    w = min(max(float(quat[0]), -1.0), 1.0)
    sine = math.sqrt(1.0 - w * w)
    if sine == 0.0:
        return np.zeros(3)
    return quat[1:] * 2.0 * math.acos(w) / sine
