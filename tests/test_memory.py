"""Memory: flat over engines that come and go, bounded at many lanes, and no model outlives the run that needed it."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path

import mujoco
import numpy as np
import pytest

from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import compile_scene
from mjx_bench.predicates import touches_of
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from policies.simple import Zero
from tests import many_scenes
from tests.many_scenes import SUITES
from tests.scenes import SEED, libero_scene, libero_task
from tests.test_pairs import a_case, at, manifest_of, short_task

ROOT = Path(__file__).resolve().parents[1]

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the resident size from /proc")

# What the allocator keeps of freed blocks between cycles; an engine of 8 lanes that leaked would show in one cycle.
SLACK_MIB = 64


def rss_mib() -> float:
    """Resident memory of this process now, without garbage, MiB."""
    gc.collect()
    return many_scenes.rss_mib()


def cycle(lanes: int) -> None:
    """An engine made, loaded, stepped and closed."""
    task, scene, _ = libero_scene("libero_object", 0)
    physics = MujocoC(scene, lanes, "osc_pose", task.substeps)
    for lane in range(lanes):
        physics.load(lane, task.load_init_states()[lane % 50], task.load_reset(SEED))
    assert physics.control_step(np.arange(lanes, dtype=np.int32), np.zeros((lanes, 7))) == {}
    physics.close()


def growth(cycles: int, lanes: int) -> float:
    """MiB that `cycles` cycles leave behind, after three that fill the allocator's pools."""
    for _ in range(3):
        cycle(lanes)
    before = rss_mib()
    for _ in range(cycles):
        cycle(lanes)
    return rss_mib() - before


@needs_proc
def test_engines_that_come_and_go_leave_nothing():
    assert growth(cycles=10, lanes=8) < SLACK_MIB


@needs_proc
@pytest.mark.slow
def test_a_hundred_engines_of_64_lanes_leave_nothing():
    left = growth(cycles=100, lanes=64)
    print(f"growth over 100 cycles of 64 lanes: {left:.1f} MiB")
    assert left < SLACK_MIB


def test_a_run_drops_each_scene_when_it_is_done(tmp_path, monkeypatch):
    alive: list[weakref.ref] = []
    most = 0

    def watched(*args, **options):
        nonlocal most
        scene = compile_scene(*args, **options)
        alive.append(weakref.ref(scene))
        most = max(most, sum(ref() is not None for ref in alive))
        return scene

    monkeypatch.setattr("mjx_bench.physics.scene.compile_scene", watched)
    cases = [
        a_case("illumination_switch", at(4), init=init, suite=suite)
        for suite in ("libero_object", "libero_spatial")
        for init in (0, 1)
    ]
    # Without the garbage collector: what a cycle keeps would stay until some later time that nobody can count on.
    gc.disable()
    try:
        settings = RunSettings("zero", lanes=2, query_interval=4, threads=1)
        run_pairs(manifest_of(*cases), settings, tmp_path / "run", load_task=short_task, policy=Zero())
        assert len(alive) == 2
        assert most == 1, "the first scene is gone before the second is there"
        assert [ref() for ref in alive] == [None, None]
    finally:
        gc.enable()


# In a process of its own: the peak of this one belongs to whichever test needed most.
MANY_LANES = """
import numpy as np
from mjx_bench.bench.figures import peak_rss_mib
from tests.scenes import libero_lanes, wandering
lanes = 64
physics = libero_lanes("libero_spatial", 0, lanes)
for actions in wandering(10, lanes, seed=0):
    assert physics.control_step(np.arange(lanes, dtype=np.int32), actions) == {}
for lane in range(lanes):
    physics.snapshot(lane)
print(peak_rss_mib())
"""


def test_64_lanes_of_a_scene_need_less_than_4_gib():
    libero_task("libero_spatial", 0)  # skips without LIBERO, builds the scene if it has to
    done = subprocess.run(
        [sys.executable, "-c", f"from mjx_bench import runtime; runtime.configure()\n{MANY_LANES}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    peak = float(done.stdout.split()[-1])
    print(f"peak at 64 lanes: {peak:.0f} MiB")
    assert 50 < peak < 4096


@needs_proc
@pytest.mark.slow
def test_forty_scenes_in_turn_leave_nothing_but_mujocos_own_cache():
    """Compile, run and close, without a policy: what is left would be ours.

    MuJoCo's compiler keeps meshes that it has read, up to a capacity of its own, so that the next scene compiles faster.
    """
    ours, cached = [], []
    for suite in SUITES:
        for index in range(10):
            task = libero_task.__wrapped__(suite, index)
            scene = compile_scene(task.scene, touches_of(task.goal, task.scene))
            physics = MujocoC(scene, 8, "osc_pose", task.substeps)
            states, reset = task.load_init_states(), task.load_reset(SEED)
            for lane in range(8):
                physics.load(lane, states[lane], reset)
            assert physics.control_step(np.arange(8, dtype=np.int32), np.zeros((8, 7))) == {}
            physics.close()
            del physics, scene, task
            cached.append(mujoco.mj_getCacheSize(mujoco.mj_getCache()) / 2**20)
            ours.append(rss_mib() - cached[-1])
    print("after 1, 10, 20, 30, 40 scenes:", [f"{ours[i]:.0f} + {cached[i]:.0f}" for i in (0, 9, 19, 29, 39)], "MiB")
    assert ours[-1] - ours[0] < 2 * SLACK_MIB
    assert cached[-1] <= mujoco.mj_getCacheCapacity(mujoco.mj_getCache()) / 2**20 <= 512


@needs_proc
@pytest.mark.slow
# Two workers free blocks in each other's pools, and what the allocator keeps of them then differs from run to run.
@pytest.mark.parametrize(("threads", "margin_mib"), [(1, SLACK_MIB), (2, 4 * SLACK_MIB)])
def test_a_thousand_pairs_over_forty_scenes_need_no_more_at_the_end_than_at_the_start(threads: int, margin_mib: int):
    libero_task("libero_spatial", 0)  # skips without LIBERO
    done = subprocess.run(
        [sys.executable, "-m", "tests.many_scenes", str(threads)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=900,
    )
    found = json.loads(done.stdout)
    quarters = found["quarters"]
    print(
        f"{found['seconds']:.0f} s; peaks by quarter, MiB:", [f"{q['ours']:.0f} + {q['cache']:.0f}" for q in quarters]
    )
    assert (found["arms"], found["void"], found["events"], found["scenes"]) == (2000, 0, 1000, 40)
    assert quarters[3]["ours"] < quarters[1]["ours"] + margin_mib
    assert quarters[3]["cache"] <= found["cache_capacity"] <= 512
    assert max(q["rss"] for q in quarters) < 4096
