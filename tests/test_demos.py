"""Demonstrations: what is recorded is what was done, whatever the lanes and interruptions, and never on what is held out."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow.parquet", reason="needs the extra: train")

from evals import registry
from evals.instances import EVALUATION, TRAINING
from mjx_bench.engines import engine_of
from mjx_bench.errors import BenchError
from mjx_bench.physics.base import Pose
from mjx_bench.predicates import compile_goal
from mjx_bench.task import Task
from mjx_bench.types import Verdict
from policies.scripted import Reactive
from train.collect import films, split
from train.collect.collect import State, Wish, collect
from train.collect.demonstrator import Demonstrator, Errors, shots_of
from train.collect.rollouts import runs
from train.lerobot import schema, video
from train.lerobot.check import check
from train.lerobot.read import open_dataset

SIZE = 32
WISH = Wish(3, schema.V21, SIZE, "warp", Errors(noise=0.4, detours=0.02))


class Clock:
    """A renderer whose pictures tell the time: their grey level is the pose's number of control steps."""

    def __init__(self, cameras: Sequence[str]) -> None:
        self.cameras = tuple(cameras)

    def render(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        grey = np.array([pose.steps % 256 for pose in poses], np.uint8)
        return {name: np.tile(grey[:, None, None, None], (1, SIZE, SIZE, 3)) for name in self.cameras}

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(films, "make_renderer", lambda name, scene, cameras, *size: Clock(cameras))


@pytest.fixture(scope="module")
def button() -> Task:
    return registry.load_task("tabletop", 9)


def collected(task: Task, out: Path, wish: Wish = WISH, lanes: int = 3, **more: Any) -> dict[str, Any]:
    return collect([task], Reactive(), wish, out, lanes=lanes, **more)


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def made(button: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset, not to be changed."""
    out = tmp_path_factory.mktemp("demos") / "made"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(films, "make_renderer", lambda name, scene, cameras, *size: Clock(cameras))
        collected(button, out)
    return out


def test_the_actions_lead_from_the_instance_to_success_again(button: Task, made: Path):
    dataset = open_dataset(made)
    assert not check(made).faults
    for index, episode in enumerate(dataset.episodes):
        instance, columns = episode.extra["instance"], dataset.columns(index)
        assert instance in TRAINING
        physics = engine_of(button, "c", 1, "osc_pose", interval=1)
        success = compile_goal(button.goal, button.scene, physics.index)[1]
        physics.load(0, button.load_init_states()[instance], button.load_reset(0), button.fields_of(instance))
        held = []
        for k, action in enumerate(columns["action"]):
            eef = physics.kinematics(np.zeros(1, np.int32)).eef_pos[0]
            np.testing.assert_array_equal(columns["observation.state"][k, :3], eef.astype(np.float32))
            physics.control_step(np.zeros(1, np.int32), action[None].astype(np.float64))
            held.append(bool(success(physics.signals)[0]))
        physics.close()
        assert held == [False] * (len(held) - 1) + [True]


def test_each_frame_shows_the_moment_before_its_action(made: Path):
    dataset = open_dataset(made)
    for camera in dataset.cameras:
        for index, length in enumerate(dataset.lengths):
            shown = dataset.pictures(camera, index).mean((1, 2, 3))
            np.testing.assert_allclose(shown, np.arange(length), atol=2.0)


def test_what_the_expert_would_have_done_is_recorded_beside_what_was(button: Task, made: Path, tmp_path: Path):
    columns = open_dataset(made).columns(0)
    np.testing.assert_array_equal(columns["expert_chunk"][:, 0], columns["expert_action"])
    apart = np.abs(columns["action"] - columns["expert_action"])
    assert 0.2 < (apart[:, :3] > 0).any(1).mean() < 0.9
    assert apart[:, :3].max() > 0.3
    np.testing.assert_array_equal(apart[:, 3:], 0)  # rotation and gripper are the expert's
    collected(button, tmp_path / "calm", dataclasses.replace(WISH, episodes=1, errors=Errors()))
    calm = open_dataset(tmp_path / "calm").columns(0)
    np.testing.assert_array_equal(calm["action"], calm["expert_action"])


def test_lanes_change_no_byte(button: Task, made: Path, tmp_path: Path):
    collected(button, tmp_path / "alone", lanes=1)
    assert contents(tmp_path / "alone") == contents(made)


def test_another_seed_makes_other_errors(button: Task, made: Path, tmp_path: Path):
    collected(button, tmp_path / "b", dataclasses.replace(WISH, errors=dataclasses.replace(WISH.errors, seed=1)))
    first, second = (open_dataset(folder).columns(0)["action"] for folder in (made, tmp_path / "b"))
    assert first.shape != second.shape or np.abs(first - second).max() > 0.1


def test_an_interrupted_collection_goes_on(button: Task, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    out, filmed = tmp_path / "out", []
    film = films.Filming.film
    monkeypatch.setattr(films.Filming, "film", lambda self, run: (filmed.append(run.instance), film(self, run))[1])

    def stop(state: State) -> None:
        if state.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collected(button, out, lanes=1, progress=stop)
    assert not (out / schema.INFO).exists()
    states: list[State] = []
    collected(button, out, lanes=1, progress=states.append)
    assert contents(out) == contents(made)
    assert states[0].done == states[0].before >= 1
    assert states[-1].done == states[-1].wanted == 3
    kept = [e.extra["instance"] for e in open_dataset(out).episodes][: states[0].before]
    assert all(filmed.count(instance) == 1 for instance in kept), "nothing finished is done again"
    again = collected(button, out)
    assert again["tasks"][0]["instances"] == [e.extra["instance"] for e in open_dataset(out).episodes]


def test_what_is_killed_while_it_is_put_together_is_put_together_again(
    button: Task, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out, rename = tmp_path / "out", Path.rename

    def killed(self: Path, target: Path) -> Path:
        if self.name == "meta":
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            collected(button, out)
    assert (out / "data").is_dir()
    collected(button, out)
    assert contents(out) == contents(made)


def test_instances_that_fail_are_left_out_and_named(button: Task, tmp_path: Path):
    short = dataclasses.replace(button, horizon=30)
    found = [collected(short, tmp_path / str(n), dataclasses.replace(WISH, errors=Errors()), lanes=n) for n in (1, 4)]
    assert contents(tmp_path / "1") == contents(tmp_path / "4")
    (row,) = found[0]["tasks"]
    assert len(row["instances"]) == 3
    assert row["failed"], "a horizon at which some do not get there"
    assert all(f["reason"] == "horizon at step 30" for f in row["failed"])
    tried = sorted([*row["instances"], *(f["instance"] for f in row["failed"])])
    assert tried == list(range(TRAINING.start, TRAINING.start + len(tried)))


def test_an_expert_that_never_succeeds_ends_it(button: Task, tmp_path: Path):
    with pytest.raises(BenchError, match=r"scripted.reactive solved 0 of \d+ instances; it cannot show 1"):
        collected(dataclasses.replace(button, horizon=2), tmp_path / "out", dataclasses.replace(WISH, episodes=1))


def test_a_folder_is_not_used_for_two_things(button: Task, made: Path, tmp_path: Path):
    with pytest.raises(BenchError, match="was begun with episodes 3, not 4"):
        collected(button, made, dataclasses.replace(WISH, episodes=4))
    with pytest.raises(BenchError, match=r"was begun with format v2.1, not v3.0"):
        collected(button, made, dataclasses.replace(WISH, version=schema.V30))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(BenchError, match="is there already and no dataset in the making"):
        collected(button, tmp_path / "mine")


def test_a_full_disk_is_one_line_and_costs_nothing(
    button: Task, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(video, "encode", full)
        with pytest.raises(BenchError, match="cannot write: No space left on device; free space"):
            collected(button, tmp_path / "out")
    collected(button, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(made)


def test_version_3(button: Task, made: Path, tmp_path: Path):
    collected(button, tmp_path / "v30", dataclasses.replace(WISH, version=schema.V30))
    assert not check(tmp_path / "v30").faults
    old, new = open_dataset(made), open_dataset(tmp_path / "v30")
    for index in range(3):
        for name, values in old.columns(index).items():
            np.testing.assert_array_equal(new.columns(index)[name], values)
        for camera in old.cameras:
            np.testing.assert_array_equal(new.pictures(camera, index), old.pictures(camera, index))


def test_only_instances_for_training(button: Task, tmp_path: Path):
    assert not set(EVALUATION) & set(TRAINING)
    with pytest.raises(BenchError, match=r"--first 500: demonstrations of tabletop take instances 10000 to 1009999"):
        collected(button, tmp_path / "out", dataclasses.replace(WISH, first=500))
    with pytest.raises(BenchError, match="--first 9990"):
        split.check_first("tabletop", 9_990, 20)


def test_evaluation_on_what_was_shown_is_refused(made: Path):
    told = json.loads((made / schema.DEMONSTRATIONS).read_text())
    split.check_held_out(told, "tabletop", "press_button", range(100))
    with pytest.raises(BenchError, match="instance 10001 is one for training, and was demonstrated"):
        split.check_held_out(told, "tabletop", "press_button", [0, 10_001])
    with pytest.raises(BenchError, match="instance 20000 is one for training;"):
        split.check_held_out(told, "tabletop", "press_button", [20_000])


def test_the_doctor_finds_no_fault(made: Path, tmp_path: Path):
    pytest.importorskip("lerobot_doctor", reason="needs lerobot-doctor, of the extra: dev")
    from train.lerobot.convert import convert

    convert(open_dataset(made), tmp_path / "v30", schema.V30)
    for folder in (made, tmp_path / "v30"):
        code = "import sys; from lerobot_doctor.cli import main; main(sys.argv[1:])"
        command = [sys.executable, "-c", code, "check", str(folder), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
        found = {c["name"]: c["severity"] for c in json.loads(done.stdout)["checks"]}
        assert "FAIL" not in found.values(), found
        sound = ("Metadata & Format Compliance", "Temporal Consistency", "Video Integrity", "Feature Consistency")
        assert [found[name] for name in sound] == ["PASS"] * 4


def test_two_tasks_in_one_dataset(button: Task, tmp_path: Path):
    lift = registry.load_task("tabletop", 0)
    wish = dataclasses.replace(WISH, episodes=1, errors=Errors())
    collect([button, lift], Reactive(), wish, tmp_path / "two", lanes=2)
    dataset = open_dataset(tmp_path / "two")
    assert not check(tmp_path / "two").faults
    assert dataset.tasks == (button.instruction, lift.instruction)
    assert [set(dataset.columns(e)["task_index"].tolist()) for e in range(2)] == [{0}, {1}]
    assert "environment_state" not in dataset.features, "the two have other things about"


def test_an_instance_is_shown_with_the_words_it_is_told(button: Task, tmp_path: Path):
    told = dataclasses.replace(button, load_instruction=lambda row: "press" if row % 2 else "press it")
    wish = dataclasses.replace(WISH, errors=Errors())
    collect([told], Reactive(), wish, tmp_path / "told", lanes=3)
    dataset = open_dataset(tmp_path / "told")
    assert not check(tmp_path / "told").faults
    shown = json.loads((tmp_path / "told" / schema.DEMONSTRATIONS).read_text())["tasks"][0]["instances"]
    words = [dataset.tasks[int(dataset.columns(e)["task_index"][0])] for e in range(3)]
    assert words == [told.instruction_of(i) for i in shown]
    assert set(words) == {"press", "press it"}


SPOKEN = {
    "pick_place": (
        ["put the red block on the plate"],
        [
            "move to the red block",
            "reach for the red block",
            "grasp the red block",
            "lift the red block",
            "carry it to the plate",
            "put it on the plate",
            "let go of the red block",
        ],
    ),
    "stack_three_in_order": (
        ["put the green block on the red block", "put the blue block on the green block"],
        ["move to the green block", "grasp the green block", "carry it to the red block", "put it on the green block"],
    ),
    "push_to_region": (["push the red dome into the green square"], ["push the red dome to the zone"]),
    "open_drawer": (["open the drawer"], ["move to the drawer", "open the drawer"]),
    "press_button": (["press the red button"], ["press the button"]),
}


@pytest.mark.parametrize("name", SPOKEN)
def test_two_levels_of_language(name: str):
    rows = {row["name"]: row["index"] for row in registry.task_table("tabletop")}
    task, left = registry.load_task("tabletop", rows[name]), iter([TRAINING.start + 1])
    (run,) = runs(task, Demonstrator(Reactive(), Errors()), lambda: next(left, None), 1, 1)
    assert run.episode.verdict is Verdict.SUCCESS
    shots = shots_of(run.episode.carry)
    assert len(shots) == len(run.poses) == run.episode.step
    stages, subtasks = (list(dict.fromkeys(getattr(shot, n) for shot in shots)) for n in ("stage", "subtask"))
    assert stages == SPOKEN[name][0]
    wanted = iter(subtasks)
    assert all(text in wanted for text in SPOKEN[name][1]), subtasks
