"""LIBERO-PRO's varied tasks: a case's files are found, its words reach the policy, and what is not held is said so."""

import collections
import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from evals import registry
from evals.libero import package, tasks
from evals.libero.cache import Cache
from mjx_bench.cases import Manifest, check_case, load_manifest
from mjx_bench.errors import BenchError
from mjx_bench.fields import FrozenMap
from mjx_bench.physics.scene import compile_scene
from mjx_bench.predicates import compile_goal, touches_of
from mjx_bench.task import Atom
from tests.libero_oracle import needs_libero

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "libero_max"
RELEASED = DATA / "benchmark" / "max8000" / "libero_max_pro_model_comparison_800.json"
CATALOGUE = DATA / "extra" / "benchmark" / "max8000" / "pro_task_catalog.json"
needs_released = pytest.mark.skipif(
    not RELEASED.exists(), reason="the released manifests are not next to this checkout"
)
needs_catalogue = pytest.mark.skipif(
    not CATALOGUE.exists(), reason="the release's catalogue is not next to this checkout"
)

TAILS = {"semantic": "lan", "object": "object", "position": "swap", "task": "task"}
REGENERATED = {
    "01_visual_noise_glare",
    "02_camera_view_angle",
    "04_object_texture",
    "05_view_occlusion",
    "06_object_shape",
    "07_initial_pose_position_angle",
}

# One variant of each category, with the words of the released manifest: suite, index, instruction, goal.
VARIANTS = {
    "semantic": (
        "libero_object",
        1,
        "grab cream cheese and put into basket",
        "in(cream_cheese_1, basket_1_contain_region)",
    ),
    "object": (
        "libero_goal",
        4,
        "Put the bowl on the top of the drawer",
        "on(bigger_akita_black_bowl_1, yellow_cabinet_1_top_side)",
    ),
    "position": (
        "libero_spatial",
        2,
        "Pick the akita black bowl from table center and place it on the plate",
        "on(akita_black_bowl_1, plate_1)",
    ),
    "task": ("libero_goal", 9, "Put the cream cheese on the rack", "on(cream_cheese_1, wine_rack_1_top_region)"),
}


def variant(category, suite, index, language):
    """What a released case says of a varied task."""
    path = f"{suite}_{TAILS[category]}/{package.find(suite, index).name}"
    return FrozenMap(
        {
            "benchmark": "LIBERO-PRO",
            "category": category,
            "bddl_file": f"{path}.bddl",
            "init_reference_bddl_file": f"{path}.bddl",
            "init_states_file": f"{path}.pruned_init",
            "language": language,
            "source_revision": "c86fc3b8",
        }
    )


def case(suite, index, substrate_variant=None, moved="plate_1", **fields):
    """A smallest valid case of a task, whose event moves the object `moved`."""
    scenario = {
        "scenario_id": "s",
        "base_task_id": f"{suite}/task_{index}",
        "seed": 0,
        "change_family": "GEO",
        "severity": "high",
        "trigger": {"type": "fixed_step", "value": 8},
        "change": {"operation": "move_object", "object": moved, "delta_position_m": [0.06, 0, 0]},
        "expected_response_mode": "replan",
        "safety_constraints": [],
    }
    row = {
        "case_id": "c",
        "task_suite_name": suite,
        "task_index": index,
        "init_state_index": 0,
        "policy_seed": 195,
        "timing_bucket": "middle",
        "scenario": scenario,
        **fields,
    }
    if substrate_variant is not None:
        row["substrate_variant"] = dict(substrate_variant)
    protocol = {"arms": ["control", "intervention"], "query_interval": 8, "scoring_track": "physical_completion"}
    data = {"benchmark_id": "b", "benchmark_version": "1", "protocol": protocol, "cases": [row]}
    return Manifest.read(data).cases[0]


@needs_libero
@pytest.mark.parametrize("category", VARIANTS)
def test_a_variant_loads_and_can_be_judged(category):
    suite, index, language, goal = VARIANTS[category]
    name = package.find(suite, index).name
    subject = goal.partition("(")[2].partition(",")[0]
    one = case(suite, index, variant(category, suite, index, language), moved=subject, task_name=name)
    task = registry.load_case(one)
    assert (task.suite, task.index, task.name) == (suite, index, name)
    assert task.instruction == language  # letter by letter: neither from the file's name nor in lower case
    assert [str(atom) for atom in task.goal] == [goal]
    scene = compile_scene(task.scene, touches_of(task.goal, task.scene))
    compile_goal(task.goal, task.scene, scene.index)
    states = task.load_init_states()
    assert states.shape == (50, 1 + scene.model.nq + scene.model.nv)
    check_case(one, task, len(states))
    plain = tasks.load_task(suite, index)
    assert task.version != plain.version
    assert task.horizon == plain.horizon
    assert (task.scene.key == plain.scene.key) == (category != "object")  # the models; the others word or place anew


@needs_libero
def test_a_variant_is_told_from_the_same_one_in_other_words_or_with_other_states():
    suite, index, language, _ = VARIANTS["semantic"]
    one = variant("semantic", suite, index, language)
    first = tasks.load_variant(one, suite, index)
    states = FrozenMap({**one, "init_states_file": f"{suite}/{first.name}.pruned_init"})
    words = FrozenMap({**one, "language": "grab it"})
    others = [tasks.load_variant(other, suite, index) for other in (words, states)]
    assert len({first.version, *(task.version for task in others)}) == 3
    assert others[0].instruction == "grab it"
    np.testing.assert_array_equal(others[1].load_init_states(), tasks.load_task(suite, index).load_init_states())


@needs_libero
def test_the_suites_of_variants_are_listed_and_loaded_by_name():
    assert len(registry.variant_suites()) == 16
    assert not set(registry.variant_suites()) & set(registry.suites())
    for suite in registry.variant_suites():
        base = registry.task_table(suite.rpartition("_")[0])
        rows = registry.task_table(suite)
        assert [row["name"] for row in rows] == [row["name"] for row in base]
        assert {row["horizon"] for row in rows} == {base[0]["horizon"]}
    rows = registry.task_table("libero_goal_task")
    assert rows[9]["instruction"] == "put the cream cheese on the rack"
    assert rows[9]["goal"] == ["on(cream_cheese_1, wine_rack_1_top_region)"]
    task = registry.load_task("libero_goal_task", 9)
    assert (task.suite, task.index, task.instruction) == ("libero_goal_task", 9, "put the cream cheese on the rack")
    assert task.goal == (Atom("on", ("cream_cheese_1", "wine_rack_1_top_region")),)
    with pytest.raises(BenchError, match="did you mean libero_object_swap"):
        registry.check_suite("libero_object_swaps")


@needs_libero
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"category": "runtime_object_move"},
            "'runtime_object_move': the installed package does not hold its files, and there is no rule to regenerate it",
        ),
        (
            {"category": "view_occlusion"},
            "bddl_file = .*: for category 'view_occlusion' and task 9 of libero_goal expected '05_view_occlusion/bddl/",
        ),
        (
            {"category": "semantic"},
            "bddl_file = .*: for category 'semantic' and task 9 of libero_goal expected 'libero_g",
        ),
        ({"bddl_file": "libero_goal/put_the_wine_bottle_on_the_rack.bddl"}, "expected 'libero_goal_task/put_the_wine"),
        ({"init_reference_bddl_file": "libero_goal_lan/a.bddl"}, "init_reference_bddl_file = 'libero_goal_lan/a.bddl'"),
        (
            {"init_states_file": "libero_goal_task/a.pruned_init"},
            "init_states_file = .*: the installed package does not",
        ),
    ],
)
def test_a_variant_that_contradicts_itself_is_refused(changes, message):
    suite, index, language, _ = VARIANTS["task"]
    with pytest.raises(BenchError, match=message):
        tasks.load_variant({**variant("task", suite, index, language), **changes}, suite, index)


@needs_libero
def test_initial_states_of_another_scene_are_refused():
    suite, index, language, _ = VARIANTS["semantic"]
    other = {
        **variant("semantic", suite, index, language),
        "init_states_file": "libero_goal/put_the_wine_bottle_on_the_rack.pruned_init",
    }
    with pytest.raises(BenchError, match=r"initial states have 79 numbers, the scene needs 110 .* another scene"):
        tasks.load_variant(other, suite, index).load_init_states()


@needs_libero
def test_a_source_that_is_not_held_is_named():
    suite, index, language, _ = VARIANTS["task"]
    good = variant("task", suite, index, language)
    assert registry.missing_source(case(suite, index)) is None
    assert registry.missing_source(case(suite, index, good)) is None
    moving = case(
        suite,
        index,
        {
            **good,
            "category": "runtime_object_move",
            "bddl_file": "03_runtime_object_move/bddl/libero_goal/a.bddl",
        },
    )
    reason = "needs LIBERO-PRO category 03_runtime_object_move, whose files the installed package does not hold"
    assert registry.missing_source(moving) == reason
    with pytest.raises(BenchError, match=reason):
        registry.load_case(moving)
    unknown = case(suite, index, {**good, "init_states_file": "libero_goal_env/a.pruned_init"})
    assert "libero_goal_env/a.pruned_init" in registry.missing_source(unknown)
    plus = case("libero_spatial", 1200, substrate_category="Light Conditions", substrate_difficulty=3)
    assert registry.missing_source(plus) == (
        "needs LIBERO-Plus category Light Conditions, whose files the installed package does not hold"
    )
    bare = case(suite, index, substrate_category="LIBERO-PRO/task")
    assert registry.missing_source(bare) is None
    with pytest.raises(BenchError, match="'LIBERO-PRO/task' needs a substrate_variant"):
        registry.load_case(bare)


@needs_libero
def test_cases_are_prepared_with_their_own_seeds_and_what_fails_is_listed(tmp_path):
    suite, index, language, _ = VARIANTS["semantic"]
    one = case(suite, index, variant("semantic", suite, index, language))
    other_seed = dataclasses.replace(one, policy_seed=7)
    plain = case("libero_object", 2)
    nowhere = dataclasses.replace(plain, case_id="far", task_index=77)
    elsewhere = case("libero_spatial", 1200, substrate_category="Light Conditions")
    told = []
    cache = Cache(tmp_path)
    failures = tasks.prepare([one, nowhere, other_seed, elsewhere, plain], progress=told.append, cache=cache)
    assert failures == ["case 'far': libero_object has no task 77; valid indices are 0 to 9"]
    assert [line.split(" ")[0] for line in told] == ["libero_object_lan/1", "libero_object/2"]
    task = tasks.load_case(one, cache=cache)
    folder = cache.scene_folder(task.extra["cache_key"]) / "resets"
    assert sorted(path.name for path in folder.iterdir()) == ["195.json", "7.json"]
    told.clear()
    tasks.prepare([one, other_seed, plain], progress=told.append, cache=cache)
    assert told == []


@needs_libero
@needs_released
def test_the_released_manifest_can_run_two_fifths_exactly_and_the_rest_regenerated():
    cases = load_manifest(RELEASED).cases
    assert not any(registry.missing_source(case) for case in cases)
    regenerated = [case for case in cases if tasks.is_regenerated(case.substrate_variant)]
    assert len(regenerated) == 480
    folders = collections.Counter(case.substrate_variant["bddl_file"].partition("/")[0] for case in regenerated)
    assert folders == dict.fromkeys(REGENERATED, 80)
    for case in {case.substrate_category: case for case in regenerated}.values():
        task = registry.load_case(case)
        check_case(case, task, len(task.load_init_states()), str(RELEASED))
        assert task.instruction == case.substrate_variant["language"]


@needs_libero
@needs_catalogue
def test_the_package_holds_the_files_of_the_release():
    rows = [row for row in json.loads(CATALOGUE.read_text())["tasks"] if row["pro_category"] in TAILS]
    assert len(rows) == 160
    for row in rows:
        suite, index = row["source_category"], row["task_index"]
        files = package.find(suite, index)
        assert hashlib.sha256(files.bddl.read_bytes()).hexdigest() == row["bddl_sha256"], row["bddl_file"]
        assert row["bddl_file"] == f"{suite}/{files.name}.bddl"
        assert registry.task_table(suite)[index]["instruction"] == row["language"].lower()


@needs_libero
@pytest.mark.slow
def test_all_160_variants_build(tmp_path):
    cache = Cache(tmp_path)
    wanted = [(row.suite, row.index) for suite in tasks.variant_suites() for row in tasks.task_table(suite)]
    assert len(wanted) == 160
    assert tasks.build(wanted, (195,), cache=cache) == []
    catalogue = json.loads(CATALOGUE.read_text())["tasks"] if CATALOGUE.exists() else []
    facts = {(row["source_category"], row["task_index"]): row for row in catalogue if row["pro_category"] in TAILS}
    released = collections.defaultdict(list)
    for one in load_manifest(RELEASED).cases if RELEASED.exists() else ():
        if registry.missing_source(one) is None:
            released[str(Path(one.substrate_variant["bddl_file"]).parent), one.task_index].append(one)

    seen = {}
    for suite, index in wanted:
        task = tasks.load_task(suite, index, seeds=(195,), cache=cache)
        scene = compile_scene(task.scene, touches_of(task.goal, task.scene))
        compile_goal(task.goal, task.scene, scene.index)
        states = task.load_init_states()
        assert states.shape == (50, 1 + scene.model.nq + scene.model.nv), task.name
        assert set(task.load_reset(195).fixture_pos) == set(task.scene.fixtures)
        seen[task.scene.key] = task
        if row := facts.get((suite, index)):
            assert task.trigger_entity == row["trigger_entity"]
            assert (task.receptacle or task.extra["workspace"]) == (
                row["primary_receptacle"] or task.extra["workspace"]
            )
            assert task.extra["bddl"].objects == row["objects"]
            places = {placed.entity: (placed.on, placed.support) for placed in task.scene.placements}
            for name, place in row["initial_placements"].items():
                assert places[name] == (place["region"], place["support_entity"])
        for one in released.get((suite, index), ()):
            check_case(one, tasks.load_case(one, cache=cache), len(states), str(RELEASED))
    print(f"{len(wanted)} variants, {len(seen)} models, {sum(map(len, released.values()))} released cases checked")
