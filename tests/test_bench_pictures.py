"""The measurements of pictures run and say what they promise. How fast anything is, no test asks."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mjx_bench.bench import fidelity, pictures
from mjx_bench.errors import BenchError
from mjx_bench.observe.choice import choose
from scripts import cli
from tests.libero_oracle import needs_libero
from tests.scenes import SEED, libero_task
from tests.test_cli import mjx_bench


@pytest.fixture(autouse=True)
def both_renderers():
    try:
        choose("gl"), choose("warp")
    except BenchError as error:
        pytest.skip(str(error))


@needs_libero
@pytest.mark.slow
def test_bench_pictures_prints_its_ratios():
    command = "bench pictures --suite libero_object --task 0 --size 32 --lanes 2 --repeats 2 --json"
    done = mjx_bench(*command.split())
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    for found in (figures, figures["primitives"]):
        low, high = found["ratio_range"]
        assert 0 < low <= found["ratio"] <= high
        assert min(found["warp_images_per_s"], found["gl_images_per_s"], found["processor_ratio"]) > 0
    assert set(figures["warp_memory"]) == {"scene_mib", "context_mib", "lane_mib"}
    assert figures["warp_setup_s"] > 0
    assert figures["warp_kernels_s"] > 0
    assert figures["versions"]["warp-lang"]


def test_both_renderers_draw_the_same_poses_in_turns():
    scene = pictures.primitive_scene()
    poses = pictures.primitive_poses(scene, 3)
    assert not np.array_equal(poses[0].qpos, poses[1].qpos)
    found = pictures.summary(pictures.measure(scene, 32, poses, 2))
    assert found["ratio_range"][0] <= found["ratio"] <= found["ratio_range"][1]
    assert found["warp_images_per_s"] > 0
    assert json.dumps(found)


def test_the_scene_of_primitives_is_seen_alike():
    scene = pictures.primitive_scene()
    poses = pictures.primitive_poses(scene, 2)
    from tests.test_warp_renderer import drawn

    ours, reference = (drawn(name, scene, poses, 96) for name in ("warp", "gl"))
    for camera in scene.cameras:
        found = fidelity.Likeness.of(ours[camera], reference[camera])
        assert found.difference < 1.0
        assert found.similarity > 0.98


@needs_libero
def test_poses_of_a_task_are_its_initial_states_with_its_fixtures():
    task = libero_task("libero_object", 0)
    states = task.load_init_states()
    poses = pictures.task_poses(task, 2, SEED)
    for pose, state in zip(poses, states, strict=False):
        np.testing.assert_array_equal(pose.qpos, state[1 : 1 + len(pose.qpos)])


def test_likeness_of_equal_pictures_and_of_a_known_difference():
    picture = np.random.default_rng(0).integers(0, 200, (2, 16, 16, 3)).astype(np.uint8)
    assert fidelity.Likeness.of(picture, picture) == fidelity.Likeness(0.0, 1.0)
    assert fidelity.Likeness.of(picture + 5, picture).difference == 5.0


def test_the_table_ends_with_the_mean():
    rows = [
        ("a 0", {"front": fidelity.Likeness(1.0, 0.9), "wrist": fidelity.Likeness(0.0, 1.0)}),
        ("a 1", {"front": fidelity.Likeness(2.0, 0.8), "wrist": fidelity.Likeness(1.0, 0.9)}),
    ]
    lines = fidelity.table(rows)
    assert lines[0] == "| task | front, difference | front, similarity | wrist, difference | wrist, similarity |"
    assert lines[2] == "| a 0 | 1.00 | 0.900 | 0.00 | 1.000 |"
    assert lines[-1] == "| mean | 1.50 | 0.850 | 0.50 | 0.950 |"


@needs_libero
@pytest.mark.slow
def test_bench_fidelity_compares_what_the_ray_tracer_draws_by_itself_too():
    found = fidelity.compare(libero_task("libero_10", 2), 64, 1, SEED, plain=True)
    assert list(found) == ["warp", "plain"]
    for camera in ("agentview", "robot0_eye_in_hand"):
        assert found["warp"][camera].difference < 5 < found["plain"][camera].difference


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["pictures", "--suite", "libero_object", "--size", "0"], "--size 0: give 1 to 4096 pixels"),
        (["pictures", "--suite", "libero_object", "--size", "4097"], "--size 4097: give 1 to 4096 pixels"),
        (["pictures", "--suite", "libero_objekt"], "did you mean libero_object"),
        (["fidelity", "--suite", "libero_objekt"], "did you mean libero_object"),
    ],
)
def test_a_mistake_is_one_line(options: list[str], message: str, capfd: pytest.CaptureFixture[str]):
    assert cli.main(["bench", *options]) == 2
    out, err = capfd.readouterr()
    assert message in err
    assert err.count("\n") == 1
    assert out == ""
