"""Robots as data: which pictures, which state and which actions a model of theirs has, in which order."""

from __future__ import annotations

import dataclasses

import numpy as np

from mjx_bench.errors import unknown_name


@dataclasses.dataclass(frozen=True)
class Adapter:
    """One robot.

    Attributes:
      name: as configurations have it.
      pictures: of the model's three cameras, in the order of `configs.CAMERAS`: the key in a request; None for a camera
        that the robot does not have.
      cameras: the same, as names of a scene's cameras; empty if none of our scenes has this robot.
      state: names of the state's dimensions.
      actions: names of the actions' dimensions.
      relative: (action, state) pairs of dimensions: the model is trained on the difference of the action to the state at
        the time of the query.
      mirrored: pictures of our scenes are mirrored left to right, as LIBERO's client sends them.
      rendered: pixels a side of pictures of our scenes, before they are resized; None for the model's own size.
    """

    name: str
    pictures: tuple[str | None, str | None, str | None]
    state: tuple[str, ...]
    actions: tuple[str, ...]
    cameras: tuple[str, ...] = ()
    relative: tuple[tuple[int, int], ...] = ()
    mirrored: bool = False
    rendered: int | None = None

    def to_model(self, actions: np.ndarray, state: np.ndarray) -> np.ndarray:
        """What the model is trained on: actions [..., T, a] less the state [..., s] where they are relative to it."""
        return self._shifted(actions, state, -1.0)

    def from_model(self, actions: np.ndarray, state: np.ndarray) -> np.ndarray:
        """The robot's actions [..., T, a], from the first ones of the model's [..., T, A]."""
        return self._shifted(actions[..., : len(self.actions)], state, 1.0)

    def _shifted(self, actions: np.ndarray, state: np.ndarray, sign: float) -> np.ndarray:
        out = np.array(actions)
        for action, dimension in self.relative:
            out[..., action] += sign * state[..., None, dimension]
        return out


_PANDA_STATE = (
    *(f"eef_pos_{axis}" for axis in "xyz"),
    *(f"eef_axis_angle_{axis}" for axis in "xyz"),
    "finger_1",
    "finger_2",
)
_OSC = (*(f"eef_delta_{axis}" for axis in "xyz"), *(f"eef_turn_{axis}" for axis in "xyz"), "gripper")
_PANDA_CAMERAS = ("agentview", "robot0_eye_in_hand")

LIBERO = Adapter(
    name="libero",
    pictures=("observation/image", "observation/wrist_image", None),
    state=_PANDA_STATE,
    actions=_OSC,
    cameras=_PANDA_CAMERAS,
    mirrored=True,
    rendered=256,
)

ADAPTERS = {
    adapter.name: adapter
    for adapter in (
        LIBERO,
        # openpi's older pi0_libero.
        dataclasses.replace(LIBERO, name="libero_relative", relative=tuple((i, i) for i in range(6))),
        dataclasses.replace(LIBERO, name="tabletop", mirrored=False, rendered=None),
        Adapter(
            name="roboquest",
            pictures=("observation/image", "observation/wrist_image", "observation/right_image"),
            state=(
                *(f"eef_in_base_{axis}" for axis in "xyz"),
                *(f"eef_in_base_quat_{axis}" for axis in "xyzw"),
                *(f"base_pos_{axis}" for axis in "xyz"),
                *(f"base_quat_{axis}" for axis in "xyzw"),
                "finger_1",
                "finger_2",
            ),
            actions=(*_OSC, "base_forward", "base_left", "base_yaw", "torso", "mode"),
        ),
        Adapter(
            name="agibot_g1",
            pictures=("observation/head_image", "observation/left_wrist_image", "observation/right_wrist_image"),
            state=(
                *(f"left_arm_{i}" for i in range(1, 8)),
                *(f"right_arm_{i}" for i in range(1, 8)),
                *("torso_lift", "waist_pitch", "head_yaw", "head_pitch", "left_gripper", "right_gripper"),
                *("base_x", "base_y", "base_yaw"),
            ),
            actions=(
                *(f"left_arm_{i}" for i in range(1, 8)),
                *(f"right_arm_{i}" for i in range(1, 8)),
                *("torso_lift", "waist_pitch", "head_yaw", "head_pitch", "left_gripper", "right_gripper"),
                *("base_forward", "base_yaw_rate"),
            ),
        ),
    )
}


def named(name: str) -> Adapter:
    """The adapter of this name.

    Raises:
      BenchError: there is none; with the nearest names.
    """
    if name not in ADAPTERS:
        raise unknown_name("robot adapter", name, ADAPTERS)
    return ADAPTERS[name]
