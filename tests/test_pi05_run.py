"""The model in runs: pictures that stay on the device, LIBERO-MAX's noise, and folders that go on with the same weights."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("orbax.checkpoint")
pytest.importorskip("sentencepiece")

from evals.libero_max.sampler import sample_manifest
from evals.registry import load_task
from mjx_bench.errors import BenchError
from mjx_bench.policy import Observation
from mjx_bench.records import Run, load_run
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from policies import registry
from policies.pi05 import adapters, observing, statistics, tokenizer, weights
from policies.pi05.checkpoint import Checkpoint
from policies.pi05.policy import Episode, Pi05, random
from tests import pictures
from tests.scenes import SEED
from tests.test_openpi_inputs import noise, observation
from tests.test_pairs import a_case, at, manifest_of
from tests.test_pi05_policy import CONFIG
from tests.test_pictures import short

Q = 4
LIGHT = manifest_of(a_case("illumination_switch", at(4)))
BOTH = manifest_of(a_case("illumination_switch", at(4)), a_case("sensor_noise_onset", at(4)))


class Nano(Pi05):
    """A nano model of LIBERO's robot, whose pictures are mirrored and resized; it notes what it is given."""

    def __init__(self, seed: int = 1, *, on_device: bool = True, **options: Any) -> None:
        robot = adapters.named("libero")
        stats = statistics.unit(robot.state, robot.actions)
        config = dataclasses.replace(CONFIG, adapter="libero")
        found = Checkpoint(config, weights.random_weights(config, seed), stats, tokenizer.small())
        super().__init__(found, "nano", tile=4, steps=2, **options)
        self.spec = dataclasses.replace(self.spec, on_device=on_device)
        self.given: list[type] = []
        self.drawn: list[int] = []

    def act(self, carries: Sequence[Episode], obs: Observation, seeds: np.ndarray) -> Any:
        self.given += {type(picture) for picture in obs.images.values()}
        # Where a device has memory of its own, nothing but what is asked for comes from it.
        with jax.transfer_guard_device_to_host("disallow"):
            return super().act(carries, obs, seeds)

    def noise(self, seed: int) -> np.ndarray:
        self.drawn.append(seed)
        return super().noise(seed)


def run(out: Path, policy: Pi05, manifest: Any = BOTH, *, renderer: str = "warp", **options: Any) -> Run:
    settings = RunSettings("nano", 4, Q, renderer=renderer, threads=1, **options)
    run_pairs(manifest, settings, out, load_task=short, policy=policy)
    return load_run(out)


def forbidden(what: str) -> Any:
    def fail(*args: Any, **kwargs: Any) -> Any:
        pytest.fail(f"{what} came to the host")

    return fail


def test_a_renderer_s_pictures_on_the_device_are_its_pictures():
    with pictures.renderer("warp", pictures.SCENE, ("side", "top"), 48, 3) as warp:
        poses = [pictures.balls(red=(0.1 * i, 0.0, 1.0)) for i in range(5)]
        there, host = warp.render_on_device(poses), warp.render(poses)
        later = warp.render_on_device(poses[::-1])
    assert list(there) == list(host) == ["side", "top"]
    for name, picture in there.items():
        assert isinstance(picture, jax.Array)
        np.testing.assert_array_equal(picture, host[name])
        np.testing.assert_array_equal(later[name], host[name][::-1])
    assert len({picture.tobytes() for picture in host["side"]}) == 5


def test_pictures_on_the_device_are_seen_as_those_on_the_host():
    policy, images = Nano(), noise(6)
    obs = observation(images)
    there = dataclasses.replace(obs, images={name: jax.numpy.asarray(p) for name, p in images.items()})
    seeds = np.arange(6, dtype=np.uint64)
    want, _ = policy.act([Episode()] * 6, obs, seeds)
    got, _ = policy.act([Episode()] * 6, there, seeds)
    np.testing.assert_array_equal(got, want)
    assert policy.given == [np.ndarray, type(there.images["agentview"])]


@pytest.fixture(scope="module")
def over_host(tmp_path_factory: pytest.TempPathFactory) -> Run:
    pytest.importorskip("warp")
    policy = Nano(on_device=False)
    found = run(tmp_path_factory.mktemp("over_host"), policy, BOTH)
    assert {issubclass(kind, jax.Array) for kind in policy.given} == {False}
    return found


def test_pictures_stay_on_the_device_from_the_renderer_to_the_model(
    over_host: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from mjx_bench.observe import warp_tile

    monkeypatch.setattr(warp_tile.Tile, "draw", forbidden("a drawn picture"))
    monkeypatch.setattr(observing, "_resized", forbidden("a picture to be resized"))
    monkeypatch.setattr(Pi05, "prepare", lambda policy, episodes: None)  # which resizes blank pictures
    policy = Nano()
    there = run(tmp_path, policy, LIGHT, no_event=True)
    assert policy.given
    assert all(issubclass(kind, jax.Array) for kind in policy.given)
    (case,) = LIGHT.cases
    want = over_host.array(over_host.done[case.case_id, "base"], "chunks")
    assert len(there.records) == 2
    for record in there.records:
        np.testing.assert_array_equal(there.array(record, "chunks"), want)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "warp"])
def test_compiled_physics_draws_and_acts_without_a_picture_on_the_host(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("warp")
    from mjx_bench.observe import warp_tile

    task = dataclasses.replace(load_task("tabletop", 0), horizon=8)
    manifest = sample_manifest([task], 2, 0, events=("camera_shift",), policy_seed=SEED)
    settings = RunSettings("pi05_tiny:random", 16, Q, renderer="warp", backend=backend, threads=1, no_event=True)

    def chunks(out: Path, policy: Pi05) -> dict[Any, Any]:
        run_pairs(manifest, settings, out, load_task=lambda case: task, policy=policy)
        found = load_run(out)
        return {record.key: found.array(record, "chunks") for record in found.records}

    over_host = random("pi05_tiny")
    over_host.spec = dataclasses.replace(over_host.spec, on_device=False)
    want = chunks(tmp_path / "host", over_host)
    monkeypatch.setattr(warp_tile.Tile, "draw", forbidden("a drawn picture"))
    monkeypatch.setattr(observing, "_resized", forbidden("a picture to be resized"))
    monkeypatch.setattr(Pi05, "prepare", lambda policy, episodes: None)
    got = chunks(tmp_path / "device", random("pi05_tiny"))
    assert got.keys() == want.keys()
    assert len(got) == 4
    for key, found in got.items():
        np.testing.assert_array_equal(found, want[key])


def test_pictures_that_the_host_spoils_come_from_there_and_records_are_the_same(over_host: Run, tmp_path: Path):
    policy = Nano()
    there = run(tmp_path, policy, BOTH)
    assert {issubclass(kind, jax.Array) for kind in policy.given} == {True, False}
    assert there.done.keys() == over_host.done.keys()
    for record in there.records:
        theirs = over_host.done[record.key]
        assert (record.verdict, record.event) == (theirs.verdict, theirs.event)
        np.testing.assert_array_equal(there.array(record, "chunks"), over_host.array(theirs, "chunks"))


def test_libero_max_s_noise_follows_its_rule_and_only_the_same_policy_goes_on_with_a_folder(tmp_path: Path):
    policy = Nano(noise="libero_max")
    found = run(tmp_path, policy, LIGHT, replay=True)
    assert [np.size(found.array(record, "query_steps")) for record in found.records] == [3, 3]
    rule = [hashlib.sha256(f"{SEED}:{query}".encode()).digest()[:4] for query in range(3)]
    # Each arm counts from 0, and what is replayed counts too.
    assert policy.drawn[0] == 0, "to warm up"
    assert sorted(policy.drawn[1:]) == sorted(2 * [int.from_bytes(first, "big") for first in rule])
    first = int.from_bytes(hashlib.sha256(b"195:0").digest()[:4], "big")
    want = np.random.default_rng(first).standard_normal((5, 24), np.float32)
    np.testing.assert_array_equal(policy.noise(first), want)

    assets = found.header.assets
    assert "noise by libero_max" in assets["policy program"]
    assert assets["policy weights"] == Nano().fingerprint()["policy weights"]
    run(tmp_path, Nano(noise="libero_max"), LIGHT, replay=True)
    with pytest.raises(BenchError, match=r"made with assets\.policy weights = .*; take the same policy to continue"):
        run(tmp_path, Nano(seed=2, noise="libero_max"), LIGHT, replay=True)
    with pytest.raises(BenchError, match=r"made with assets\.policy program = .*libero_max.*now it is .*by query"):
        run(tmp_path, Nano(), LIGHT, replay=True)


def test_libero_max_s_rule_is_part_of_a_policy_s_name():
    policy = registry.make("libero_max:pi05_tiny:random")
    assert policy.spec.name == "libero_max:pi05_tiny:random"
    assert "noise by libero_max" in policy.fingerprint()["policy program"]
    images = {name: picture[:, :64, :64] for name, picture in noise(1).items()}
    obs = dataclasses.replace(observation(images), policy_seed=np.array([7]))
    given, plain = policy.act([Episode(2)], obs, np.zeros(1, np.uint64)), registry.make("pi05_tiny:random")
    rule = np.array([int.from_bytes(hashlib.sha256(b"7:2").digest()[:4], "big")], np.uint64)
    np.testing.assert_array_equal(given[0], plain.act([Episode()], obs, rule)[0])
    with pytest.raises(ValueError, match="here are no cases"):
        policy.act([Episode()], dataclasses.replace(obs, policy_seed=None), rule)
    for name in ("zero", "scripted.reactive", "seeing:zero", ""):
        with pytest.raises(BenchError, match="draws no noise that could follow LIBERO-MAX's rule"):
            registry.make(f"libero_max:{name}")
