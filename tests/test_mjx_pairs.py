"""Pairs on the engine `jax`: the same records whatever the lanes, replays that arrive, runs that go on, events as on `c`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mjx_bench import film
from mjx_bench.arms import Arms
from mjx_bench.inspection import inspect_case
from mjx_bench.physics.choice import POSED
from mjx_bench.physics.mjx_jax import JaxStepper
from mjx_bench.physics.scene import compile_scene
from mjx_bench.records import Run, load_run
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.types import Arm
from tests.arm_scene import arm_task
from tests.test_mjx_engine import INTERVAL
from tests.test_pairs import Wanderer, at, manifest_of, results

TASK = arm_task()


def a_case(event: str, change: dict[str, Any], trigger: dict[str, Any], init: int, **more: Any) -> dict[str, Any]:
    family = {"illumination_switch": "OBS", "target_relocation": "GEO", "obstacle_insertion": "OBSTACLE"}[event]
    return {
        "case_id": f"arm-i{init}-{event}",
        "task_suite_name": TASK.suite,
        "task_index": TASK.index,
        "init_state_index": init,
        "policy_seed": 0,
        "timing_bucket": "middle",
        "scenario": {
            "scenario_id": f"arm-i{init}-{event}",
            "base_task_id": "tabletop/task_0",
            "seed": init,
            "change_family": family,
            "change_type": event,
            "severity": "high",
            "trigger": trigger,
            "change": change,
            "expected_response_mode": "continue",
            "safety_constraints": [],
            **more,
        },
    }


MOVE = {"operation": "move_object", "object": "ball", "delta_position_m": [0.0, 0.06, 0.0]}
OBSTACLE = {
    "operation": "insert_obstacle",
    "object": "cube",
    "relative_to": "ball",
    "offset_m": [0.14, 0.0, 0.0],
    "preserve_initial_z": True,
}
REMOVED = {"operation": "remove_object", "object": "cube", "offworld_position_m": [-2.0, 0.0, -5.0]}
# The grasp and the approach fire in the middle of a chunk.
CASES = manifest_of(
    a_case("illumination_switch", {"operation": "set_lighting", "scale": 0.2}, at(12), init=0),
    a_case("target_relocation", MOVE, at(12), init=0),
    a_case("target_relocation", MOVE, {"type": "after_grasp", "value": "cube"}, init=1),
    a_case("target_relocation", MOVE, {"type": "on_proximity", "value": "ball", "distance_m": 1.0}, init=2),
    a_case("obstacle_insertion", OBSTACLE, at(12), init=3, setup=[REMOVED]),
)


class Holding(Wanderer):
    """The same walk with closed fingers."""

    def act(self, carries: Any, obs: Any, seeds: np.ndarray) -> tuple[np.ndarray, Any]:
        actions, after = super().act(carries, obs, seeds)
        actions[:, :, 6] = 1.0
        return actions, after


def run(out: Path, backend: str = "jax", **settings: Any) -> Run:
    chosen = RunSettings(**({"policy": "holding", "lanes": 8, "query_interval": INTERVAL, "threads": 1} | settings))
    run_pairs(CASES, dataclasses.replace(chosen, backend=backend), out, load_task=lambda case: TASK, policy=Holding())
    return load_run(out)


@pytest.fixture(scope="module")
def one_tile(tmp_path_factory) -> Run:
    return run(tmp_path_factory.mktemp("one") / "run")


def test_the_header_names_the_engine_the_reason_and_what_its_bits_depend_on(one_tile, tmp_path):
    header = one_tile.header
    assert (header.settings["backend"], header.settings["tile"]) == ("jax", 8)
    assert {"mujoco-mjx", "jax", "jaxlib"} <= set(header.packages)
    assert header.device.endswith("; engine jax, asked for")
    automatic = run(tmp_path / "auto", "auto").header
    assert (automatic.settings["backend"], automatic.settings["tile"]) == ("c", None)
    assert "engine c, on a CPU" in automatic.device


def test_the_room_of_a_program_is_said_before_a_run(tmp_path):
    slots = JaxStepper(compile_scene(TASK.scene, ()), POSED).slots
    for backend, wanted in (("jax", [f"engine jax, 1 scene: contact slots {slots}"]), ("c", [])):
        said: list[str] = []
        settings = RunSettings("holding", lanes=8, query_interval=INTERVAL, threads=1, backend=backend)
        load = {"load_task": lambda case: TASK, "policy": Holding()}
        with pytest.raises(KeyboardInterrupt):
            run_pairs(CASES, settings, tmp_path / backend, **load, progress=interrupt, note=said.append)
        assert said == wanted


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def test_records_do_not_depend_on_the_number_of_tiles_nor_on_workers(one_tile, tmp_path):
    assert len(one_tile.records) == 10
    assert {r.verdict for r in one_tile.records} == {"timeout"}
    assert all(r.trigger_step is not None for r in one_tile.records), "every trigger fires"
    assert results(run(tmp_path / "many", lanes=24, threads=2)) == results(one_tile)


def test_replayed_prefixes_arrive_at_the_bits_of_the_forks(one_tile, tmp_path):
    replayed = results(run(tmp_path / "replay", replay=True))
    for key, result in results(one_tile).items():
        assert replayed[key] == result


def test_a_killed_run_goes_on_to_the_same_records(one_tile, tmp_path):
    out = tmp_path / "run"
    whole = run(out)
    lines = (out / "records.jsonl").read_bytes().splitlines(keepends=True)
    (out / "records.jsonl").write_bytes(b"".join(lines[:4]))
    assert results(run(out)) == results(whole) == results(one_tile)


def test_every_event_does_on_jax_what_it_does_on_c(one_tile, tmp_path):
    c = {r.key: r for r in run(tmp_path / "c", "c").records}
    for record in one_tile.records:
        other = c[record.key]
        assert (record.verdict, record.trigger_step) == (other.verdict, other.trigger_step)
        if record.event is None:
            assert other.event is None
            continue
        assert record.event.keys() == other.event.keys()
        for mine, theirs in zip(record.event.get("moved", []), other.event.get("moved", []), strict=True):
            assert mine["entity"] == theirs["entity"]
            # Metres after at most a dozen control steps of two engines side by side.
            np.testing.assert_allclose(mine["after"], theirs["after"], atol=2e-3)


def test_an_inspection_on_jax_is_the_run_that_was_recorded(one_tile):
    records = {r.key: r for r in one_tile.records}
    case = next(c for c in CASES.cases if c.trigger is not None and c.trigger.type == "after_grasp")
    views = inspect_case(case, TASK, Holding(), Arms(INTERVAL, Holding.spec.horizon), "jax")
    assert set(views) == set(Arm)
    for arm, view in views.items():
        record = records[case.case_id, arm]
        for name in ("actions", "eef_pos"):
            np.testing.assert_array_equal(view.result.arrays[name], one_tile.array(record, name))
        assert view.result.trigger_step == record.trigger_step
    said = [moment.what for moment in views[Arm.DYNAMIC].moments]
    assert "finger:left touches cube: yes" in said
    played = record.end_step - record.trigger_step
    assert len(views[Arm.DYNAMIC].poses) == played, "one lane of a tile, from the event on"


def test_a_film_says_that_it_compiles_and_how_far_it_is(one_tile, monkeypatch):
    monkeypatch.setattr(film, "_SAY_EVERY_S", 0.0)
    case, said = CASES.cases[1], []
    footage = film.film_pair(one_tile, case, TASK, said.append)
    base, dynamic = (footage.arms[arm] for arm in Arm)
    event = footage.event_step
    assert event is not None
    assert said == [
        "compiling a program of engine jax, then running both arms again",
        *(f"arm base, step {step} of {base.end}" for step in range(1, base.end + 1)),
        *(f"arm dynamic, step {step} of {dynamic.end}" for step in range(event + 1, dynamic.end + 1)),
    ]
