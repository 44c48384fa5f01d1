"""RobotAgentBench's tools: where they lead the robot, why they stop, what they compute, and the map that they reveal."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
import pytest

from evals import registry
from evals.robot_agent_bench.geometry import Geometry
from evals.robot_agent_bench.household import build
from evals.robot_agent_bench.navigation_map import CELL, OBSTACLE, raster
from evals.robot_agent_bench.sensing import Homes
from evals.robot_agent_bench.tools import SIZE
from evals.servo import times
from evals.toolsets import toolset_of
from mjx_bench.agent import Picture, Reply, Turn
from mjx_bench.agents.lane import Lane
from mjx_bench.budgets import Decisions
from mjx_bench.control.bimanual import OPEN
from mjx_bench.policy import Observation
from mjx_bench.predicates import goal_index
from mjx_bench.signals import HAND
from mjx_bench.tools import Motion
from tests.agent_plays import Says, call, named, play

WASTE = registry.load_task("robot_agent_bench", 2)
MISSED = named("robot_agent_bench", "shelf_pickup_missed")


@pytest.fixture(scope="module")
def house() -> Iterator[Lane]:
    with Lane(WASTE, "c") as lane:
        yield lane


def state(turn: Turn) -> dict[str, Any]:
    (text,) = [part for part in turn.messages[-1].parts if isinstance(part, str)]
    found: dict[str, Any] = json.loads(text.partition(": ")[2])
    return found


def hand(turn: Turn, side: str, by: tuple[float, float, float]) -> list[float]:
    """The place of a hand, and so much further."""
    found: list[float] = np.add(state(turn)[f"{side}_hand"]["position"], by).tolist()
    return found


def test_tools_stop_where_they_say(house: Lane):
    calls = [
        call("drive", {"distance": -0.15}),
        call("turn", {"angle": 0.3}),
        call("set_gripper", {"arm": "left", "theta": 0.2}),
        call("look", {"yaw": 0.4, "pitch": 0.1}),
        call("set_torso", {"lift": 0.2, "pitch": 0.1}),
        lambda turn: call("move_eef_to", {"arm": "left", "position": hand(turn, "left", (0.05, 0.0, 0.05))}),
        call("fk", {"joints": [0.0] * 18}),
        call("wait", {"seconds": 0.5}),
        call("done", {"reason": "enough"}),
    ]
    agent = Says(*calls)
    played = play(house, agent)
    assert (house.episode.verdict, house.episode.reason) == ("timeout", "declared_done")
    answers, seen = played.feedback(), [state(t) for t in agent.turns]
    assert [a.get("stopped") for a in answers[:6]] == ["reached"] * 6
    back = np.subtract(seen[1]["base"], seen[0]["base"])
    yaw = seen[0]["base"][2]
    assert back[0] * math.cos(yaw) + back[1] * math.sin(yaw) == pytest.approx(-0.15, abs=0.02)
    assert seen[2]["base"][2] - seen[1]["base"][2] == pytest.approx(0.3, abs=0.02)
    assert seen[3]["grippers"][0] == pytest.approx(0.2, abs=0.02)
    assert np.allclose(seen[4]["head"], [0.4, 0.1], atol=0.02)
    assert max(abs(answers[0]["left_m"]), abs(answers[1]["left_rad"]), *np.abs(answers[4]["left"])) <= 0.01
    assert answers[5]["left_m"] < 0.005
    assert answers[5]["left_rad"] < 0.05
    moved = np.subtract(seen[6]["left_hand"]["position"], seen[5]["left_hand"]["position"])
    assert np.allclose(moved, [0.05, 0.0, 0.05], atol=0.01)
    assert (answers[6]["steps"], answers[7]["steps"]) == (0, 10)


def test_an_agent_has_200_replies_and_600_steps_a_call():
    tools = toolset_of(WASTE)
    assert tools.budget == Decisions(200)
    assert tools.program_steps == 600
    brief = " ".join(tools.brief.split())
    assert "You have 200 replies" in brief
    assert "a call runs at most 600 of them" in brief


def asked(house: Lane, name: str, arguments: dict[str, Any]) -> tuple[Motion, Observation]:
    """What a call would do at the start of an episode, and what is observed there."""
    house.begin("test", 0, 195)
    tool, obs = toolset_of(WASTE).tool(name), house.observe()
    motion = tool.use(tool.read(arguments), obs)
    assert isinstance(motion, Motion)
    return motion, obs


def left(house: Lane, name: str, arguments: dict[str, Any]) -> tuple[bool, Any]:
    """Whether a call has reached before its first step what it is asked for, and what it says is left."""
    motion, obs = asked(house, name, arguments)
    said = motion.action(obs, 0)
    assert isinstance(said, np.ndarray) or said == "reached"
    assert motion.residual is not None
    return isinstance(said, str), motion.residual(obs)


@pytest.mark.parametrize(
    ("off", "angle", "there"),
    [
        ((0.0049, 0.0, 0.0), 0.0, True),
        ((0.0, -0.0049, 0.0), 0.049, True),
        ((0.0, 0.0051, 0.0), 0.0, False),
        ((0.003, 0.003, 0.003), 0.0, False),
        ((0.0, 0.0, 0.0), -0.049, True),
        ((0.0, 0.0, 0.0), 0.051, False),
    ],
)
def test_a_hand_is_there_within_5_mm_and_0_05_rad(
    house: Lane, off: tuple[float, float, float], angle: float, there: bool
):
    """One that is led alone; and of two that are led, the one that has farther to go."""
    house.begin("test", 0, 195)
    hands = Geometry(WASTE, (), 1).hands(house.observe().joint_pos[0][:18])
    turn = np.array([math.cos(angle / 2), 0.0, math.sin(angle / 2), 0.0])
    found = there, {"left_m": round(math.hypot(*off), 4), "left_rad": abs(angle)}
    both = {f"{side}_position": at.tolist() for side, (at, _) in hands.items()}
    for side, (at, quat) in hands.items():
        goal = {"position": (at + off).tolist(), "quat_wxyz": times(turn, quat).tolist()}
        assert left(house, "move_eef_to", {"arm": side, **goal}) == found
        two = both | {f"{side}_{name}": value for name, value in goal.items()}
        assert left(house, "move_both_eef_to", two) == found


@pytest.mark.parametrize(("off", "there"), [(0.0099, True), (-0.0099, True), (0.0101, False), (-0.0101, False)])
def test_joints_and_the_base_are_there_within_a_hundredth(house: Lane, off: float, there: bool):
    """Radians, or metres of the lift and of the base's way; the last of the joints that are told something counts."""
    house.begin("test", 0, 195)
    here = house.observe().joint_pos[0][:18]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("move_joints", {"left": [*here[:6], here[6] + off]}),
        ("move_joints", {"left": here[:7].tolist(), "right": [here[7] + off, *here[8:14]]}),
        ("set_torso", {"lift": here[14] + off, "pitch": here[15]}),
        ("set_torso", {"lift": here[14], "pitch": here[15] + abs(off)}),  # it stands upright, and leans no farther back
        ("look", {"yaw": here[16], "pitch": here[17] + off}),
        ("set_gripper", {"arm": "right", "theta": OPEN - abs(off)}),
        ("drive", {"distance": off}),
        ("turn", {"angle": off}),
    ]
    for name, arguments in calls:
        reached, rest = left(house, name, arguments)
        assert reached is there, name
        assert np.abs(next(iter(rest.values()))).max() == pytest.approx(abs(off), abs=5e-4)


@pytest.mark.parametrize("pace", [1.9e-4, 2.1e-4])
@pytest.mark.parametrize("name", ["hand", "joint"])
def test_what_hardly_moves_for_more_than_20_steps_is_stalled(house: Lane, name: str, pace: float):
    """Less than 0.2 mm or mrad in each of them; here the lift moves alone, and the hands with it."""
    house.begin("test", 0, 195)
    joints = house.observe().joint_pos[0].copy()
    at = Geometry(WASTE, (), 1).hands(joints[:18])["left"][0]
    if name == "hand":
        goal = {"arm": "left", "position": [at[0], at[1], at[2] + 0.06], "speed": 0.5}
        motion, obs = asked(house, "move_eef_to", goal)
        assert (motion.steps, motion.spent) == (3 + 100, "timeout"), "its way, and 5 s"
    else:
        motion, obs = asked(house, "set_torso", {"lift": joints[14] + 0.06, "pitch": joints[15]})
    said: list[Any] = []
    for step in range(25):
        now = obs.joint_pos.copy()
        now[0, 14] += step * pace
        said.append(motion.action(dataclasses.replace(obs, joint_pos=now), step))
    # A hand is compared with where it was before the call from the first step on, joints with the step before.
    first = 20 if name == "hand" else 21
    assert [isinstance(v, str) for v in said] == [pace < 2e-4 and step >= first for step in range(25)]
    assert {v for v in said if isinstance(v, str)} <= {"stalled"}


def test_both_hands_a_pose_in_the_world_and_a_slow_joint(house: Lane):
    def world(turn: Turn) -> Reply:
        x, y, z = hand(turn, "right", (0.04, 0.0, 0.0))
        bx, by, yaw = state(turn)["base"]
        at = [bx + math.cos(yaw) * x - math.sin(yaw) * y, by + math.sin(yaw) * x + math.cos(yaw) * y, z]
        return call("move_eef_to", {"arm": "right", "position": at, "frame": "world"})

    def both(turn: Turn) -> Reply:
        up, down = hand(turn, "left", (0.0, 0.0, 0.06)), hand(turn, "right", (0.0, 0.0, -0.06))
        return call("move_both_eef_to", {"left_position": up, "right_position": down})

    def slow(turn: Turn) -> Reply:
        left = [*state(turn)["left_arm"]]
        left[4] += 0.3
        return call("move_joints", {"left": left, "speed": 0.5})

    agent = Says(world, both, slow, call("done", {"reason": "enough"}))
    answers = play(house, agent).feedback()
    assert [a.get("stopped") for a in answers[:3]] == ["reached"] * 3
    seen = [state(t) for t in agent.turns]
    gone = [np.subtract(b["right_hand"]["position"], a["right_hand"]["position"]) for a, b in itertools.pairwise(seen)]
    assert np.allclose(gone[0], [0.04, 0.0, 0.0], atol=0.01)
    assert np.allclose(gone[1], [0.0, 0.0, -0.06], atol=0.01)
    lifted = np.subtract(seen[2]["left_hand"]["position"], seen[1]["left_hand"]["position"])
    assert np.allclose(lifted, [0.0, 0.0, 0.06], atol=0.01)
    assert answers[2]["steps"] >= 0.3 / 0.5 * 20, "no faster than asked for"


def test_what_cannot_be_reached_stops_by_its_limit_and_what_is_too_long_is_cut(house: Lane):
    agent = Says(
        call("move_joints", {"left": [0.0, 3.1, 0.0, 0.0, 0.0, 0.0, 0.0]}),
        lambda turn: call(
            "move_eef_to", {"arm": "right", "position": hand(turn, "right", (0.6, 0.0, 0.4)), "speed": 0.5}
        ),
        call("drive", {"distance": 2.5}),
        call("done", {"reason": "enough"}),
    )
    joints, reach, driven, _ = play(house, agent).feedback()
    assert driven["stopped"] == "stalled", "the table is in the way"
    assert driven["left_m"] > 1.0
    assert joints["stopped"] == "limit"
    assert joints["left"][1] > 1.5
    assert reach["stopped"] == "limit"
    assert reach["left_m"] > 0.1
    for name, arguments in (("step", {"actions": [[0.0] * 22] * 601}), ("wait", {"seconds": 30.05})):
        tool = toolset_of(WASTE).tool(name)
        motion = tool.use(tool.read(arguments), house.observe())
        assert isinstance(motion, Motion)
        assert (motion.steps, motion.spent) == (600, "truncated")


def test_a_ray_goes_through_what_its_pixel_shows(house: Lane):
    house.begin("test", 1, 195)
    obs = house.observe()
    model = Homes(WASTE).model(1)
    data = mujoco.MjData(model)
    data.qpos[:] = obs.qpos[0]
    mujoco.mj_forward(model, data)
    camera = data.camera("head")
    point = data.body("target").xpos
    off = camera.xmat.reshape(3, 3).T @ (point - camera.xpos)
    focal = SIZE / 2 / math.tan(math.radians(float(model.camera("head").fovy[0])) / 2)
    u, v = SIZE / 2 + focal * off[0] / -off[2], SIZE / 2 - focal * off[1] / -off[2]
    assert 0 < u < SIZE > v > 0, "the robot faces the table"
    agent = Says(
        call("pixel_ray", {"camera": "head", "u": u, "v": v}), call("observe"), call("done", {"reason": "enough"})
    )
    ray, observed, _ = play(house, agent, instance=1).feedback()
    x, y, yaw = obs.joint_pos[0][-3:]
    turn = np.array([[math.cos(yaw), -math.sin(yaw), 0.0], [math.sin(yaw), math.cos(yaw), 0.0], [0.0, 0.0, 1.0]])
    origin, way = turn @ ray["origin"] + [x, y, 0.0], turn @ ray["direction"]
    assert np.linalg.norm(np.cross(way, point - origin)) < 1e-3
    assert np.allclose(origin, camera.xpos, atol=1e-3)
    told = observed["cameras"]["head"]
    assert told["focal_px"] == pytest.approx(focal, abs=0.01)
    assert np.allclose(told["position"], ray["origin"])


def test_the_map_shows_what_was_faced_and_nothing_that_moves(house: Lane):
    goes = [call("look", {"yaw": 1.2, "pitch": 0.2}), call("drive", {"distance": -0.3})]
    agent = Says(
        call("get_map"), *goes, call("get_map"), call("get_map"), call("done", {"reason": "enough"}), sees=True
    )
    played = play(house, agent, instance=1)
    first, _, _, second, third, _ = played.feedback()
    assert second["revealed_area_m2"] > first["revealed_area_m2"] > 1.0
    assert second == third, "asking reveals nothing"
    assert len(first["trajectory"]) == 1
    assert len(second["trajectory"]) == 3, "a point each 0.10 m"
    # Cell by cell as the home is, from a model that was built for this instance alone; what is not shown was not faced.
    home = WASTE.extra["instances"].drawn(1).home
    plan = raster(build(home, 60).compile(), home.plan)
    i0, j0 = np.rint((np.array(second["origin_m"]) - plan.origin) / CELL).astype(int)
    shown = np.array([list(row) for row in second["rows"]])[::-1].T
    cells = plan.obstacle[i0 : i0 + shown.shape[0], j0 : j0 + shown.shape[1]]
    assert set(shown.ravel()) == {"?", ".", "#"}
    assert np.array_equal((shown == "#")[shown != "?"], cells[shown != "?"] == OBSTACLE)
    assert (shown != "?").sum() * CELL**2 == pytest.approx(second["revealed_area_m2"], abs=0.01)
    assert (shown != "?").sum() < plan.shown.sum() / 2
    packets = [t.messages[-1] for t in agent.turns]
    labels = [[p.label for p in m.parts if isinstance(p, Picture) and p.camera == "map"] for m in packets]
    assert [bool(found) for found in labels] == [False, True, False, False, True, True]


def test_new_contacts_of_fingers_are_told_by_hand_and_by_nothing_else():
    with Lane(MISSED, "c") as lane:
        agent = Says(
            call("wait", {"seconds": 0.1}),
            lambda turn: call("move_eef_to", {"arm": "right", "position": hand(turn, "right", (0.12, 0.0, 0.0))}),
            call("done", {"reason": "enough"}),
        )
        before, pushed, _ = play(lane, agent, instance=2).feedback()
        touched = lane.episode.signals["touch"]
    assert "right" not in before["fingers_touch"]
    assert all(set(contact) == {"hand", "step"} for contact in pushed["new_contacts"])
    steps = [contact["step"] for contact in pushed["new_contacts"] if contact["hand"] == "right"]
    assert steps == sorted(steps)
    assert 2 < steps[0] <= lane.episode.step
    fingers = goal_index(MISSED.atoms, MISSED.scene).touch(HAND, "target")
    assert all(k >= steps[0] or not on for k, on in enumerate(np.array(touched)[:, fingers], 1)), (
        "the target is one such thing"
    )
