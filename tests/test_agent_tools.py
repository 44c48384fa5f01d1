"""The tools of each benchmark: what they take, where they lead the robot, and in which frame."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import jsonschema
import numpy as np
import pytest

from evals import registry
from evals.robot_agent_bench.tools import NEAR
from evals.robotworld.contract import contract
from evals.servo import rotation_to, turned_by, wxyz, xyzw
from evals.toolsets import toolset_of
from mjx_bench.agent import Turn
from mjx_bench.agents.lane import Lane
from mjx_bench.agents.run import digest_of
from mjx_bench.tools import BadCall, Param
from policies.agents import moving
from policies.agents.scripted import turned_by as turned_by_too
from policies.scripted.geometry import quat_to_mat
from tests.agent_plays import Says, call, play, quest


def state(turn: Turn) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(turn.messages[-1].text.partition(": ")[2])
    return found


@pytest.mark.parametrize("suite", ["robotworld", "robot_agent_bench"])
def test_every_task_has_its_benchmarks_tools_and_their_schemas_are_sound(suite: str):
    for row in registry.task_table(suite):
        toolset = toolset_of(registry.load_task(suite, row["index"]))
        for tool in toolset.tools:
            jsonschema.Draft202012Validator.check_schema(tool.schema()["parameters"])
        if suite == "robotworld":
            assert [tool.name for tool in toolset.tools] == list(contract(row["name"]).interface.tools)
        assert digest_of(toolset) == digest_of(toolset_of(registry.load_task(suite, row["index"])))


GOOD_AND_BAD: list[tuple[Param, list[Any], list[Any]]] = [
    (Param("number", "", -1, 1), [0, 1, -1.0, 0.5], [1.01, "1", None, True, [0]]),
    (Param("integer", "", 1, 3), [1, 3], [0, 4, 1.5, "2", False]),
    (Param("numbers", "", -1, 1, length=2), [[0, 1]], [[0], [0, 1, 0], [0, 2], 0, [0, None]]),
    (Param("rows", "", -1, 1, length=2, most=2), [[[0, 1]], [[0, 0], [1, 1]]], [[], [[0]], [[0, 0]] * 3, [0, 0]]),
    (Param("text", "", choices=("left", "right")), ["left"], ["both", 3, None]),
    (Param("text", "", most=3), ["abc", ""], ["abcd", 1]),
    (Param("flag", ""), [True, False], [0, "true", None]),
]


@pytest.mark.parametrize(("param", "good", "bad"), GOOD_AND_BAD, ids=lambda v: getattr(v, "kind", None))
def test_what_is_taken_is_what_the_schema_says(param: Param, good: list[Any], bad: list[Any]):
    schema = jsonschema.Draft202012Validator(param.schema())
    for value in good:
        assert schema.is_valid(value)
        param.read("x", value)
    for value in bad:
        assert not schema.is_valid(value)
        with pytest.raises(BadCall):
            param.read("x", value)


def test_rotations_and_their_orders():
    rng = np.random.default_rng(0)
    for _ in range(50):
        now, goal = (q / np.linalg.norm(q) for q in rng.standard_normal((2, 4)))
        turn = rotation_to(now, goal)
        assert np.linalg.norm(turn) <= math.pi + 1e-9
        for by in (turned_by, turned_by_too):
            assert abs(abs(by(now, turn) @ goal) - 1.0) < 1e-12
        assert np.allclose(wxyz(xyzw(now)), now)
        assert np.allclose(quat_to_mat(wxyz(moving.quat_xyzw(quat_to_mat(now)))), quat_to_mat(now))


@pytest.fixture(scope="module")
def kitchen() -> Iterator[Lane]:
    with Lane(quest("puzzle_box"), "c") as lane:
        yield lane


def test_roboquests_tools_lead_a_robot_that_does_not_face_the_worlds_x(kitchen: Lane):
    places: list[np.ndarray] = []

    def up(turn: Turn) -> Any:
        at = np.array(state(turn)["gripper_position_world_m"])
        quat = wxyz(np.array(state(turn)["gripper_quaternion_xyzw"]))
        places.extend([at + np.array([0.05, 0.02, -0.03]), turned_by(quat, np.array([0.0, 0.0, 0.2]))])
        given = {"position_world_m": places[0].tolist(), "quaternion_xyzw": xyzw(places[1]).tolist()}
        return call("arm", {**given, "gripper": 1.0, "ticks": 60})

    drive = call("base", {"velocity_body": [-0.1, 0.2, 0.0], "ticks": 40})
    turn = call("base", {"velocity_body": [0.0, 0.0, 0.1], "ticks": 20})
    agent = Says(
        up, drive, call("base", {"velocity_body": [0.0] * 3}), turn, call("wait", {"gripper": -1.0}), call("stop")
    )
    play(kitchen, agent)
    start, led, _, driven, turned, opened = (state(t) for t in agent.turns)
    assert abs(kitchen.observe().qpos[0, 2]) > 1.0, "the base's axes are not the world's"
    assert np.allclose(led["gripper_position_world_m"], places[0], atol=0.004)
    assert np.linalg.norm(rotation_to(wxyz(np.array(led["gripper_quaternion_xyzw"])), places[1])) < 0.02
    # Fingers are last, and closed on nothing.
    assert max(map(abs, led["joint_positions"][-2:])) < 0.002
    assert min(map(abs, opened["joint_positions"][-2:])) > 0.03
    yaw = 2.0 * math.atan2(start["base_quaternion_xyzw"][2], start["base_quaternion_xyzw"][3])
    ahead, left = np.array([math.cos(yaw), math.sin(yaw)]), np.array([-math.sin(yaw), math.cos(yaw)])
    way = np.subtract(driven["base_position_world_m"], led["base_position_world_m"])[:2]
    assert np.allclose(way, -0.2 * ahead + 0.4 * left, atol=0.02)
    after = 2.0 * math.atan2(turned["base_quaternion_xyzw"][2], turned["base_quaternion_xyzw"][3])
    assert after - yaw == pytest.approx(0.1, abs=0.02)
    assert (start["step"], opened["simulated_time_s"]) == (0, 8.0)


def test_robot_agent_benchs_tools_stop_where_they_say():
    task = registry.load_task("robot_agent_bench", 0)

    def nearer(turn: Turn) -> Any:
        at = state(turn)["left_hand"]["position"]
        return call("move_eef_to", {"arm": "left", "position": [at[0] + 0.05, at[1], at[2] + 0.05]})

    calls = [
        call("drive", {"distance": -0.15}),
        call("turn", {"angle": 0.3}),
        call("set_gripper", {"arm": "left", "theta": 0.2}),
        call("look", {"yaw": 0.4, "pitch": 0.1}),
        call("set_torso", {"lift": 0.2, "pitch": 0.1}),
        nearer,
        call("fk", {"joints": [0.0] * 18}),
        call("wait", {"seconds": 0.5}),
        call("set_gripper", {"arm": "both", "theta": 0.2}),
        call("done", {"reason": "enough"}),
    ]
    with Lane(task, "c") as lane:
        agent = Says(*calls)
        played = play(lane, agent)
        assert (lane.episode.verdict, lane.episode.reason) == ("timeout", "declared_done")
    answers, seen = played.feedback(), [state(t) for t in agent.turns]
    assert [a.get("stopped") for a in answers[:6]] == ["reached"] * 6
    back = np.subtract(seen[1]["base"], seen[0]["base"])
    yaw = seen[0]["base"][2]
    assert back[0] * math.cos(yaw) + back[1] * math.sin(yaw) == pytest.approx(-0.15, abs=0.02)
    assert seen[2]["base"][2] - seen[1]["base"][2] == pytest.approx(0.3, abs=0.02)
    assert seen[3]["grippers"][0] == pytest.approx(0.2, abs=0.02)
    assert np.allclose(seen[4]["head"], [0.4, 0.1], atol=0.02)
    assert answers[5]["left_m"] < NEAR
    moved = np.subtract(seen[6]["left_hand"]["position"], seen[5]["left_hand"]["position"])
    assert np.allclose(moved, [0.05, 0.0, 0.05], atol=0.01)
    assert (answers[6]["steps"], answers[7]["steps"]) == (0, 10)
    assert answers[8] == {"accepted": False, "steps": 0, "error": "arm must be one of left, right"}
