"""Manifests: the released files round-trip, and each rule of the format refuses what it should, in one useful line."""

from __future__ import annotations

import collections
import copy
import hashlib
import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mjx_bench.cases import (
    EVENT_ORDER,
    Change,
    Manifest,
    base_key,
    case_sha256,
    check_case,
    dump_manifest,
    load_manifest,
    manifest_sha256,
    select,
    stable_seed,
)
from mjx_bench.errors import BenchError

RELEASED = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "libero_max" / "benchmark"
CORE = RELEASED / "v1" / "core.json"
PRO = RELEASED / "max8000" / "libero_max_pro_model_comparison_800.json"
needs_released = pytest.mark.skipif(not CORE.exists(), reason="the released manifests are not next to this checkout")

REMOVE = {"operation": "remove_object", "object": "milk_1", "offworld_position_m": [-2.0, 0, -5.0]}
VARIANT = {
    "benchmark": "LIBERO-PRO",
    "category": "swap",
    "bddl_file": "libero_object_swap/a.bddl",
    "init_reference_bddl_file": "libero_object_lan/a.bddl",
    "init_states_file": "libero_object/a.pruned_init",
    "language": "pick up the soup",
    "source_revision": "c86fc3b8",
}


def manifest(n: int = 1) -> dict[str, Any]:
    """A smallest valid manifest of `n` cases."""
    case = {
        "case_id": "case-0",
        "task_suite_name": "libero_object",
        "task_index": 0,
        "init_state_index": 0,
        "policy_seed": 195,
        "timing_bucket": "middle",
        "scenario": {
            "scenario_id": "scenario-0",
            "base_task_id": "libero_object/task_0",
            "seed": 7,
            "change_family": "GEO",
            "change_type": "target_relocation",
            "severity": "medium",
            "trigger": {"type": "on_proximity", "value": "soup_1", "distance_m": 0.18},
            "change": {"operation": "move_object", "object": "soup_1", "delta_position_m": [0.06, 0, 0]},
            "expected_response_mode": "replan",
            "safety_constraints": ["no_simulator_error"],
        },
    }
    cases = []
    for i in range(n):
        one = copy.deepcopy(case)
        one["case_id"], one["scenario"]["scenario_id"] = f"case-{i}", f"scenario-{i}"
        cases.append(one)
    return {
        "benchmark_id": "ours",
        "benchmark_version": "1",
        "protocol": {"arms": ["control", "intervention"], "query_interval": 8, "scoring_track": "physical_completion"},
        "cases": cases,
    }


def put(data: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Sets a dotted path below the first case, or at the top when it starts with '/'; ... deletes the key."""
    node: Any = data if path.startswith("/") else data["cases"][0]
    *parents, last = path.lstrip("/").split(".")
    for key in parents:
        node = node[key]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return data


def message(data: Any) -> str:
    with pytest.raises(BenchError) as e:
        Manifest.read(data, "m.json")
    text = str(e.value)
    assert "\n" not in text
    assert text.startswith("m.json: ")
    return text


# The released files.


@needs_released
@pytest.mark.parametrize(("path", "cases", "bases"), [(CORE, 1335, 753), (PRO, 800, 763)])
def test_released_manifests(path: Path, cases: int, bases: int):
    found = load_manifest(path)
    assert len(found.cases) == cases
    assert dump_manifest(found) == path.read_text()
    assert len({base_key(c) for c in found.cases}) == bases
    assert len({case_sha256(c) for c in found.cases}) == cases


@needs_released
def test_seeds_of_the_released_samplers():
    for case in load_manifest(CORE).cases:
        s = case.scenario
        parts = case.task_suite_name, case.task_index, case.init_state_index, s.change_type, s.draw
        assert stable_seed("libero-max-v1.1", *parts) == s.seed
    for case in load_manifest(PRO).cases:
        s, category = case.scenario, case.substrate_variant["category"]
        parts = category, case.task_suite_name, case.task_index, case.init_state_index, s.change_type, s.draw
        assert stable_seed("libero-max-pro-hard-v1.0", *parts) == s.seed


@needs_released
@pytest.mark.parametrize("path", [CORE, PRO])
def test_selection_of_released_manifests(path: Path):
    everything = load_manifest(path)
    order = [c.case_id for c in everything.cases]
    smaller: set[str] = set()
    for limit in (1, 12, 16, 40, 200):
        chosen = [c.case_id for c in select(everything, limit).cases]
        assert len(chosen) == limit
        assert chosen == sorted(chosen, key=order.index)
        assert smaller <= set(chosen)
        smaller = set(chosen)
    twelve = select(everything, 12).cases
    events = collections.Counter(c.scenario.event for c in twelve)
    assert set(events) == {c.scenario.event for c in everything.cases}
    assert max(events.values()) - min(events.values()) <= 1
    assert len({(c.task_suite_name, c.task_index) for c in twelve}) == 12
    assert len({c.task_suite_name for c in twelve}) == 4


# Our own small manifests.


def test_a_manifest_round_trips():
    data = manifest(3)
    put(data, "substrate_difficulty", None)
    put(data, "substrate_variant", VARIANT)
    put(data, "scenario.setup", [REMOVE])
    put(data, "scenario.randomization", {"sampler": "s", "draw_id": 1, "seed": 3})
    data["cases"][1]["substrate_difficulty"] = 4
    text = json.dumps(data, indent=2, sort_keys=True) + "\n"
    found = Manifest.read(data)
    assert dump_manifest(found) == text
    assert Manifest.read(json.loads(text), "elsewhere") == found
    assert manifest_sha256(Manifest.read(json.loads(text), "elsewhere")) == manifest_sha256(found)
    assert pickle.loads(pickle.dumps(found)) == found
    assert len({*found.cases, *found.cases}) == 3
    with pytest.raises(TypeError):
        found.cases[0].scenario.change.fields["object"] = "x"


# Path of a field, a value that must be refused, and what the message must say.
REFUSED: list[tuple[str, Any, str]] = [
    ("/extra", 1, "unknown field 'extra'"),
    ("/benchmark_id", ..., "benchmark_id is missing"),
    ("/benchmark_version", "", "benchmark_version = ''"),
    ("/cases", [], "at least 1"),
    ("/cases", {}, "cases = {}"),
    ("/protocol", ..., "protocol is missing"),
    ("/protocol.arms", ["intervention", "control"], "protocol.arms"),
    ("/protocol.query_interval", 0, "protocol.query_interval = 0: expected an integer >= 1"),
    ("/protocol.query_interval", True, "protocol.query_interval = True"),
    ("/protocol.query_interval", 8.0, "protocol.query_interval = 8.0"),
    ("/protocol.scoring_track", "physical", "did you mean physical_completion"),
    ("/protocol.profil", "x", "did you mean protocol.profile"),
    ("/protocol.profile", "", "protocol.profile = ''"),
    ("case_id", ..., "cases[0]: case_id is missing"),
    ("case_id", 3, "cases[0]: case_id = 3"),
    (
        "task_suite_name",
        "libero_objects",
        "'case-0': unknown task_suite_name 'libero_objects'; did you mean libero_object",
    ),
    ("task_index", -1, "task_index = -1: expected an integer >= 0"),
    ("init_state_index", "0", "init_state_index = '0'"),
    ("policy_seed", 1.5, "policy_seed = 1.5"),
    ("timing_bucket", "mid", "timing_bucket"),
    ("task_name", "", "task_name = ''"),
    ("substrate_difficulty", 6, "substrate_difficulty = 6: expected null or an integer 1..5"),
    ("dynamic_phase", None, "dynamic_phase = None"),
    ("seed", 1, "unknown field 'seed'"),
    ("scenario", [], "scenario = []"),
    ("scenario.scenario_id", ..., "scenario.scenario_id is missing"),
    ("scenario.base_task_id", "task_0", "scenario.base_task_id = 'task_0'"),
    ("scenario.seed", -3, "scenario.seed = -3"),
    ("scenario.change_family", "GEOM", "did you mean GEO"),
    ("scenario.change_family", "INTENT", "scoring track physical_completion allows only OBS"),
    ("scenario.change_type", "target_move", "unknown scenario.change_type"),
    ("scenario.change_type", "camera_shift", "scenario.change_type = 'camera_shift'"),
    ("scenario.severity", "extreme", "scenario.severity"),
    ("scenario.expected_response_mode", "clarify", "allows only continue, replan"),
    ("scenario.safety_constraints", ["a", "a"], "unique"),
    ("scenario.safety_constraints", ..., "scenario.safety_constraints is missing"),
    ("scenario.randomization", {"sampler": "s", "draw_id": 0}, "scenario.randomization.seed is missing"),
    (
        "scenario.randomization",
        {"sampler": "s", "draw_id": 0, "seed": 1, "x": 1},
        "unknown field 'scenario.randomization.x'",
    ),
    ("scenario.setup", {}, "scenario.setup = {}"),
    ("scenario.setup", [{"operation": "cancel_instruction"}], "changes of the scene only"),
    (
        "scenario.setup",
        [{"operation": "remove_object", "object": "a"}],
        "scenario.setup[0].offworld_position_m is missing",
    ),
    ("scenario.trigger", {"type": "on_proximity", "value": "soup_1"}, "scenario.trigger.distance_m is missing"),
    ("scenario.trigger.distance_m", 0, "scenario.trigger.distance_m = 0: expected a finite number > 0"),
    ("scenario.trigger.distance_m", float("inf"), "distance_m = inf"),
    ("scenario.trigger.value", 3, "scenario.trigger.value = 3: expected an entity name"),
    ("scenario.trigger.type", "on_contact", "unknown scenario.trigger.type"),
    ("scenario.trigger.target_entity", "a", "no such field with trigger type on_proximity"),
    ("scenario.trigger", {"type": "fixed_step", "value": 0}, "expected an integer >= 1"),
    ("scenario.trigger", {"type": "fixed_step", "value": 12}, "expected a multiple of query_interval = 8"),
    (
        "scenario.trigger",
        {"type": "fixed_step", "value": 8, "distance_m": 1},
        "no such field with trigger type fixed_step",
    ),
    ("scenario.trigger", {"type": "after_grasp", "value": "a", "distance_m": 1}, "no such field"),
    ("scenario.trigger", {"type": "before_place", "value": "a"}, "distance_m is missing"),
    ("scenario.trigger", {"type": "progress_fraction", "value": 1.0}, "a number in (0, 1)"),
    ("scenario.trigger", {"type": "progress_fraction", "value": 0.5}, "allows only fixed_step"),
    ("substrate_variant", {**VARIANT, "benchmark": "LIBERO-PLUS"}, "substrate_variant.benchmark"),
    ("substrate_variant", {**VARIANT, "bddl_file": "/a.bddl"}, "substrate_variant.bddl_file = '/a.bddl'"),
    ("substrate_variant", {**VARIANT, "bddl_file": "../a.bddl"}, "relative path"),
    ("substrate_variant", {**VARIANT, "bddl_file": "a/./b.bddl"}, "relative path"),
    ("substrate_variant", {**VARIANT, "init_reference_bddl_file": "a//b.bddl"}, "relative path"),
    ("substrate_variant", {**VARIANT, "init_states_file": "a.init"}, "ends in .pruned_init"),
    (
        "substrate_variant",
        {k: v for k, v in VARIANT.items() if k != "language"},
        "substrate_variant.language is missing",
    ),
    ("substrate_variant", {**VARIANT, "extra": 1}, "unknown field 'substrate_variant.extra'"),
]


@pytest.mark.parametrize(("path", "value", "says"), REFUSED)
def test_a_broken_rule_is_named(path: str, value: Any, says: str):
    text = message(put(manifest(), path, value))
    assert says in text
    if not path.startswith("/") and path != "case_id":
        assert "case 'case-0'" in text


def test_repeated_cases_are_refused():
    data = manifest(2)
    data["cases"][1]["case_id"] = "case-0"
    assert "duplicate case_id, at cases[0] and cases[1]" in message(data)
    data = manifest(2)
    data["cases"][1]["scenario"]["scenario_id"] = "scenario-0"
    assert "same (scenario_id, seed, suite, task_index, init_state_index, policy_seed) as case 'case-0'" in message(
        data
    )
    data["cases"][1]["policy_seed"] = 201  # one scenario may be run with several seeds
    Manifest.read(data)
    data["cases"][1]["scenario"]["severity"] = "high"
    assert "other contents in case 'case-0'" in message(data)


def test_the_intent_track():
    data = put(manifest(), "/protocol.scoring_track", "intent_response")
    assert "allows only INTENT" in message(data)
    data["cases"][0]["scenario"] |= {
        "change_family": "INTENT",
        "change_type": "task_cancel",
        "expected_response_mode": "stop",
        "change": {"operation": "cancel_instruction"},
    }
    assert Manifest.read(data).cases[0].scenario.event == "task_cancel"
    assert "allows only" in message(put(data, "/protocol.scoring_track", "physical_completion"))


def test_fixed_step_follows_the_interval_of_the_run():
    found = Manifest.read(put(manifest(), "scenario.trigger", {"type": "fixed_step", "value": 24}))
    assert found.with_query_interval(12).protocol.query_interval == 12
    with pytest.raises(BenchError, match="multiple of query_interval = 16"):
        found.with_query_interval(16)


# Operations.

MOVE = {"operation": "move_object", "object": "a"}
PATH = {
    "operation": "insert_obstacle",
    "object": "a",
    "path_target": "b",
    "path_fraction": 0.5,
    "lateral_offset_m": -0.0,
}
SPOT = {"object": "a", "relative_to": "b", "offset_m": [0.1, 0, 0], "preserve_initial_z": True}
THEME = {"operation": "set_visual_theme", "rgb_permutation": [2, 0, 1], "rgb_multiplier": [0.7, 1.15, 1.3]}
NOISE = {"operation": "set_sensor_corruption", "noise_std": 24.0, "occlusion_fraction": 0.08, "seed": 5}
CAMERA = {"operation": "shift_camera", "camera": "agentview"}


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "set_lighting", "scale": 0},
        {"operation": "set_lighting"},
        {**CAMERA, "delta_position_m": [0, 0, 0.1], "yaw_degrees": -5, "delta_fovy_degrees": 12.0},
        {**CAMERA, "fovy_degrees": 150},
        {**MOVE, "position_m": [0, 0, 1]},
        {**MOVE, "delta_position_m": [0, 0, 1], "support_entity": "floor", "direction_xy": [1, 0], "distance_m": 0.1},
        {**MOVE, "relative_to": "b", "offset_m": [0, 0, 1]},
        PATH,
        {"operation": "insert_obstacle", **SPOT, "placement_rule": "ring"},
        {"operation": "insert_distractors", "placements": [SPOT, {**SPOT, "object": "c"}], "distractor_count": 2},
        REMOVE,
        THEME,
        NOISE,
        {
            "operation": "replace_instruction",
            "instruction": "stop",
            "alternate_goal": [{"predicate": "on", "arguments": ["a", "b"]}],
        },
    ],
)
def test_operations_are_accepted_and_kept(change: dict[str, Any]):
    made = Change.make(**change)
    assert made.operation == change["operation"]
    assert json.dumps(made.to_json(), sort_keys=True) == json.dumps(change, sort_keys=True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"operation": "set_light"}, "did you mean set_lighting"),
        ({"operation": "set_lighting", "scale": -0.1}, "scale = -0.1: expected a finite number >= 0"),
        ({"operation": "set_lighting", "scale": float("nan")}, "scale = nan"),
        ({"operation": "set_lighting", "scale": True}, "scale = True"),
        ({"operation": "set_lighting", "scal": 1}, "unknown field 'scal'; did you mean scale"),
        (CAMERA, "at least one of"),
        ({**CAMERA, "fovy_degrees": 4}, "a number in [5, 150]"),
        ({**CAMERA, "fovy_degrees": 40, "delta_fovy_degrees": 1}, "not both"),
        ({**CAMERA, "delta_position_m": [0, 0]}, "a list of 3 finite numbers"),
        (MOVE, "one of position_m, delta_position_m, or relative_to with offset_m"),
        ({**MOVE, "relative_to": "b"}, "offset_m is missing: expected both"),
        ({**MOVE, "offset_m": [0, 0, 0]}, "relative_to is missing: expected both"),
        ({**MOVE, "position_m": [0, 0, float("inf")]}, "3 finite numbers"),
        ({**MOVE, "position_m": [0, 0, 0], "preserve_initial_z": 1}, "true or false"),
        ({**PATH, "path_fraction": 1}, "a number in (0, 1)"),
        ({k: v for k, v in PATH.items() if k != "lateral_offset_m"}, "lateral_offset_m is missing"),
        ({**PATH, "offset_m": [0, 0, 0]}, "unknown field 'offset_m'"),
        ({"operation": "insert_distractors", "placements": []}, "at least 1"),
        ({"operation": "insert_distractors", "placements": [SPOT, SPOT]}, "placements[1].object = 'a'"),
        (
            {"operation": "insert_distractors", "placements": [SPOT], "distractor_count": 5},
            "the number of placements, 1",
        ),
        ({**NOISE, "noise_std": 101}, "[0, 100]"),
        ({**NOISE, "occlusion_fraction": 0.51}, "[0, 0.5]"),
        ({**NOISE, "seed": -1}, "an integer >= 0"),
        ({k: v for k, v in NOISE.items() if k != "seed"}, "seed is missing"),
        ({**THEME, "rgb_permutation": [0, 1, 1]}, "a permutation of [0, 1, 2]"),
        ({**THEME, "rgb_permutation": [False, True, 2]}, "a permutation of [0, 1, 2]"),
        ({**THEME, "rgb_multiplier": [1, 1, -1]}, "finite numbers >= 0"),
    ],
)
def test_bad_operations_are_refused(change: dict[str, Any], says: str):
    with pytest.raises(BenchError) as e:
        Change.make(**change)
    assert says in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("change", [{"operation": "insert_obstacle", **SPOT}, PATH])
def test_what_is_inserted_must_have_been_removed(change: dict[str, Any]):
    data = put(put(manifest(), "scenario.change", change), "scenario.change_type", "obstacle_insertion")
    assert "add a remove_object of 'a' to setup" in message(data)
    put(data, "scenario.setup", [{**REMOVE, "object": "a"}])
    Manifest.read(data)


# Files.


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not valid JSON at line 1 column 2"),
        ('{"cases": NaN}', "NaN is not valid JSON"),
        ('{"cases": [], "cases": []}', "key 'cases' appears twice"),
        ("[]", "expected a JSON object"),
        ("[" * 100_000, "not readable as JSON"),
    ],
)
def test_unreadable_files(tmp_path: Path, text: str, says: str):
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(BenchError) as e:
        load_manifest(path)
    assert says in str(e.value)
    assert str(e.value).startswith(str(path))
    assert "\n" not in str(e.value)


def test_missing_and_binary_files(tmp_path: Path):
    with pytest.raises(BenchError, match="No such file"):
        load_manifest(tmp_path / "none.json")
    with pytest.raises(BenchError, match="Is a directory"):
        load_manifest(tmp_path)
    (tmp_path / "b").write_bytes(b"\xff\xfe")
    with pytest.raises(BenchError, match="not UTF-8"):
        load_manifest(tmp_path / "b")


# Identities.


def test_base_key_knows_what_the_base_arm_sees():
    def key(path: str, value: Any) -> str:
        return base_key(Manifest.read(put(manifest(), path, value)).cases[0])

    plain = key("case_id", "case-0")
    assert plain == hashlib.sha256(b'["libero_object",0,0,195,[],null]').hexdigest()[:16]
    for path, value in [
        ("case_id", "other"),
        ("task_name", "x"),
        ("scenario.seed", 8),
        ("scenario.trigger.distance_m", 0.1),
        ("scenario.change.object", "b"),
        ("scenario.setup", []),
    ]:
        assert key(path, value) == plain, path
    for path, value in [
        ("task_suite_name", "libero_goal"),
        ("task_index", 1),
        ("init_state_index", 1),
        ("policy_seed", 1),
        ("scenario.setup", [REMOVE]),
        ("substrate_variant", VARIANT),
    ]:
        assert key(path, value) != plain, path


def test_stable_seed():
    # First 8 hex digits of what `sha256sum` prints for "abc" and for "a|1".
    assert stable_seed("abc") == 0xBA7816BF
    assert stable_seed("a", 1) == 0xDF4504CE


def test_select_takes_turns_between_events():
    data = manifest(6)
    for i, event in enumerate(
        ["camera_shift", "camera_shift", "camera_shift", "camera_shift", None, "illumination_switch"]
    ):
        s = data["cases"][i]["scenario"]
        s["change_type"] = event
        s["change"] = {"operation": "set_lighting"} if i > 3 else {**CAMERA, "yaw_degrees": 1}
        data["cases"][i]["task_index"] = (0, 0, 1, 2, 3, 1)[i]
    del data["cases"][4]["scenario"]["change_type"]
    found = Manifest.read(data)

    def chosen(limit: int) -> str:
        return "".join(c.case_id[-1] for c in select(found, limit).cases)

    # Illumination takes task 1, then camera task 0, then the unnamed one task 3; camera's second turn finds task 2 unused.
    assert [chosen(n) for n in range(1, 7)] == ["5", "05", "045", "0345", "01345", "012345"]
    assert select(found, None) is found
    assert select(found, 100) is found
    for bad in (0, -1, 1.5, True, "3"):
        with pytest.raises(BenchError, match="limit"):
            select(found, bad)
    assert len(EVENT_ORDER) == 8


# Cases against a task.


def fake_task() -> Any:
    scene = SimpleNamespace(entities=dict.fromkeys(["soup_1", "milk_1", "basket_1"]), cameras=("agentview",))
    return SimpleNamespace(
        suite="libero_object", index=0, name="pick_up_the_soup", scene=scene, settle_steps=10, horizon=280
    )


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("init_state_index", 50, "init_state_index = 50: expected 0..49"),
        ("task_name", "pick_up_the_milk", "task 0 of libero_object is 'pick_up_the_soup'"),
        (
            "scenario.base_task_id",
            "libero_object/task_1",
            "'libero_object/task_1' is another task than 'libero_object/task_0'",
        ),
        (
            "scenario.base_task_id",
            "libero_goal/task_0",
            "'libero_goal/task_0' is another task than 'libero_object/task_0'",
        ),
        ("scenario.trigger.value", "soup_2", "scenario.trigger.value: unknown entity 'soup_2'; did you mean soup_1"),
        ("scenario.change.object", "soup", "scenario.change.object: unknown entity 'soup'"),
        (
            "scenario.setup",
            [{"operation": "set_sensor_corruption", "noise_std": 24, "occlusion_fraction": 0.08, "seed": 2**32 - 290}],
            "scenario.setup[0].seed = 4294967006: every control step draws from the next seed, up to 4294967296 here",
        ),
        (
            "scenario.setup",
            [{**REMOVE, "object": "mil_1"}],
            "scenario.setup[0].object: unknown entity 'mil_1'; did you mean",
        ),
        ("scenario.setup", [{**CAMERA, "camera": "frontview", "yaw_degrees": 1}], "unknown camera 'frontview'"),
    ],
)
def test_a_case_is_checked_against_its_task(path: str, value: Any, says: str):
    case = Manifest.read(put(manifest(), path, value)).cases[0]
    with pytest.raises(BenchError) as e:
        check_case(case, fake_task(), 50, "m.json")
    assert says in str(e.value)
    assert str(e.value).startswith("m.json: case 'case-0': ")


def test_a_good_case_passes():
    data = put(manifest(), "scenario.setup", [REMOVE])
    spot = {"object": "milk_1", "relative_to": "soup_1", "offset_m": [0, 0.1, 0], "support_entity": "floor"}
    change = {"operation": "insert_distractors", "placements": [{**spot, "preserve_initial_z": True}]}
    put(put(data, "scenario.change", change), "scenario.change_type", "distractor_burst")
    put(put(data, "init_state_index", 49), "task_name", "pick_up_the_soup")
    check_case(Manifest.read(data).cases[0], fake_task(), 50)
    put(data, "scenario.change.placements", [{**spot, "relative_to": "soup_9"}])
    with pytest.raises(BenchError, match=r"scenario.change.placements\[0\].relative_to: unknown entity"):
        check_case(Manifest.read(data).cases[0], fake_task(), 50)
