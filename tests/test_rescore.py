"""Judging records again without a simulator: real runs agree with themselves, and every kind of corruption is found."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mjx_bench.cases import Case
from mjx_bench.errors import BenchError
from mjx_bench.judged import describe, dump_tasks, read_judged
from mjx_bench.predicates import goal_index
from mjx_bench.records import Run, load_run
from mjx_bench.rescore import Mismatch, rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.task import Atom, Entity, Region, Task, Threshold
from tests.test_pairs import HORIZON, MIXED, TARGET, Q, Wanderer, a_case, manifest_of, near, short_task
from tests.test_pairs import run as run_mixed

ROOT = Path(__file__).resolve().parents[1]


def easy(case: Case) -> Task:
    """Reached at once, left again by most random walks; so that `run_on` has something to undo."""
    goal = (Atom("on", (TARGET["libero_object"], "floor_target_object_region")),)
    return dataclasses.replace(short_task(case), goal=goal)


SUCCEEDING = dataclasses.replace(MIXED, cases=MIXED.cases[:5])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Results of episodes that time out, that succeed, and that go on after success."""
    out = tmp_path_factory.mktemp("runs")
    run_mixed(out / "timeout")
    run_mixed(out / "a_a", no_event=True)
    for name, run_on in (("success", False), ("run_on", True)):
        settings = RunSettings("wanderer", 3, Q, threads=1, run_on=run_on)
        run_pairs(SUCCEEDING, settings, out / name, load_task=easy, policy=Wanderer())
    return {path.name: path for path in out.iterdir()}


@pytest.fixture
def copy(folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(folders[name], tmp_path / name))


@pytest.mark.parametrize("name", ["timeout", "a_a", "success", "run_on"])
def test_a_run_agrees_with_itself(folders: dict[str, Path], name: str):
    result = rescore(folders[name])
    assert result.agrees, result
    assert result.arms == len(load_run(folders[name]).records)
    assert result.triggers_unchecked == 0
    assert not result.void


def test_the_runs_hold_what_they_are_for(folders: dict[str, Path]):
    verdicts = {name: {r.verdict for r in load_run(path).records} for name, path in folders.items()}
    assert verdicts == {"timeout": {"timeout"}, "a_a": {"timeout"}, "success": {"success"}, "run_on": {"success"}}
    assert {r.end_step for r in load_run(folders["run_on"]).records} == {HORIZON}
    assert {r.trigger_step for r in load_run(folders["timeout"]).records} > {None, 1, 8}


def edit(folder: Path, arm: str, part: str, **changes: Any) -> str:
    """Changes fields of the one line of `arm` whose case has `part` in its name; returns the case."""
    path = folder / "records.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    [found] = [data for data in lines if data["arm"] == arm and part in data["case_id"]]
    found.update(changes)
    path.write_text("".join(json.dumps(data) + "\n" for data in lines))
    return found["case_id"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"verdict": "success", "success": True}, [("verdict", "success", "timeout"), ("success", True, False)]),
        ({"success_step": 7}, [("success_step", 7, None)]),
        ({"success_end": True}, [("success_end", True, False)]),
        ({"end_step": 29}, [("end_step", 29, HORIZON)]),
        ({"trigger_step": 9}, [("trigger_step", 9, 8)]),
        ({"trigger_step": None}, [("trigger_step", None, 8)]),
        ({"trigger_distance_m": 0.5}, [("trigger_distance_m", 0.5, None)]),
        ({"first_response_step": 12}, [("first_response_step", 12, 8)]),
        ({"common_response_step": None}, [("common_response_step", None, 8)]),
        ({"stale_actions": 3}, [("stale_actions", 3, 0)]),
        ({"n_queries": 3}, [("n_queries", 3, 8)]),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_a_corrupt_field_is_found(copy: Callable[[str], Path], changes: dict[str, Any], expected: list[Any]):
    case_id = edit(folder := copy("timeout"), "dynamic", "-fixed", **changes)
    result = rescore(folder)
    assert list(result.mismatches) == [Mismatch(case_id, "dynamic", *e) for e in expected]
    assert not result.agrees


def test_a_success_called_a_timeout_is_found(copy: Callable[[str], Path]):
    changes = {"verdict": "timeout", "success": False, "success_step": None, "success_end": False}
    case_id = edit(folder := copy("success"), "base", "-i1-", **changes)
    assert {(m.case_id, m.field, m.recomputed) for m in rescore(folder).mismatches} == {
        (case_id, "verdict", "success"),
        (case_id, "success", True),
        (case_id, "success_step", 1),
        (case_id, "success_end", True),
    }


def test_a_trigger_that_is_near_is_measured_again(copy: Callable[[str], Path]):
    case_id = edit(folder := copy("timeout"), "base", "libero_object-i0-target_relocation-p", trigger_step=2)
    assert list(rescore(folder).mismatches) == [Mismatch(case_id, "base", "trigger_step", 2, 1)]


def offset_of(run: Run, arm: str, part: str, array: str) -> int:
    [found] = [r for r in run.records if r.arm == arm and part in r.case_id]
    return found.arrays[array].offset


@pytest.mark.parametrize("array", ["signals.region_mat", "signals.entity_pos", "eef_pos"])
def test_changed_evidence_is_caught_by_its_hash(copy: Callable[[str], Path], array: str):
    folder = copy("timeout")
    offset = offset_of(load_run(folder), "base", "-fixed", array)
    data = bytearray((folder / "arrays.bin").read_bytes())
    data[offset] ^= 1
    (folder / "arrays.bin").write_bytes(bytes(data))
    [damaged] = rescore(folder).damaged
    assert (damaged.arm, "-fixed" in damaged.case_id) == ("base", True)
    assert "do not match their recorded sha256" in damaged.reason


def test_changed_evidence_with_its_hash_changed_too_gives_another_verdict(copy: Callable[[str], Path]):
    folder = copy("success")
    run = load_run(folder)
    record = next(r for r in run.records if r.arm == "base" and "-i1-" in r.case_id)
    ref = record.arrays["signals.entity_pos"]
    moved = np.asarray(run.array(record, "signals.entity_pos")) + 0.5
    with (folder / "arrays.bin").open("r+b") as file:
        file.seek(ref.offset)
        file.write(moved.tobytes())
    refs = {name: r.to_json() for name, r in record.arrays.items()}
    refs["signals.entity_pos"]["sha256"] = hashlib.sha256(moved.tobytes()).hexdigest()
    edit(folder, "base", "-i1-", arrays=refs)
    found = {m.field: m.recomputed for m in rescore(folder).mismatches}
    assert found == {
        "verdict": "timeout",
        "success": False,
        "success_step": None,
        "success_end": False,
        "end_step": HORIZON,
    }


@pytest.mark.parametrize("array", ["signals.region_mat", "actions"])
def test_missing_evidence_is_damage_and_not_agreement(copy: Callable[[str], Path], array: str):
    folder = copy("timeout")
    run = load_run(folder)
    record = next(r for r in run.records if r.arm == "base" and "-fixed" in r.case_id)
    edit(folder, "base", "-fixed", arrays={n: r.to_json() for n, r in record.arrays.items() if n != array})
    [damaged] = rescore(folder).damaged
    assert repr(array) in damaged.reason


def test_voids_are_listed_and_not_judged(copy: Callable[[str], Path]):
    changes = {"verdict": "void", "success": None, "success_end": None, "reason": "state is not finite at step 3"}
    case_id = edit(folder := copy("timeout"), "base", "-fixed", **changes)
    result = rescore(folder)
    assert [dataclasses.astuple(v) for v in result.void] == [(case_id, "base", "state is not finite at step 3")]
    assert result.agrees
    assert result.arms == 2 * len(MIXED.cases) - 1


def test_a_trigger_on_contacts_is_taken_as_recorded(tmp_path: Path):
    name = TARGET["libero_object"]
    case = a_case("illumination_switch", {"type": "before_grasp", "value": name, "distance_m": 10.0})
    other = a_case("illumination_switch", {**near(10.0), "value": "basket_1"}, tag="-other")
    run_mixed(tmp_path, manifest=manifest_of(case, other))
    result = rescore(tmp_path)
    assert result.agrees
    assert (result.arms, result.triggers_unchecked) == (4, 4)


def test_the_command_needs_no_simulator(copy: Callable[[str], Path]):
    folder = copy("timeout")
    code = f"""
import sys
for name in ("mujoco", "jax", "numba", "robosuite", "libero", "evals", "policies"):
    sys.modules[name] = None
from scripts import cli
sys.exit(cli.main(["rescore", {str(folder)!r}, *sys.argv[1:]]))
"""

    def command(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code, *args], cwd=ROOT, capture_output=True, text=True)

    done = command("--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["agrees"] is True
    case_id = edit(folder, "base", "-fixed", success_step=3)
    done = command("--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["mismatches"] == [
        {"case_id": case_id, "arm": "base", "field": "success_step", "recorded": 3, "recomputed": None}
    ]
    text = command()
    assert text.returncode == 1
    assert text.stdout.splitlines() == [
        f"differs: {case_id} base: success_step is 3 in the record, None from its signals",
        f"{2 * len(MIXED.cases)} arms judged again, 1 fields differ",
    ]


def test_a_folder_without_tasks_cannot_be_judged(copy: Callable[[str], Path]):
    folder = copy("timeout")
    (folder / "tasks.json").unlink()
    with pytest.raises(BenchError, match=r"tasks\.json: cannot read"):
        rescore(folder)


def drawer(task: Task) -> Task:
    """A made-up goal of every kind: joints of an entity, joints of a region's parent, inside, on, up."""
    thresholds = {"turnon": Threshold(">=", 0.5), "close": Threshold(">", -0.005)}
    stove = Entity("stove_1", "fixture", "stove", "stove", None, ("knob", "knob_2"), (), thresholds)
    region = Region("stove_1_top", "stove_1", (0.1, 0.2, 0.025), ("knob",))
    box = Region("box", None, (0.1, 0.1, 0.1))
    scene = dataclasses.replace(
        task.scene,
        entities={**task.scene.entities, "stove_1": stove},
        regions={**task.scene.regions, "stove_1_top": region, "box": box},
    )
    name = TARGET["libero_object"]
    goal = [
        ("turnon", "stove_1"),
        ("close", "stove_1_top"),
        ("in", name, "box"),
        ("on", name, "stove_1_top"),
        ("up", name),
    ]
    return dataclasses.replace(task, scene=scene, goal=tuple(Atom(p, tuple(args)) for p, *args in goal))


def test_a_task_comes_back_from_its_description():
    task = drawer(short_task(MIXED.cases[0]))
    back = read_judged(json.loads(json.dumps(describe(task))), "tasks.json: t")
    assert back.index == goal_index(task.goal, task.scene)
    assert (back.goal, back.horizon, back.trigger_entity) == (task.goal, task.horizon, task.trigger_entity)
    for name, region in back.scene.regions.items():
        assert region == task.scene.regions[name]
    for name, entity in back.scene.entities.items():
        whole = task.scene.entities[name]
        assert (entity.kind, entity.joints, entity.thresholds) == (whole.kind, whole.joints, whole.thresholds)
    with pytest.raises(BenchError, match="not scenes that could be simulated"):
        back.scene.load_spec()
    assert dump_tasks({("s", 1, ""): task}) == dump_tasks({("s", 1, ""): task})


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("horizon", 0, "t: horizon = 0"),
        ("goal", [["on"]], "t: goal = [['on']]: expected a list of atoms"),
        ("trigger_entity", "nobody", "t: trigger_entity = 'nobody'"),
        ("extra", 1, "t: unknown field 'extra'"),
        ("regions", {"box": {"parent": None, "half_size_m": [1, 2], "joints": []}}, "regions.box.half_size_m = [1, 2]"),
    ],
)
def test_a_broken_description_is_named(field: str, value: Any, says: str):
    data = describe(drawer(short_task(MIXED.cases[0]))) | {field: value}
    with pytest.raises(BenchError) as error:
        read_judged(data, "t")
    assert says in str(error.value)
