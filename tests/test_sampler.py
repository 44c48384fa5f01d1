"""Our own cases: valid, balanced, repeatable, and never dropping an object on another."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest

from evals import registry
from evals.libero_max.eligibility import EVENTS, distractors_of, eligible_events
from evals.libero_max.placing import DIRECTIONS, Layout, free_direction, free_offset, free_ring
from evals.libero_max.sampler import SAMPLER, sample_manifest
from mjx_bench.cases import EVENT_ORDER, Case, Change, Manifest, check_case, dump_manifest, stable_seed
from mjx_bench.errors import BenchError
from mjx_bench.task import Atom, Entity, Placement, Task
from tests.scenes import libero_task

CATALOGUE = Path(__file__).resolve().parents[1].parent / "shared/data/libero_max/benchmark/v1/task_catalog.json"


def make_task(
    positions: dict[str, tuple[float, float]],
    *,
    index: int = 0,
    suite: str = "libero_object",
    goal: tuple[Atom, ...] = (Atom("in", ("soup_1", "basket_1_contain_region")),),
    supports: dict[str, str] | None = None,
    fixtures: dict[str, tuple[float, float]] | None = None,
    rows: int = 12,
    yaw: float = 0.0,
) -> Task:
    """A task with objects at `positions`, a little further along x in each later initial state."""
    fixtures = fixtures or {}
    entities = {name: Entity(name, "object", name[:-2], name, f"{name}_joint0") for name in positions}
    entities |= {name: Entity(name, "fixture", name[:-2], name, None) for name in fixtures}
    supports = dict.fromkeys(positions, "floor") | (supports or {})
    scene: Any = SimpleNamespace(
        entities=entities,
        objects=tuple(positions),
        placements=tuple(Placement("on", name, f"{where}_region", where) for name, where in supports.items()),
        cameras=("agentview",),
    )
    states = np.zeros((rows, 1 + 9 + 7 * len(positions) + 9 + 6 * len(positions)))
    for i, (x, y) in enumerate(positions.values()):
        states[:, 10 + 7 * i : 13 + 7 * i] = [x, y, 0.03]
        states[:, 10 + 7 * i] += 0.001 * np.arange(rows)
        states[:, 13 + 7 * i] = 1
    poses = {name: np.array([*xy, 0.9]) for name, xy in fixtures.items()}
    turned = dict.fromkeys(fixtures, np.array([np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]))
    reset: Any = SimpleNamespace(fixture_pos=poses, fixture_quat=turned)
    return Task(
        suite=suite,
        index=index,
        name=f"task_{index}",
        version="1",
        instruction="",
        scene=scene,
        goal=goal,
        objects_of_interest=tuple(positions)[:2],
        horizon=280,
        control_hz=20,
        substeps=25,
        settle_steps=10,
        settle_action=(0.0,) * 6 + (-1.0,),
        load_init_states=lambda: states,
        load_reset=lambda seed: reset,
    )


# Roughly LIBERO's floor: the target in a corner, the basket on the other side, five others between.
FLOOR = {
    "soup_1": (-0.12, -0.24),
    "basket_1": (0.0, 0.25),
    "dressing_1": (0.05, -0.10),
    "cheese_1": (-0.15, 0.06),
    "milk_1": (0.10, -0.20),
    "sauce_1": (0.15, 0.03),
    "butter_1": (-0.20, -0.08),
}


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return [make_task(FLOOR, index=i) for i in range(6)]


def moved_to(case: Case, task: Task) -> dict[str, np.ndarray]:
    """Object to [2] where the event puts it, at the case's initial state."""
    layout = Layout.of(task, task.load_init_states()[case.init_state_index], case.policy_seed)
    out = {}
    for part in case.scenario.change.parts:
        if "delta_position_m" in part and "object" in part:
            out[part["object"]] = layout.position[part["object"]] + part["delta_position_m"][:2]
        elif "offset_m" in part:
            out[part["object"]] = layout.position[part["relative_to"]] + part["offset_m"][:2]
    return out


def test_a_manifest_of_any_size(tasks: list[Task]):
    for n in (1, 6, 16, 100):
        manifest = sample_manifest(tasks, n, 0)
        assert len(manifest.cases) == n
        assert Manifest.read(json.loads(dump_manifest(manifest)), "again") == manifest
        for case in manifest.cases:
            check_case(case, tasks[case.task_index], 12)
        assert [c.case_id for c in manifest.cases] == sorted(c.case_id for c in manifest.cases)


def test_the_same_seed_gives_the_same_bytes(tasks: list[Task]):
    a = dump_manifest(sample_manifest(tasks, 30, 3))
    assert dump_manifest(sample_manifest(list(tasks), 30, 3)) == a
    assert dump_manifest(sample_manifest(tasks, 30, 4)) != a
    # Which cases are in depends on the seed, what a case says does not.
    by_id = [{c.case_id: c for c in sample_manifest(tasks, 30, seed).cases} for seed in (3, 4)]
    common = by_id[0].keys() & by_id[1].keys()
    assert common
    assert all(by_id[0][name] == by_id[1][name] for name in common)


def test_balance(tasks: list[Task]):
    cases = sample_manifest(tasks, 36, 1).cases
    assert collections.Counter(c.scenario.event for c in cases) == dict.fromkeys(EVENTS, 6)
    assert set(collections.Counter(c.task_index for c in cases).values()) == {6}
    assert set(collections.Counter((c.scenario.event, c.scenario.draw) for c in cases).values()) == {3}


def test_every_case_is_as_the_format_says(tasks: list[Task]):
    severity = {"target_relocation": ("medium", "high"), "receptacle_relocation": ("medium", "high")}
    family = dict(zip(EVENT_ORDER, ("OBS",) * 4 + ("GEO", "GEO", "CLUTTER", "OBSTACLE"), strict=True))
    options: dict[str, Any] = {"policy_seed": 201, "query_interval": 5, "init_states": [2, 7], "events": EVENT_ORDER}
    cases = sample_manifest(tasks, 160, 0, **options).cases
    assert {(c.scenario.event, c.scenario.draw) for c in cases} == set(itertools.product(EVENT_ORDER, (0, 1)))
    for case in cases:
        s = case.scenario
        event, draw = s.event, s.draw
        assert draw is not None
        assert case.case_id == f"libero_object-t{case.task_index:02d}-i{case.init_state_index}-{event}-d{draw}-p201"
        assert s.scenario_id == case.case_id.removesuffix("-p201")
        assert s.seed == stable_seed(SAMPLER, "libero_object", case.task_index, case.init_state_index, event, draw)
        assert dict(s.randomization) == {"sampler": "mjx-bench-plain-v1", "draw_id": draw, "seed": s.seed}
        assert (s.trigger.type, s.trigger.value, s.trigger.distance_m) == ("on_proximity", "soup_1", 0.18)
        assert (s.change_family, s.severity) == (family[event], severity.get(event, ("high", "high"))[draw])
        assert s.expected_response_mode == ("replan" if s.change_family in ("GEO", "OBSTACLE") else "continue")
        assert case.init_state_index in (2, 7)
        fields = s.change.to_json()
        if event == "illumination_switch":
            assert fields["scale"] == (0.2, 1.8)[draw]
        elif event == "camera_shift":
            assert (fields["yaw_degrees"], fields["delta_fovy_degrees"]) == ((18.0, 12.0), (-22.0, -12.0))[draw]
            assert fields["delta_position_m"] == ([0.06, 0.0, 0.02], [-0.06, 0.03, 0.0])[draw]
        elif event == "visual_theme_switch":
            assert fields["rgb_permutation"] == ([2, 0, 1], [1, 2, 0])[draw]
            assert fields["rgb_multiplier"] == ([0.7, 1.15, 1.3], [1.25, 0.7, 1.1])[draw]
        elif event == "sensor_noise_onset":
            assert (fields["noise_std"], fields["occlusion_fraction"]) == ((24.0, 0.08), (36.0, 0.16))[draw]
            assert fields["seed"] == s.seed
        elif s.change.operation == "move_object":
            assert fields["object"] == ("soup_1" if event == "target_relocation" else "basket_1")
            assert np.linalg.norm(fields["delta_position_m"]) == pytest.approx((0.06, 0.12)[draw], abs=1e-7)
            assert fields["delta_position_m"][2] == 0
        elif event == "obstacle_insertion":
            assert fields["object"] == ("butter_1", "cheese_1")[draw]
            assert fields["relative_to"] == "soup_1"
            assert np.linalg.norm(fields["offset_m"]) == pytest.approx(0.14)
            assert s.setup[0].to_json() == {
                "operation": "remove_object",
                "object": fields["object"],
                "offworld_position_m": [-2.0, 0.0, -5.0],
            }
        else:
            assert len(fields["placements"]) == fields["distractor_count"] == 5
            assert [step.fields["object"] for step in s.setup] == [p["object"] for p in fields["placements"]]
            assert s.setup[4].fields["offworld_position_m"] == (-2.8, 0.0, -5.0)
            for p in fields["placements"]:
                assert 0.09 <= np.linalg.norm(p["offset_m"]) <= 0.17


def test_nothing_is_put_on_anything(tasks: list[Task]):
    seen = set()
    for case in sample_manifest(tasks, 200, 0, events=EVENTS[2:]).cases:
        task = tasks[case.task_index]
        layout = Layout.of(task, task.load_init_states()[case.init_state_index], 195)
        spots = moved_to(case, task)
        removed = [step.fields["object"] for step in case.scenario.setup or ()]
        others = layout.without([*removed, *spots]).position
        assert spots
        for name, spot in spots.items():
            for other, pos in [*others.items(), *((n, p) for n, p in spots.items() if n != name)]:
                close = other == "soup_1" or case.scenario.event == "distractor_burst"
                assert np.linalg.norm(spot - pos) >= (0.09 if close else 0.12), (case.case_id, name, other)
        seen.add(case.scenario.event)
    assert seen == set(EVENTS[2:])


def test_events_younger_than_version_1_are_drawn_by_name_only(tasks: list[Task]):
    assert {c.scenario.event for c in sample_manifest(tasks, 60, 0).cases} == set(EVENTS)
    young = sample_manifest(tasks, 8, 0, events=["sensor_noise_onset", "visual_theme_switch"]).cases
    assert {c.scenario.event for c in young} == set(EVENT_ORDER) - set(EVENTS)
    for case in young:
        check_case(case, tasks[case.task_index], 12)


def layout(objects: dict[str, tuple[float, float]], **more: Any) -> Layout:
    task = make_task(objects, **more)
    return Layout.of(task, task.load_init_states()[0], 195)


def test_a_layout_reads_the_initial_state():
    found = layout({"plate_1": (0.1, -0.2), "b_1": (-0.3, 0.4)}, fixtures={"flat_stove_1": (0.5, 0.6)}, yaw=np.pi / 2)
    np.testing.assert_allclose(found.position["b_1"], [-0.3, 0.4])
    assert found.radius == {"plate_1": 0.073, "b_1": 0.06}
    np.testing.assert_allclose([found.low, found.high], [[-0.3, -0.2], [0.1, 0.4]])
    (stove,) = found.fixtures
    # Turned by 90 degrees, its box is x 0.4 .. 0.6, y 0.55 .. 0.85.
    for spot, distance in [
        ((0.5, 0.85), 0),
        ((0.5, 0.95), 0.1),
        ((0.5, 0.45), 0.1),
        ((0.7, 0.7), 0.1),
        ((0.9, 1.25), 0.5),
    ]:
        assert stove.distance(np.array(spot)) == pytest.approx(distance, abs=1e-12)


def test_the_direction_is_free_and_repeatable():
    def directions(found: Layout, distance: float) -> set[Any]:
        return {free_direction(found, "soup_1", distance, seed) for seed in range(20)}

    # In a row along x with a neighbour on either side, the middle one can only leave sideways; the box is 0.4 high.
    around = {"soup_1": (0.0, 0.0), "a_1": (0.13, 0.0), "b_1": (-0.13, 0.0), "c_1": (0.0, 0.2), "d_1": (0.0, -0.2)}
    assert directions(layout(around), 0.06) == {(0.0, 1.0), (0.0, -1.0)}
    assert free_direction(layout(around), "soup_1", 0.06, 4) == free_direction(layout(around), "soup_1", 0.06, 4)
    # 12 cm further every spot is too near to something.
    assert directions(layout(around), 0.12) == {None}
    # Wider things need more room, and fixtures have boxes.
    wide = {"wooden_tray_1" if name == "d_1" else name: pos for name, pos in around.items()}
    assert directions(layout(wide), 0.06) == {(0.0, 1.0)}
    assert directions(layout(around, fixtures={"desk_caddy_1": (0.0, 0.34)}), 0.06) == {(0.0, -1.0)}
    # Nothing leaves the box around the objects by more than the margin: a lone pair along x may move along it only.
    assert directions(layout({"soup_1": (0.0, 0.0), "basket_1": (1.0, 0.0)}), 0.12) == {(1.0, 0.0)}
    assert len(DIRECTIONS) == 8


def test_a_receptacle_in_a_crowd_need_only_be_clear():
    """No gripper closes around it; where the spots with LIBERO's spacing run out, those that are clear are taken."""
    crowd = {"ketchup_1": (0.0, 0.0), "milk_1": (0.15, 0.0), "wine_bottle_1": (-0.15, 0.0)}

    def directions(found: Layout, grasped: str | None) -> set[Any]:
        return {free_direction(found, "ketchup_1", 0.06, seed, grasped=grasped) for seed in range(20)}

    assert directions(layout(crowd), None) == {None}
    # Towards the milk there is no room for a gripper around it.
    away = {d for d in DIRECTIONS if d[0] < 0}
    assert directions(layout(crowd), "milk_1") == away
    roomy = crowd | {"milk_1": (0.3, 0.0), "wine_bottle_1": (-0.3, 0.0)}
    assert directions(layout(roomy), "milk_1") == directions(layout(roomy), None), "not where there is room"
    # Drawers in the way count if the task opens them.
    cabinet: dict[str, Any] = {"fixtures": {"white_cabinet_1": (-0.06, 0.2)}}
    assert directions(layout(crowd, **cabinet), "milk_1") == away
    opens = (Atom("on", ("milk_1", "ketchup_1")), Atom("open", ("white_cabinet_1_top_region",)))
    assert directions(layout(crowd, **cabinet, goal=opens), "milk_1") == {None}


def test_the_offset_turns_only_when_it_must():
    def offset(**others: tuple[float, float]) -> Any:
        around = {"soup_1": (0.0, 0.0), "box_1": (0.4, 0.4), "p_1": (-0.4, -0.4), **others}
        return free_offset(layout(around), "box_1", "soup_1", (0.14, 0.0))

    assert offset() == ((0.14, 0.0), 0)
    assert offset(a_1=(0.2, 0.0)) == ((0.0, 0.14), 90)
    assert offset(a_1=(0.2, 0.0), b_1=(0.0, 0.2)) == ((0.0, -0.14), 270)
    assert offset(a_1=(0.2, 0.0), b_1=(0.0, 0.2), c_1=(0.0, -0.2)) == ((-0.14, 0.0), 180)
    assert offset(a_1=(0.2, 0.0), b_1=(0.0, 0.2), c_1=(0.0, -0.2), d_1=(-0.2, 0.0)) is None


def test_a_rotated_obstacle_says_so():
    blocked = make_task(FLOOR | {"basket_1": (0.06, -0.24)})
    cases = sample_manifest([blocked], 8, 0, events=["obstacle_insertion"]).cases
    rules = {(c.scenario.draw, c.scenario.change.fields["placement_rule"]) for c in cases}
    assert (1, "target_support_approach_ring") in rules
    assert any(rule.startswith("target_support_approach_ring_rotated_") for draw, rule in rules if draw == 0)


def test_the_first_ring_is_the_formats_own():
    """With room for everything, the draw is exactly: shuffle, take five, phase, one radius each."""
    names = ["butter_1", "cream_cheese_1", "ketchup_1", "milk_1", "orange_juice_1", "tomato_sauce_1"]
    corners = {"a_1": (1.0, 1.0), "b_1": (-1.0, -1.0)}
    room = layout({"alphabet_soup_1": (0.0, 0.0), **corners, **dict.fromkeys(names, (0.5, 0.5))})
    at_once = 0
    for seed in range(40):
        rng = random.Random(seed)
        order = list(names)
        rng.shuffle(order)
        phase = rng.uniform(0, 2 * math.pi)
        want = {}
        for i, name in enumerate(order[:5]):
            radius = rng.uniform(0.09, 0.17)
            angle = phase + i * 2 * math.pi / 5
            want[name] = [round(radius * math.cos(angle), 8), round(radius * math.sin(angle), 8)]
        got = free_ring(room, "alphabet_soup_1", names, 5, seed)
        assert got is not None
        assert min(map(np.linalg.norm, got.values())) >= 0.09
        if list(got) == list(want):
            np.testing.assert_array_equal(list(got.values()), list(want.values()))
            at_once += 1
    assert at_once > 20


def test_no_ring_where_there_is_no_room():
    crowded = {"soup_1": (0.0, 0.0), **{f"x{i}_1": (0.12 * x, 0.12 * y) for i, (x, y) in enumerate(DIRECTIONS)}}
    names = ["a_1", "b_1", "c_1", "d_1", "e_1"]
    assert free_ring(layout(crowded | dict.fromkeys(names, (0.4, 0.4))), "soup_1", names, 5, 0) is None


def test_eligibility():
    def events(**changes: Any) -> set[str]:
        return set(eligible_events(make_task(FLOOR, **changes)))

    every = set(EVENTS)
    assert events() == every
    # The target in a drawer: it cannot be moved on a plane, and nothing stands beside it.
    assert events(supports={"soup_1": "cabinet_1"}) == every - {
        "target_relocation",
        "distractor_burst",
        "obstacle_insertion",
    }
    assert events(supports={"basket_1": "cabinet_1"}) == every - {"receptacle_relocation"}
    assert events(supports={"milk_1": "kitchen_table"}) == every - {"distractor_burst"}
    # No movable subject: the stove is the trigger, and pictures are all that can change.
    stove = {"fixtures": {"stove_1": (0.6, 0.6)}, "goal": (Atom("turnon", ("stove_1",)),)}
    assert events(**stove) == {"illumination_switch", "camera_shift"}
    assert distractors_of(make_task(FLOOR)) == ["butter_1", "cheese_1", "dressing_1", "milk_1", "sauce_1"]


@pytest.mark.skipif(not CATALOGUE.exists(), reason="the released task catalogue is not next to this checkout")
def test_eligibility_of_the_forty_base_tasks():
    """Counts of section 1.6, but one obstacle: in `libero_spatial` 4 the target lies in a drawer, which has no plane."""
    counts: collections.Counter[str] = collections.Counter()
    for row in json.loads(CATALOGUE.read_text())["tasks"]:
        fixtures = {n: Entity(n, "fixture", c, n, None) for n, c in row["fixtures"].items() if "table" not in c}
        entities = {n: Entity(n, "object", c, n, n) for n, c in row["objects"].items()} | fixtures
        placements = tuple(
            Placement(p["predicate"].lower(), name, p["region"], p["support_entity"])
            for name, p in row["initial_placements"].items()
        )
        scene: Any = SimpleNamespace(entities=entities, objects=tuple(row["objects"]), placements=placements)
        task = dataclasses.replace(
            make_task(FLOOR),
            scene=scene,
            goal=tuple(Atom(g["predicate"].lower(), tuple(g["arguments"])) for g in row["goal_relations"]),
            objects_of_interest=tuple(row["objects_of_interest"]),
        )
        assert task.trigger_entity == row["trigger_entity"]
        counts.update(eligible_events(task))
    assert counts == {
        "illumination_switch": 40,
        "camera_shift": 40,
        "target_relocation": 33,
        "receptacle_relocation": 27,
        "distractor_burst": 12,
        "obstacle_insertion": 33 - 1,
    }


def test_events_that_no_task_can_have_are_left_out_unless_asked_for():
    lone = [make_task({"soup_1": (0.0, 0.0), "basket_1": (0.3, 0.3)})]
    events = {c.scenario.event for c in sample_manifest(lone, 20, 0).cases}
    assert events == {"illumination_switch", "camera_shift", "target_relocation", "receptacle_relocation"}
    with pytest.raises(BenchError, match="'obstacle_insertion': none of the 1 task"):
        sample_manifest(lone, 2, 0, events=["camera_shift", "obstacle_insertion"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n": 0}, "n = 0: expected an integer >= 1"),
        ({"n": 2.0}, "n = 2.0"),
        ({"seed": -1}, "seed = -1"),
        ({"policy_seed": True}, "policy_seed = True"),
        ({"tasks": []}, "no tasks to sample from"),
        ({"events": ["camera_shifts"]}, "did you mean camera_shift"),
        ({"events": ["target_removal"]}, "unknown event"),
        ({"init_states": range(5, 13)}, "init_states = 5..12: libero_object task 0 has 0..11"),
        ({"init_states": []}, "init_states = none"),
        ({"init_states": [-1]}, "init_states = -1..-1"),
        ({"n": 1000, "init_states": [0]}, "only 72 cases can be made from 6 task(s), 1 initial state(s)"),
        ({"query_interval": 0}, "protocol.query_interval = 0"),
    ],
)
def test_bad_requests(tasks: list[Task], change: dict[str, Any], says: str):
    args: dict[str, Any] = {"tasks": tasks, "n": 4, "seed": 0} | change
    with pytest.raises(BenchError) as e:
        sample_manifest(args.pop("tasks"), args.pop("n"), args.pop("seed"), **args)
    assert says in str(e.value)
    assert "\n" not in str(e.value)


# Real scenes.


def penetrations(task: Task, model: mujoco.MjModel, case: Case) -> dict[tuple[str, ...], float]:
    """Contacts that the event makes at the initial state: (moved entity, what it touches) to depth, the support apart."""
    data = mujoco.MjData(model)
    reset = task.load_reset(case.policy_seed)
    for name, pos in reset.fixture_pos.items():
        body = model.body(task.scene.entities[name].body)
        body.pos, body.quat = pos, reset.fixture_quat[name]
    data.qpos[:] = task.load_init_states()[case.init_state_index][1 : 1 + model.nq]
    for step in case.scenario.setup or ():
        data.joint(task.scene.entities[step.fields["object"]].free_joint).qpos[:3] = [0, 0, 50]
    spots = moved_to(case, task)
    height = {n: task.load_init_states()[case.init_state_index][12 + 7 * i] for i, n in enumerate(task.scene.objects)}
    owner = {model.body(e.body).id: name for name, e in task.scene.entities.items()}

    def owner_of(geom: int) -> str:
        body = model.geom_bodyid[geom]
        while body and body not in owner:
            body = model.body_parentid[body]
        return owner.get(body, "support")

    def contacts() -> dict[tuple[str, ...], float]:
        mujoco.mj_forward(model, data)
        found = {}
        for contact in data.contact:
            pair = sorted({owner_of(contact.geom1), owner_of(contact.geom2)})
            if len(pair) == 2 and "support" not in pair and set(pair) & set(spots) and contact.dist < 0:
                found[tuple(pair)] = min(contact.dist, found.get(tuple(pair), 0))
        return found

    before = contacts()
    for name, spot in spots.items():
        data.joint(task.scene.entities[name].free_joint).qpos[:3] = [*spot, height[name]]
    return {pair: depth for pair, depth in contacts().items() if pair not in before}


@pytest.mark.parametrize(("suite", "index"), [("libero_object", 0), ("libero_spatial", 0)])
def test_events_on_real_scenes_touch_nothing(suite: str, index: int):
    task = libero_task(suite, index)
    events = [e for e in eligible_events(task) if e not in ("illumination_switch", "camera_shift")]
    cases = sample_manifest([task], 24, 0, events=events).cases
    assert {c.scenario.event for c in cases} == set(events)
    model = task.scene.load_spec().compile()
    for case in cases:
        check_case(case, task, len(task.load_init_states()))
        assert penetrations(task, model, case) == {}, case.case_id
    # The measurement sees a collision: the target put onto the middle of something else.
    case = next(c for c in cases if c.scenario.event == "target_relocation")
    here = Layout.of(task, task.load_init_states()[case.init_state_index], case.policy_seed).position
    other = next(name for name in here if name != task.trigger_entity)
    delta = [*(here[other] - here[task.trigger_entity]), 0.0]
    change = Change.make("move_object", object=task.trigger_entity, delta_position_m=delta)
    wrong = dataclasses.replace(case, scenario=dataclasses.replace(case.scenario, change=change))
    assert min(penetrations(task, model, wrong).values()) < -0.001


@pytest.mark.parametrize("index", [6, 8])
def test_the_receptacles_of_libero_goal_can_be_relocated_and_touch_nothing(index: int):
    """Its four objects stand closer together than any other suite's: no spot has LIBERO's spacing all around."""
    task = libero_task("libero_goal", index)
    model = task.scene.load_spec().compile()
    cases = sample_manifest([task], 7, 0, events=["receptacle_relocation"]).cases
    for case in cases:
        assert case.scenario.change.fields["object"] == task.receptacle
        assert penetrations(task, model, case) == {}, case.case_id


@pytest.mark.parametrize("suite", ["roboquest", "robotworld", "robot_agent_bench"])
def test_every_event_of_every_task_of_our_own_fits_its_scene(suite: str):
    """Among them a shift of a camera where there is none but the robot's."""
    for row in registry.task_table(suite):
        task = registry.load_task(suite, row["index"])
        drawn = sorted(eligible_events(task))
        cases = sample_manifest([task], 4 * len(drawn), 0, events=drawn).cases
        assert {case.scenario.event for case in cases} == set(drawn)
        for case in cases:
            check_case(case, task, len(task.load_init_states()))


@pytest.mark.skipif(not CATALOGUE.exists(), reason="the released JSON schemas are not next to this checkout")
def test_a_sampled_manifest_satisfies_the_released_schema(tasks: list[Task]):
    jsonschema = pytest.importorskip("jsonschema", reason="needs the extra: dev")
    from referencing import Registry, Resource

    folder = CATALOGUE.parents[2] / "schemas"
    schema, scenario = (json.loads((folder / f"{name}.schema.json").read_text()) for name in ("manifest", "scenario"))
    registry = Registry().with_resource(scenario["$id"], Resource.from_contents(scenario))
    validator = jsonschema.Draft202012Validator(schema, registry=registry)
    data = json.loads(dump_manifest(sample_manifest(tasks, 48, 0, events=EVENT_ORDER)))
    validator.validate(data)
    data["cases"][0]["scenario"]["severity"] = "extreme"
    assert not validator.is_valid(data)
