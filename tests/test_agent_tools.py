"""The tools of each benchmark: what they take, where they lead the robot, and in which frame."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import numpy as np
import pytest

from evals import registry
from evals.robotworld.contract import contract
from evals.robotworld.go2 import POSTURE
from evals.robotworld.juggle import ANCHOR
from evals.robotworld.tools import FAR
from evals.servo import addresses, rotation_to, wxyz, xyzw
from evals.toolsets import toolset_of
from mjx_bench.agent import Reply, Turn
from mjx_bench.agents.lane import Lane
from mjx_bench.agents.run import digest_of
from mjx_bench.budgets import Decisions
from mjx_bench.task import Task
from mjx_bench.tools import BadCall, Param
from policies.agents import moving
from policies.agents.scripted import turned_by
from policies.scripted.geometry import quat_to_mat
from tests.agent_plays import DRONE, Says, call, play, quest, robotworld

END = Reply(ending="refused")


def state(turn: Turn) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(turn.messages[-1].text.splitlines()[0].partition(": ")[2])
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


def test_a_refused_value_is_told():
    with pytest.raises(BadCall, match=r"^steps must be an integer, and is 1\.0$"):
        Param("integer", "", 1, 3).read("steps", 1.0)
    with pytest.raises(BadCall, match=r"^steps must be an integer, and is an? dict$"):
        Param("integer", "", 1, 3).read("steps", {(1, 2): 3})
    with pytest.raises(BadCall, match=r"^steps must be within 1 and 3, and is 10{20}"):
        Param("integer", "", 1, 3).read("steps", 10**301)
    with pytest.raises(BadCall, match=r"^x must be within -1e\+300 and 1e\+300, and is 1e\+301$"):
        Param("number", "").read("x", 1e301)
    with pytest.raises(BadCall, match=r"^x must be a finite number, and is Infinity$"):
        Param("number", "").read("x", math.inf)
    with pytest.raises(BadCall, match=r"^lift must be within 0 and 0\.55, and is 0\.6$"):
        Param("number", "", 0.0, 0.55).read("lift", 0.6)


def test_roboquests_brief_says_which_cameras_do_not_ride_on_the_robot():
    aboard = "The cameras are fixed to the robot."
    assert aboard in toolset_of(quest("puzzle_box")).brief
    brief = toolset_of(quest("search_room_open")).brief
    assert "Standing still in the room: agentview; the others are fixed to the robot." in brief
    assert aboard not in brief
    assert "robot's own cameras" not in brief


def test_robotworlds_agents_see_what_their_contracts_name():
    """Numbers alone for drones and the quadruped, the car's own cameras on the courses, the room's for arms at a table."""
    seen = {row["name"]: toolset_of(robotworld(row["name"])) for row in registry.task_table("robotworld")}
    table = ("agentview", "robot0_eye_in_hand")
    assert {name: toolset.cameras for name, toolset in seen.items()} == {
        "drone_payload_hover": (),
        "drone_volleyball_solo_juggle": (),
        "quadruped_push_recovery": (),
        "rw-courtyard": ("front",),
        "rw-reverse-bay": ("front", "rear"),
        "BlockStackingSpecifiedOrderTask": table,
        "WhiteMugInCenterOfTableTask": table,
    }
    for toolset in seen.values():
        assert ("There are no pictures." in toolset.brief) == (not toolset.cameras)
        assert all(f"{name} (" in toolset.brief for name in toolset.cameras)


def test_a_car_looks_behind_by_35_degrees_down_and_ahead_by_9():
    model = robotworld("rw-reverse-bay").scene.load_spec().compile()
    for name, x, way, down in (("front", 0.22, 1.0, 9.0), ("rear", -0.22, -1.0, 35.0)):
        camera = model.camera(name)
        assert np.allclose(camera.pos, [x, 0.0, 0.24])
        axes = quat_to_mat(camera.quat)
        looks = [way * math.cos(math.radians(down)), 0.0, -math.sin(math.radians(down))]
        assert np.allclose(-axes[:, 2], looks, atol=1e-9)
        assert axes[2, 1] > 0.0, "upright"
        assert np.allclose(axes[:, 0], [0.0, -way, 0.0], atol=1e-9), "not mirrored"


def test_rotations_and_their_orders():
    rng = np.random.default_rng(0)
    for _ in range(50):
        now, goal = (q / np.linalg.norm(q) for q in rng.standard_normal((2, 4)))
        turn = rotation_to(now, goal)
        assert np.linalg.norm(turn) <= math.pi + 1e-9
        assert abs(abs(turned_by(now, turn) @ goal) - 1.0) < 1e-12
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


def test_a_skill_test_has_its_own_decisions_and_no_submit():
    for name, submits, decisions in (("puzzle_box", True, 200), ("skill_pick_place", False, 50)):
        toolset = toolset_of(quest(name))
        assert (toolset.budget, toolset.horizon) == (Decisions(decisions), 200 * decisions)
        assert f"your {decisions} decisions" in toolset.brief
        assert ("SUBMIT" in toolset.brief, "has held for 0.5 s" in toolset.brief) == (submits, not submits)


def test_a_quadruped_is_told_of_itself_in_its_own_axes_and_where_the_goal_is():
    task = robotworld("quadruped_push_recovery")
    with Lane(task, "c") as lane:
        play(lane, agent := Says(call("apply_action", {"action": [0.5] * 6 + [-0.5] * 6, "steps": 10}), END))
        obs, told = lane.observe(), state(agent.turns[1])
    turn = quat_to_mat(obs.qpos[0, 3:7])
    assert np.allclose(turn @ told["linear_velocity_m_s"], obs.qvel[0, :3], atol=2e-4)
    assert np.allclose(turn @ told["projected_gravity"], [0.0, 0.0, -1.0], atol=2e-4)
    yaw = math.atan2(turn[1, 0], turn[0, 0])
    away, goal = np.array(told["goal_offset_m"]), list(task.scene.entities).index("goal")
    way = [math.cos(yaw) * away[0] - math.sin(yaw) * away[1], math.sin(yaw) * away[0] + math.cos(yaw) * away[1]]
    assert np.allclose(obs.qpos[0, :2] + way, obs.entity_pos[0, goal, :2], atol=2e-4)
    # The two orders that the brief tells of.
    legs, parts = ("FL", "FR", "RL", "RR"), ("hip", "thigh", "calf")
    assert list(addresses(task))[1:] == [f"{leg}_{part}_joint" for leg in legs for part in parts]
    assert list(task.scene.robot.arm_actuators) == [f"{leg}_{part}" for part in parts for leg in legs]
    offsets = [0.125] * 6 + [-0.125] * 6
    assert np.allclose(told["targets_told"], np.add(POSTURE, offsets), atol=1e-4)


ROWS = registry.task_table("robotworld")


@pytest.mark.parametrize("index", [row["index"] for row in ROWS], ids=[row["name"] for row in ROWS])
def test_the_brief_names_what_a_packet_holds_and_tells_of_what_runs(index: int):
    task = registry.load_task("robotworld", index)
    toolset = toolset_of(task)
    with Lane(task, "c") as lane:
        play(lane, agent := Says(END))
    assert re.findall(r"^- (\w+): .", toolset.brief, re.M) == list(state(agent.turns[0]))
    assert all(f"{camera} (" in toolset.brief for camera in toolset.cameras)
    steps = "one step" if task.substeps == 1 else f"{task.substeps} steps"
    assert f"A control step is 1/{task.control_hz} s, {steps} of physics" in toolset.brief
    assert f"the episode has {task.horizon} control steps" in toolset.brief
    # Of the benchmark's robots and sensors, not of ours.
    given = toolset.brief + json.dumps([tool.schema() for tool in toolset.tools])
    assert not re.findall("robotiq|droid|noise|flange|robot root|source|MuSHR|640x360", given, re.I)


@pytest.mark.parametrize(("name", "back"), [("rw-courtyard", 0.0), ("rw-reverse-bay", -60.0)])
def test_a_car_is_told_of_its_commands_what_they_do(name: str, back: float):
    task = robotworld(name)
    with Lane(task, "c") as lane:
        drives = [call("drive", {"speed": v, "steering": v, "steps": 1}) for v in (1.0, -1.0)]
        play(lane, agent := Says(*drives, END))
    ahead, behind = (state(turn)["servos_told"] for turn in agent.turns[1:])
    assert ahead == [0.531] * 2 + [60.0] * 4
    assert behind == [-0.531] * 2 + [back] * 4
    toolset = toolset_of(task)
    assert "which is 60 rad/s" in toolset.brief
    assert ("A negative speed drives backwards" in toolset.brief) == (back < 0)
    for text in (toolset.brief, toolset.tool("drive").params["steering"].about):
        assert "central angle of 0.488 rad" in text
        assert "0.531 rad" in text


def test_a_position_beyond_any_reach_is_refused_and_charged():
    task = robotworld("WhiteMugInCenterOfTableTask")
    digests: list[str] = []

    def to(name: str, x: float) -> Any:
        def say(turn: Turn) -> Reply:
            digests.append(lane.digest())
            return call(name, {"position": [x, 0.0, 0.0], "steps": 1, "gripper_close": 1.0}) if x else END

        return say

    far = [1e299, -1e299, np.nextafter(FAR, 100.0), -np.nextafter(FAR, 100.0)]
    with Lane(task, "c") as lane:
        agent = Says(*(to("move_robot", float(x)) for x in far), to("move_robot", FAR), to("", 0.0))
        played = play(lane, agent)
    assert [answer["accepted"] for answer in played.feedback()] == [False] * 4 + [True]
    assert [a["error"] for a in played.feedback()[:4]] == [
        f"position[0] must be within -20 and 20, and is {float(x)!r}" for x in far
    ]
    assert [state(turn)["nonaction_total"] for turn in agent.turns] == [0, 1, 2, 3, 4, 4]
    assert len(set(digests[:5])) == 1, "the state is the same to the bit"
    assert digests[5] != digests[4]
    assert all(
        (tool.params["position"].low, tool.params["position"].high) == (-FAR, FAR)
        for tool in toolset_of(task).tools
        if "position" in tool.params
    )


@pytest.mark.parametrize(("task", "moving"), [(DRONE, "payload"), (robotworld("drone_volleyball_solo_juggle"), "ball")])
def test_a_drone_is_told_where_things_are_from_it_and_how_they_move(task: Task, moving: str):
    with Lane(task, "c") as lane:
        play(lane, agent := Says(call("apply_action", {"action": [0.2] * 4, "steps": 20}), END))
        obs, told = lane.observe(), state(agent.turns[1])
    model = task.scene.load_spec().compile()
    at = int(model.joint(task.scene.entities[moving].free_joint).dofadr[0])
    assert np.allclose(told[f"{moving}_velocity_m_s"], obs.qvel[0, at : at + 3], atol=1e-4)
    if moving == "ball":
        assert np.allclose(np.add(told["position_m"], told["anchor_minus_drone_m"]), ANCHOR, atol=2e-4)
    else:
        assert "position_m" not in told, "that the benchmark does not tell"
        free = int(model.joint(task.scene.entities[moving].free_joint).qposadr[0])
        spin = quat_to_mat(obs.qpos[0, free + 3 : free + 7]) @ obs.qvel[0, at + 3 : at + 6]
        assert np.allclose(told["payload_angular_velocity_rad_s"], spin, atol=1e-4)
        assert np.linalg.norm(spin) > 0.01, "it swings"
