"""Demonstrations of the arm on a base that drives, by the commands: what a frame holds, and that it is what was done."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow.parquet", reason="needs the extra: train")

from evals import registry
from evals.instances import TRAINING
from mjx_bench.checkers import START, judge_of
from mjx_bench.engines import engine_of
from mjx_bench.observe.choice import make_renderer
from mjx_bench.observe.pictures import Pictures
from mjx_bench.task import Task
from mjx_bench.types import Verdict
from policies.mobile.expert import MobileCarry
from scripts import cli
from train.collect.language import stage_of, subtask_of
from train.lerobot.read import open_dataset, read_json
from train.lerobot.schema import DEMONSTRATIONS

SIZE = 32
VIEWS = ("robot0_agentview_left", "robot0_agentview_right", "robot0_eye_in_hand")
TOLD = ["pick up the container", "place the container in the square"]
HERE = np.zeros(1, np.int32)


@pytest.fixture(scope="module")
def task() -> Task:
    """Each instance is told in words of its own, which no skill test of the suite does."""
    found = registry.load_task("roboquest", 1)
    return dataclasses.replace(found, load_instruction=lambda row: f"{found.instruction}, number {row}")


@pytest.fixture(scope="module")
def made(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("demos") / "made"
    command = ["demos", "--suite", "roboquest", "--task", "skill_pick_place", "--episodes", "1", "--lanes", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "load_task", lambda *args: task)
        assert cli.main([*command, "--image-size", str(SIZE), "--out", str(out)]) == 0
    return out


def test_a_frame_has_three_pictures_sixteen_numbers_of_state_and_twelve_of_an_action(made: Path):
    assert cli.main(["dataset", "check", str(made)]) == 0
    dataset = open_dataset(made)
    assert (dataset.robot_type, dataset.fps, len(dataset.episodes)) == ("mobile_panda", 20, 1)
    assert dataset.cameras == tuple(f"observation.images.{view}" for view in VIEWS)
    hand, base = ([f"{part}_{axis}" for axis in ("x", "y", "z", "qx", "qy", "qz", "qw")] for part in ("hand", "base"))
    state, action = dataset.features["observation.state"], dataset.features["action"]
    assert (state.shape, state.names) == ((16,), [*hand, *base, "finger_left", "finger_right"])
    base_numbers = ["base_forward", "base_left", "base_yaw", "torso", "mode"]
    assert (action.shape, action.names[6:]) == ((12,), ["gripper", *base_numbers])
    (length,), columns = dataset.lengths, dataset.columns(0)
    assert columns["observation.state"].shape == (length, 16)
    assert columns["action"].shape == columns["expert_action"].shape == (length, 12)
    assert columns["expert_chunk"].shape == (length, 16, 12)
    largest = np.abs(columns["action"]).max(0)
    assert [largest[:3].max(), largest[3:6].max()] == pytest.approx([0.5, 0.3])  # 0.025 m and 0.15 rad a tick
    assert largest[6:].tolist() == [1, 0, 0, 0, 0, 1], "gripper and mode one way or the other; the base stands"
    np.testing.assert_array_equal(columns["action"], columns["expert_action"], "no errors were asked for")
    assert {dataset.pictures(camera, 0).shape for camera in dataset.cameras} == {(length, SIZE, SIZE, 3)}


def test_a_frame_tells_the_instruction_of_its_instance_and_what_the_program_is_doing(made: Path):
    dataset = open_dataset(made)
    (row,) = read_json(made / DEMONSTRATIONS)["tasks"]
    assert (row["name"], row["failed"]) == ("skill_pick_place", [])
    columns, instance = dataset.columns(0), dataset.episodes[0].extra["instance"]
    assert [instance] == row["instances"] == [TRAINING.start]
    told = {dataset.tasks[i] for i in columns["task_index"]}
    assert told == {"put the container in the orange square on the counter, number 10000"}
    for level in ("stage", "subtask"):
        texts = [dataset.language[f"{level}s"][i] for i in columns[f"{level}_index"]]
        assert list(dict.fromkeys(texts)) == TOLD, level
        assert texts == sorted(texts), "never back to the first"


def test_a_program_says_stage_and_subtask_in_one(task: Task):
    for told, levels in (
        ("open the box: turn the bolt", ("open the box", "turn the bolt")),
        ("wait", ("wait", "wait")),
    ):
        carry = MobileCarry(None, stage=told)
        assert (stage_of(task, carry), subtask_of(task, carry)) == levels


def test_the_actions_lead_from_the_instance_to_success_again_through_the_states_and_pictures(task: Task, made: Path):
    dataset, physics = open_dataset(made), engine_of(task, "c", 1, "mobile_osc", interval=1)
    renderer = read_json(made / DEMONSTRATIONS)["renderer"]
    pictures = Pictures(make_renderer(renderer, task.scene, VIEWS, SIZE, SIZE), task.scene)
    judge = judge_of(task, physics.index)
    assert judge is not None
    columns, instance = dataset.columns(0), dataset.episodes[0].extra["instance"]
    shown = [dataset.pictures(camera, 0).astype(float) for camera in dataset.cameras]
    physics.load(0, task.load_init_states()[instance], task.load_reset(0), task.fields_of(instance))
    for _ in range(task.settle_steps):
        assert physics.control_step(HERE, np.array([task.settle_action])) == {}
    standing, ends = START, []
    for k, action in enumerate(columns["action"]):
        state, now = columns["observation.state"][k].astype(float), physics.kinematics(HERE)
        x, y, yaw = (float(now.articulation[name][0]) for name in task.scene.robot.base_joints)
        c, s = np.cos(yaw), np.sin(yaw)
        hand = [x + c * state[0] - s * state[1], y + s * state[0] + c * state[1], state[2]]
        np.testing.assert_allclose(hand, now.eef_pos[0], atol=1e-6)
        np.testing.assert_allclose(state[7:14], [x, y, 0, 0, 0, np.sin(yaw / 2), np.cos(yaw / 2)], atol=1e-6)
        np.testing.assert_allclose(state[14:], now.gripper_qpos[0], atol=1e-6)
        if k % 80 == 0:
            taken = pictures.take(physics.poses(HERE))
            apart = [[np.abs(film[k] - taken[view][0]).mean() for view in VIEWS] for film in shown]
            assert [int(np.argmin(row)) for row in apart] == [0, 1, 2], "each camera's own"
            assert np.diag(apart).max() < 8.0, apart
        physics.control_step(HERE, action[None].astype(np.float64))
        standing = judge.step(standing, physics.signals, 0)
        ends.append(judge.end(standing, at_horizon=False))
    assert ends == [None] * (len(ends) - 1) + [(Verdict.SUCCESS, "goal")]
    pictures.close()
    physics.close()
