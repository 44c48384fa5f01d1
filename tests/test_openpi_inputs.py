"""What we send for an observation against what openpi's LIBERO client makes of LIBERO's own, by its real image tools."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evals import registry
from mjx_bench.errors import BenchError
from mjx_bench.policy import Observation
from policies.openpi_inputs import CAMERAS, IMAGE_SIZE, SENT_SIZE, axis_angle, openpi_inputs
from tests.libero_picture_oracle import SIZE, seen
from tests.pictures import renderer
from tests.scenes import libero_lanes, libero_task

TASK = ("libero_goal", 0)
KEYS = ("observation/image", "observation/wrist_image")


def observation(images: dict[str, np.ndarray], **changes) -> Observation:
    """An observation of a made-up task, as far as the adapter reads it."""
    lanes = len(next(iter(images.values()), np.zeros(1)))
    task = type("Named", (), {"instruction": "put it there"})()
    empty = np.zeros((lanes, 0, 3))
    base = Observation(
        task, np.zeros(lanes), np.zeros((lanes, 3)), np.tile([1.0, 0, 0, 0], (lanes, 1)), np.zeros((lanes, 2)), empty,
        empty, empty, {}, images,
    )  # fmt: skip
    return dataclasses.replace(base, **changes)


def noise(lanes: int, size: int = IMAGE_SIZE) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {camera: rng.integers(0, 256, (lanes, size, size, 3), np.uint8) for camera in CAMERAS}


def client_picture(raw: np.ndarray) -> np.ndarray:
    """The client's own lines: LIBERO's picture, lowest row first, turned by 180 degrees and shrunk by its image tools."""
    tools = pytest.importorskip("openpi_client.image_tools", reason="openpi-client is not installed")
    turned = np.ascontiguousarray(raw[::-1, ::-1])
    return tools.convert_to_uint8(tools.resize_with_pad(turned, SENT_SIZE, SENT_SIZE))


def test_a_request_is_what_the_client_makes_of_libero_s_observation():
    """From our engine and our OpenGL pictures, pixel for pixel; after restoring a state, which LIBERO observes at once."""
    kept = seen(*TASK)
    task, physics = libero_task(*TASK), libero_lanes(*TASK, 1)
    with renderer("gl", task.scene, CAMERAS, IMAGE_SIZE) as gl:
        images = gl.render(physics.poses(np.zeros(1, np.int32)))
    k = physics.kinematics(np.zeros(1, np.int32))
    fields = {f.name: getattr(k, f.name) for f in dataclasses.fields(k)}
    [sent] = openpi_inputs(Observation(task, np.zeros(1, int), images=images, **fields))
    assert sent.keys() == {*KEYS, "observation/state", "prompt"}
    assert SIZE == IMAGE_SIZE
    for key, camera in zip(KEYS, CAMERAS, strict=True):
        expected = client_picture(kept[f"init.{camera}"])
        assert sent[key].shape == (SENT_SIZE, SENT_SIZE, 3)
        assert sent[key].dtype == np.uint8
        np.testing.assert_array_equal(sent[key], expected)
        assert (sent[key] != expected[:, ::-1]).any(), "a picture that tells left from right"
    state = [kept["init.eef_pos"], kept["init.axis_angle"], kept["init.gripper_qpos"]]
    assert sent["observation/state"].shape == (8,)
    np.testing.assert_allclose(sent["observation/state"], np.concatenate(state), rtol=0, atol=1e-12)
    assert sent["prompt"] == task.instruction == "open the middle drawer of the cabinet"


def test_a_prompt_is_what_the_instance_of_its_lane_is_told():
    def prompts(suite: str) -> list[str]:
        task = registry.load_task(suite, 0)
        return [sent["prompt"] for sent in openpi_inputs(observation(noise(3), task=task, instance=np.arange(3)))]

    drinks, push = registry.load_task("robot_agent_bench", 0), registry.load_task("tabletop", 0)
    assert prompts("robot_agent_bench") == [drinks.instruction_of(i) for i in range(3)]
    assert len({*prompts("robot_agent_bench"), drinks.instruction}) == 4
    assert prompts("tabletop") == [push.instruction] * 3


@pytest.mark.parametrize("moment", ["init", "forced", "step"])
def test_axis_angles_are_robosuite_s(moment):
    kept = seen(*TASK)
    wxyz = kept[f"{moment}.eef_quat"][[3, 0, 1, 2]]
    np.testing.assert_array_equal(axis_angle(wxyz), kept[f"{moment}.axis_angle"])


@pytest.mark.parametrize(
    ("wxyz", "expected"),
    [
        ([1, 0, 0, 0], [0, 0, 0]),
        ([1 + 1e-12, 0, 0, 0], [0, 0, 0]),
        ([0, 0, 1, 0], [0, np.pi, 0]),
        ([np.sqrt(0.5), 0, 0, -np.sqrt(0.5)], [0, 0, -np.pi / 2]),
        # Half a turn more than the shortest way: robosuite keeps the quaternion's sign, and so do trained policies.
        ([-np.sqrt(0.5), np.sqrt(0.5), 0, 0], [1.5 * np.pi, 0, 0]),
    ],
)
def test_axis_angles_of_plain_turns(wxyz, expected):
    np.testing.assert_allclose(axis_angle(np.array(wxyz, float)), expected, atol=1e-12)


def test_every_lane_gets_its_own():
    images = noise(3)
    changes = {"eef_pos": np.arange(9.0).reshape(3, 3), "gripper_qpos": np.arange(6.0).reshape(3, 2)}
    sent = openpi_inputs(observation(images, **changes))
    assert len(sent) == 3
    for lane, request in enumerate(sent):
        np.testing.assert_array_equal(request["observation/state"][:3], changes["eef_pos"][lane])
        np.testing.assert_array_equal(request["observation/state"][6:], changes["gripper_qpos"][lane])
        for key, camera in zip(KEYS, CAMERAS, strict=True):
            np.testing.assert_array_equal(request[key], client_picture(images[camera][lane][::-1]))


def test_other_pictures_than_the_client_s_are_refused():
    images = noise(1)
    with pytest.raises(BenchError, match="sends robot0_eye_in_hand, and the observation has agentview images"):
        openpi_inputs(observation({"agentview": images["agentview"]}))
    with pytest.raises(BenchError, match="sends agentview, and the observation has no images"):
        openpi_inputs(observation({}))
    with pytest.raises(BenchError, match="renders 256 pixels a side, not 128 by 128"):
        openpi_inputs(observation(noise(1, 128)))
