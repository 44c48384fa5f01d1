"""Sweeps and studies from the command line, on the native suite: what is run, what is compared, what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.libero_max import studies
from mjx_bench.cases import CONTROL_ONLY, Manifest, base_key, dump_manifest
from mjx_bench.errors import BenchError
from mjx_bench.events import apply_change
from mjx_bench.observe.repair import Repair, check_restoration
from mjx_bench.policy import Observation, PolicySpec
from mjx_bench.records import load_run
from policies import registry as policies
from scripts import chosen, cli
from tests.pictures import LANE
from tests.scenes import libero_lanes
from tests.test_pairs import a_case, manifest_of, near

POLICY = ["--policy", "scripted.reactive", "--suite", "tabletop"]
SHIFT = {
    "operation": "shift_camera",
    "camera": "agentview",
    "delta_position_m": [0.06, 0.0, 0.02],
    "yaw_degrees": 18.0,
    "delta_fovy_degrees": 12.0,
}


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What commands with --json emit, standard output left alone."""
    found: list[Any] = []
    monkeypatch.setattr("scripts.output.reserve_stdout", lambda: found.append)
    return found


def camera_case(change: dict[str, Any] | None = None) -> dict[str, Any]:
    case = a_case("illumination_switch", near(0.18))
    case["scenario"] |= {"change": change or dict(SHIFT), "change_type": "camera_shift"}
    return case


def camera_manifest(change: dict[str, Any] | None = None) -> Manifest:
    return manifest_of(camera_case(change))


def test_a_sweep_runs_every_setting_and_shares_what_is_the_same(tmp_path: Path, emitted: list[Any]):
    command = [
        "sweep",
        *POLICY,
        "--pairs",
        "3",
        "--event",
        "target_relocation",
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    settings = ["--setting", "16/8", "16/4", "8/8", "--delay", "0"]
    assert cli.main([*command, *settings, "--dry-run"]) == 0
    cost = emitted.pop()
    assert not (tmp_path / "out").exists()
    assert [(s["horizon"], s["query_interval"]) for s in cost["folders"]] == [(8, 8), (16, 4), (16, 8)]
    assert cost["folders"][0]["same_rollouts_as"].endswith("h16_q8")
    assert (cost["folders"][0]["cases"], cost["total"]["records"], cost["total"]["rollouts"]) == (3, 18, 12)
    assert cli.main([*command, *settings]) == 0
    compared = emitted.pop()
    assert len(compared["policies"]) == 3
    folders = ("h8_q8", "h16_q4", "h16_q8")
    runs = {name: load_run(tmp_path / "out" / name) for name in folders}
    assert all(len(run.records) == 6 for run in runs.values())
    assert all((tmp_path / "out" / name / "report.html").stat().st_size for name in folders)
    twins = [{r.key: np.asarray(runs[name].array(r, "actions")) for r in runs[name].records} for name in folders[::2]]
    for key, actions in twins[0].items():
        np.testing.assert_array_equal(actions, twins[1][key])
    page = (tmp_path / "out" / "sweep.html").read_text()
    assert "H = 16, Q = 8, delay 0: gap" in page
    # At most what was said beforehand.
    steps = sum(r.end_step for name in folders[1:] for r in runs[name].records)
    assert 0 < steps <= cost["total"]["control_steps_at_most"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--horizon", "4", "--query-interval", "2", "8"], "query interval 8 is larger than the action horizon 4"),
        (["--setting", "4/8"], "query interval 8 is larger than the action horizon 4"),
        (["--setting", "8-4"], "--setting '8-4': expected H/Q"),
        (["--horizon", "8"], "give --query-interval"),
        (["--query-interval", "4", "--setting", "8/4"], "give either --setting"),
        (["--query-interval", "4", "--horizon", "8", "--horizon-is-query-interval"], "leave out --horizon"),
        (["--horizon", "64", "--query-interval", "4"], "horizon must be 1 to 16"),
        (["--query-interval", "16", "--delay", "2"], "query interval 16 and delay 2 need 18 actions"),
    ],
)
def test_an_impossible_sweep_is_refused(options, complaint, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert cli.main(["sweep", *POLICY, *options, "--out", str(tmp_path / "out")]) == 2
    assert complaint in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


def test_weaker_shifts_share_one_base_and_resets_have_one_each():
    manifest = camera_manifest()
    mid, reset = studies.mid_task(manifest, studies.ALPHAS), studies.reset(manifest, studies.ALPHAS)
    assert len({base_key(case) for case in mid.cases}) == 1
    assert len({base_key(case) for case in reset.cases}) == 3
    assert reset.protocol.arms == CONTROL_ONLY
    for shifted, begun in zip(mid.cases, reset.cases, strict=True):
        assert shifted.scenario is not None
        assert begun.setup[-1] == shifted.scenario.change
        name, alpha = studies.strength_of(shifted.case_id)
        assert name == manifest.cases[0].case_id
        fields = shifted.scenario.change.fields
        np.testing.assert_allclose(fields["delta_position_m"], alpha * np.array(SHIFT["delta_position_m"]))
        assert (fields["yaw_degrees"], fields["delta_fovy_degrees"]) == (alpha * 18, alpha * 12)


def test_reset_and_mid_look_from_the_same_place():
    """Position, orientation and field of view after the change as setup, and after the change in mid-episode."""
    poses = []
    for part in (studies.mid_task, studies.reset):
        case = part(camera_manifest(), (0.5,)).cases[0]
        lanes = libero_lanes("libero_object", 0, 1)
        assert case.scenario is not None
        for change in case.setup or (case.scenario.change,):
            apply_change(change, lanes, 0)
        poses.append(lanes.poses(LANE)[0].visual)
    assert poses[0] == poses[1]
    assert len(poses[0]) == 1


def test_a_shift_that_has_no_half_is_refused():
    absolute = {"operation": "shift_camera", "camera": "agentview", "fovy_degrees": 60.0}
    with pytest.raises(BenchError, match="fovy_degrees is absolute"):
        studies.mid_task(camera_manifest(absolute), (0.5,))
    with pytest.raises(BenchError, match="no case has the event sensor_noise_onset"):
        studies.only(camera_manifest(), studies.NOISE)


def test_the_camera_study_of_one_that_sees_nothing_is_zero(
    tmp_path: Path, emitted: list[Any], capfd: pytest.CaptureFixture[str]
):
    command = ["study", "camera", *POLICY, "--pairs", "2", "--alpha", "0.5", "1", "--out", str(tmp_path), "--json"]
    assert cli.main([*command, "--dry-run"]) == 0
    cost = emitted.pop()
    assert (cost["total"]["records"], cost["total"]["rollouts"], list(tmp_path.iterdir())) == (12, 2 + 4 + 4, [])
    assert cli.main(command) == 0
    study = emitted.pop()
    assert study == json.loads((tmp_path / "study.json").read_text())
    assert study["cases"] == 2
    assert [at["alpha"] for at in study["alphas"]] == [1.0, 0.5]
    for at in study["alphas"]:
        assert at["mid_minus_reset"]["mean"] == 0
        assert at["reset"]["successes"] == at["mid"]["successes"] == study["base"]["successes"]
    assert "sees no pictures" in study["notes"][0]
    assert [len(load_run(tmp_path / name).records) for name in ("mid", "reset")] == [8, 4]
    for name in ("camera.md", "camera.csv", "camera.tex"):
        assert (tmp_path / name).stat().st_size
    assert cli.main(["study", "camera", *POLICY, "--pairs", "2", "--alpha", "0.25", "--out", str(tmp_path)]) == 2
    assert "made with --alpha 0.5 1; give the same" in capfd.readouterr().err
    # The same command again runs nothing.
    assert cli.main(command) == 0
    assert emitted.pop() == study


def test_restoration_needs_pictures(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert cli.main(["study", "restoration", *POLICY, "--out", str(tmp_path / "out")]) == 2
    assert "scripted.reactive sees none" in capfd.readouterr().err
    with pytest.raises(BenchError, match="restoration 'sometimes' is unknown"):
        check_restoration("sometimes", PolicySpec("p", 1))


@pytest.mark.slow
def test_the_restoration_study(tmp_path: Path, emitted: list[Any]):
    """The gate is shut in every picture of Base and open in every one after the event; without repair, nothing differs."""
    command = ["study", "restoration", "--suite", "tabletop", "--pairs", "2", "--policy", "seeing:scripted.reactive"]
    assert cli.main([*command, "--renderer", "warp", "--out", str(tmp_path), "--json"]) == 0
    study = emitted.pop()
    assert [s["strategy"] for s in study["strategies"]] == ["native", "always", "gated"]
    for strategy in study["strategies"]:
        assert (strategy["opened_base"], strategy["opened_dynamic"]) == (0.0, 1.0)
        assert strategy["repair_ms_dynamic"]["mean"] > 0


def test_strategies_repair_what_they_say():
    rng = np.random.default_rng(0)
    clean = np.tile(np.linspace(40, 200, 64).astype(np.uint8)[None, :, None], (64, 1, 3))
    noisy = np.clip(clean + rng.normal(0, 24, clean.shape), 0, 255).astype(np.uint8)
    kinematics = libero_lanes("libero_object", 0, 1).kinematics(LANE)
    fields = {f.name: getattr(kinematics, f.name) for f in dataclasses.fields(kinematics)}
    images = {"agentview": np.stack([clean, noisy]), "robot0_eye_in_hand": np.stack([clean, clean])}
    obs = Observation(task=None, step=np.zeros(2), images=images, **fields)  # type: ignore[arg-type]
    changed = {}
    for strategy in ("native", "always", "gated"):
        seen, done = Repair(strategy)(obs)
        assert [d.opened.tolist() for d in done] == [[False, False], [True, False]]
        assert all(d.seconds > 0 for d in done)
        changed[strategy] = [
            [bool((seen.images[name][lane] != pictures[lane]).any()) for name, pictures in images.items()]
            for lane in range(2)
        ]
    assert changed["native"] == [[False, False], [False, False]]
    assert changed["gated"] == [[False, False], [True, False]]
    assert changed["always"][1][0]
    assert (images["agentview"][1] == noisy).all()
    repaired = Repair("gated")(obs)[0].images["agentview"][1].astype(float)
    before, after = (np.abs(p.astype(float) - clean).mean() for p in (noisy, repaired))
    assert after < 0.7 * before


def test_studies_choose_their_own_event(tmp_path: Path):
    options = chosen.CaseOptions(suite=(("tabletop",),), pairs=2)
    manifest, _ = chosen.choose(options, "exact", event=studies.NOISE)
    assert {case.event for case in manifest.cases} == {studies.NOISE}
    assert policies.make("scripted.reactive").spec.cameras == ()


def test_an_evaluation_says_what_it_costs(tmp_path: Path, emitted: list[Any]):
    command = ["eval", *POLICY, "--task", "pick_place", "--instances", "3", "--out", str(tmp_path / "out"), "--json"]
    assert cli.main([*command, "--dry-run"]) == 0
    assert emitted.pop()["total"]["records"] == 3
    assert list(tmp_path.iterdir()) == []


def test_a_built_suite_is_run_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], emitted: list[Any]
):
    from evals.libero_max import suite

    monkeypatch.setattr(suite, "default_folder", lambda: tmp_path / "suites")
    command = ["pair", "--policy", "zero", "--out", str(tmp_path / "out"), "--dry-run", "--json"]
    assert cli.main([*command, "--suite", "libero-max-lite"]) == 2
    assert "libero-max-lite is not built there; mjx-bench suite build libero-max" in capfd.readouterr().err
    assert cli.main([*command, "--suite", "libero-max", "libero_object"]) == 2
    assert "--suite libero-max has cases of its own" in capfd.readouterr().err
    assert cli.main([*command, "--suite", "libero-max", "libero-max-lite"]) == 2
    assert "two sets of cases" in capfd.readouterr().err
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / suite.FILES[suite.LITE]).write_text(dump_manifest(camera_manifest()))
    assert cli.main([*command, "--suite", "libero-max-lite"]) == 0
    assert emitted.pop()["total"]["records"] == 2
