"""The timeline of a case says what the records say, and its trajectories are the run's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evals.libero_max.sampler import sample_manifest
from mjx_bench.arms import Arms
from mjx_bench.cases import dump_manifest
from mjx_bench.inspection import ArmView, inspect_case
from mjx_bench.types import Arm
from tests.scenes import SEED, libero_scene, libero_task
from tests.test_pairs import HORIZON, MIXED, H, Q, Wanderer, arms, array, run, short_task
from tests.virtual_display import VirtualDisplay, virtual_display


@pytest.fixture(scope="module")
def views() -> dict[Arm, ArmView]:
    case = MIXED.cases[1]
    return inspect_case(case, short_task(case), Wanderer(), Arms(Q, H))


def said(view: ArmView) -> list[str]:
    return [f"{m.step} {m.what}" for m in view.moments]


def test_the_timeline_names_queries_trigger_event_and_end_in_order(views):
    dynamic = said(views[Arm.DYNAMIC])
    assert dynamic[0] == "0 query 0"
    trigger = next(i for i, line in enumerate(dynamic) if "trigger on_proximity alphabet_soup_1" in line)
    assert dynamic[trigger].startswith("1 ")
    assert dynamic[trigger + 1].startswith("1 event move_object: alphabet_soup_1 (")
    assert f"{Q} query 1, the first after the event" in dynamic
    assert dynamic[-1] == f"{HORIZON} end: timeout (horizon)"
    base = said(views[Arm.BASE])
    assert any("nothing happens in the Base arm" in line for line in base)
    assert not any("event" in line for line in base)


def test_it_is_the_same_run_as_a_recorded_one(views, tmp_path):
    recorded = run(tmp_path)
    for arm, record in zip(views, arms(recorded, "libero_object-i0-target_relocation-p"), strict=True):
        for name in ("actions", "eef_pos"):
            np.testing.assert_array_equal(views[arm].result.arrays[name], array(recorded, record, name))


def test_trajectories_hold_every_control_step(views):
    settle = libero_task("libero_object", 0).settle_steps
    assert len(views[Arm.BASE].qpos) == settle + HORIZON
    assert len(views[Arm.DYNAMIC].qpos) == HORIZON - 1, "from the event at step 1 on"


def test_poses_hold_fixtures_and_looks():
    case = MIXED.cases[6]  # the light of a libero_spatial scene, at step 4
    found = inspect_case(case, short_task(case), Wanderer(), Arms(Q, H))
    task, scene, _ = libero_scene("libero_spatial", 0)
    standing = task.load_reset(SEED).fixture_pos
    assert {"wooden_cabinet_1", "flat_stove_1"} <= standing.keys()
    for arm, view in found.items():
        assert len(view.poses) == len(view.qpos)
        for name, pos in standing.items():
            body = scene.model.body(task.scene.entities[name].body).id
            assert np.abs(scene.model.body_pos[body] - pos).max() > 1e-3, "the model alone has it elsewhere"
            assert all(np.array_equal(pose.body_pos[body], pos) for pose in view.poses)
        looks = [[edit.operation for edit in pose.visual] for pose in view.poses]
        assert all(names == (["set_lighting"] if arm is Arm.DYNAMIC else []) for names in looks)
        assert view.poses[-1].steps == task.settle_steps + HORIZON


# The viewer, in a process of its own: `mjx-bench inspect` as a user runs it.

ROOT = Path(__file__).resolve().parents[1]


def inspect_command(folder: Path, display: str) -> subprocess.Popen[str]:
    manifest = sample_manifest([libero_task("libero_spatial", 8)], 1, 0, events=["obstacle_insertion"], init_states=[5])
    (folder / "m.json").write_text(dump_manifest(manifest))
    command = [sys.executable, "-m", "scripts.cli", "inspect", manifest.cases[0].case_id]
    options = ["--manifest", str(folder / "m.json"), "--policy", "scripted.reactive", "--out", str(folder / "out.npz")]
    return subprocess.Popen(
        command + options,
        cwd=ROOT,
        env={**os.environ, "DISPLAY": display},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def display(tmp_path: Path) -> Iterator[VirtualDisplay]:
    (tmp_path / "screen").mkdir()
    with virtual_display(tmp_path / "screen") as found:
        yield found


@pytest.mark.slow
def test_the_viewer_plays_both_arms_and_ends(display: VirtualDisplay, tmp_path: Path):
    frames: dict[bytes, np.ndarray] = {}
    process = inspect_command(tmp_path, display.name)
    while process.poll() is None:
        picture = display.picture()
        frames[picture.tobytes()] = picture
        time.sleep(0.2)
    said = process.communicate()[1]
    assert process.returncode == 0, said
    assert said.index("playing the base arm") < said.index("playing the dynamic arm")
    # What is not the empty screen or the window before its first picture: the scene, in motion.
    scenes = [frame for frame in frames.values() if frame.std() > 20]
    print(f"{len(scenes)} different pictures of the scene")
    assert len(scenes) > 4
    # Walls, table, robot: a scene without textures, or drawn as its collision shapes, has few colours.
    assert min(len(np.unique(frame @ [1, 256, 65536])) for frame in scenes) > 5000


@pytest.mark.slow
def test_closing_the_window_ends_the_command(display: VirtualDisplay, tmp_path: Path):
    process = inspect_command(tmp_path, display.name)
    for line in process.stderr:
        if "playing the base arm" in line:
            break
    display.close_windows()
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0
    assert "playing" not in said


@pytest.mark.slow
def test_a_display_that_does_not_answer_costs_the_viewer_only(tmp_path: Path):
    said = inspect_command(tmp_path, ":9999").communicate(timeout=120)[1]
    assert "no viewer: no window could be opened" in said
    assert (tmp_path / "out.npz").exists()
