"""Preflight on a real scene: what passes, and each way to fail."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np
import pytest

from mjx_bench.cases import Case, Manifest
from mjx_bench.changes import Change
from mjx_bench.fields import freeze
from mjx_bench.observe.choice import make_renderer
from mjx_bench.observe.pictures import Pictures
from mjx_bench.preflight import Preflight, Verdict
from tests.scenes import SEED, libero_scene
from tests.test_pairs import a_case, at, manifest_of


@pytest.fixture(scope="module")
def preflight() -> Preflight:
    task, scene, _ = libero_scene("libero_object", 0)
    return Preflight(task, scene)


def positions() -> dict[str, np.ndarray]:
    """Where the objects of initial state 0 are."""
    task, scene, _ = libero_scene("libero_object", 0)
    state = task.load_init_states()[0]
    return {name: state[1 + a : 4 + a] for name, a in zip(scene.index.entities, scene.entity_qpos, strict=True)}


def moved(**change: Any) -> Case:
    """A relocation of the soup by other fields than the usual ones."""
    data = a_case("target_relocation", at(4))
    data["scenario"]["change"] = {"operation": "move_object", "object": "alphabet_soup_1", **change}
    manifest: Manifest = manifest_of(data)
    return manifest.cases[0]


def test_a_small_step_aside_passes_and_says_what_moved(preflight):
    verdict = preflight.check(moved(delta_position_m=[0.0, 0.03, 0.0]))
    assert verdict == Verdict(verdict.case_id, (), ("alphabet_soup_1",))


def test_a_change_of_pictures_only_moves_nothing_and_passes(preflight):
    verdict = preflight.check(manifest_of(a_case("illumination_switch", at(4))).cases[0])
    assert verdict.passed
    assert verdict.moved == ()


def test_an_inserted_obstacle_stands_where_it_is_put(preflight):
    verdict = preflight.check(manifest_of(a_case("obstacle_insertion", at(4))).cases[0])
    assert verdict.passed
    assert verdict.moved == ("milk_1",)


def test_an_object_in_the_air_drops(preflight):
    verdict = preflight.check(moved(delta_position_m=[0.0, 0.03, 0.15]))
    assert any("alphabet_soup_1 drops" in problem for problem in verdict.problems)


def test_an_object_inside_another_touches_it(preflight):
    verdict = preflight.check(moved(position_m=positions()["butter_1"].tolist()))
    assert any("touches butter_1" in problem for problem in verdict.problems)


def test_an_object_on_the_arm_touches_the_arm(preflight):
    task, _, _ = libero_scene("libero_object", 0)
    hand = task.load_reset(SEED).controller.eef_pos
    verdict = preflight.check(moved(position_m=hand.tolist()))
    assert any("touches" in problem and ("gripper" in problem or "robot" in problem) for problem in verdict.problems)


def test_a_case_leaves_nothing_behind_for_the_next(preflight):
    good = moved(delta_position_m=[0.0, 0.03, 0.0])
    first = preflight.check(good)
    preflight.check(moved(delta_position_m=[0.0, 0.0, 0.3]))
    assert preflight.check(good) == first


def test_an_event_that_cannot_be_applied_is_a_problem_and_no_crash(preflight):
    good = moved(delta_position_m=[0.0, 0.03, 0.0])
    insertion = manifest_of(a_case("obstacle_insertion", at(4))).cases[0].scenario.change
    # The manifest's reader refuses this; a scenario made in code may still hold it.
    never_removed = dataclasses.replace(good.scenario, change=insertion, setup=None)
    verdict = preflight.check(dataclasses.replace(good, scenario=never_removed))
    assert any("nothing took it away" in problem for problem in verdict.problems)


class Shown:
    """Stands in for the cameras: returns pictures one after another."""

    def __init__(self, *images: np.ndarray) -> None:
        self.images = list(images)

    def take(self, poses: Any) -> dict[str, np.ndarray]:
        return {"agentview": self.images.pop(0)[None]}


def seen(*images: np.ndarray) -> Verdict:
    task, scene, _ = libero_scene("libero_object", 0)
    pictures: Any = Shown(*images)
    return Preflight(task, scene, pictures).check(manifest_of(a_case("illumination_switch", at(4))).cases[0])


def test_an_event_must_show_in_the_picture_and_the_picture_must_show_something():
    noise = np.random.default_rng(0).integers(60, 160, (256, 256, 3), np.uint8)
    verdict = seen(noise, noise // 2)
    assert verdict.passed
    assert verdict.pixel_change == pytest.approx(np.abs(noise // 2 - noise.astype(int)).mean())
    assert seen(noise, noise).problems == ("the event changes nothing in the picture",)
    assert "after the event shows next to nothing: mean 6.4" in seen(noise, noise // 16).problems[0]
    assert "deviation 0.0 (at least 5)" in seen(np.full_like(noise, 90), noise).problems[0]


def test_a_light_that_goes_out_is_seen_by_the_real_camera(preflight):
    task, scene, _ = libero_scene("libero_object", 0)
    with contextlib.closing(
        Pictures(make_renderer("gl", task.scene, ("agentview",), 256, 256), task.scene)
    ) as pictures:
        checker = Preflight(task, scene, pictures)
        dark = checker.check(manifest_of(a_case("illumination_switch", at(4))).cases[0])
        aside = checker.check(moved(delta_position_m=[0.0, 0.03, 0.0]))
    assert dark.passed
    assert aside.passed
    assert dark.pixel_change is not None
    assert dark.pixel_change > 10
    assert aside.pixel_change is not None
    assert 0 < aside.pixel_change < 2


def test_a_camera_that_no_lens_has_is_a_problem(preflight):
    good = manifest_of(a_case("illumination_switch", at(4))).cases[0]
    fields = {"camera": "agentview", "delta_fovy_degrees": 120.0}
    wide = dataclasses.replace(good.scenario, change=Change("shift_camera", freeze(fields)))
    (problem,) = preflight.check(dataclasses.replace(good, scenario=wide)).problems
    assert "field of view 165 degrees" in problem
