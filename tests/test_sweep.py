"""Several settings in one go: each folder as if it had been run alone, and what they share run once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mjx_bench.errors import BenchError
from mjx_bench.records import load_run
from mjx_bench.schedule import run_settings
from mjx_bench.settings import RunSettings
from tests.test_pairs import MIXED, Wanderer, results, run, short_task

# (H, Q), two of them with one Q.
SETTINGS = ((8, 2), (8, 4), (4, 4))


def sweep(
    out: Path, policy: Any = None, progress: Any = None, lanes: int = 3, **more: Any
) -> dict[tuple[int, int], Any]:
    runs = {out / f"h{h}_q{q}": RunSettings("wanderer", lanes, q, horizon=h, threads=1, **more) for h, q in SETTINGS}
    run_settings(MIXED, runs, load_task=short_task, policy=policy or Wanderer(), progress=progress)
    return {setting: load_run(folder) for setting, folder in zip(SETTINGS, runs, strict=True)}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], Any]:
    out = tmp_path_factory.mktemp("alone")
    return {(h, q): run(out / f"{h}{q}", horizon=h, query_interval=q) for h, q in SETTINGS}


def test_every_folder_is_what_its_settings_give_alone(alone: dict[Any, Any], tmp_path: Path):
    together = sweep(tmp_path)
    for setting, found in together.items():
        assert results(found) == results(alone[setting]), setting
        assert found.header.settings == alone[setting].header.settings


def test_one_rollout_serves_every_horizon_with_its_interval(tmp_path: Path):
    few, many = Wanderer(), Wanderer()
    sweep(tmp_path / "sweep", few)
    for i, (h, q) in enumerate(SETTINGS):
        run(tmp_path / str(i), policy=many, horizon=h, query_interval=q)
    assert few.episodes * 3 == many.episodes * 2


def test_what_is_settled_once_is_not_settled_again(tmp_path: Path):
    policy = Wanderer()
    runs = {tmp_path / f"q{q}": RunSettings("wanderer", 3, q, threads=1) for q in (2, 4)}
    both = run_settings(MIXED, runs, load_task=short_task, policy=policy)
    apart = [
        run_settings(MIXED, {tmp_path / f"alone{q}": settings}, load_task=short_task, policy=Wanderer())
        for q, settings in zip((2, 4), runs.values(), strict=True)
    ]
    assert both is not None
    # Ten settling steps of each of the five Base arms that the cases share.
    bases = len({r.base_key for r in load_run(tmp_path / "q2").records})
    assert sum(one.control_steps for one in apart if one) - both.control_steps == 10 * bases


@pytest.mark.parametrize("stop_after", [1, 7, 20])
def test_an_interrupted_sweep_goes_on_to_the_same_records(stop_after: int, alone: dict[Any, Any], tmp_path: Path):
    def stop(done: int, total: int, record: Any) -> None:
        assert total == 3 * 2 * len(MIXED.cases)
        if record is not None and done == stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, progress=stop, lanes=2)
    for setting, found in sweep(tmp_path).items():
        assert results(found) == results(alone[setting]), setting


def test_an_impossible_setting_stops_all_before_anything_is_made(tmp_path: Path):
    runs = {tmp_path / "a": RunSettings("wanderer", 1, 4), tmp_path / "b": RunSettings("wanderer", 1, 4, horizon=2)}
    with pytest.raises(BenchError, match="query interval 4 is larger than the action horizon 2"):
        run_settings(MIXED, runs, load_task=short_task, policy=Wanderer())
    # A fixed_step trigger that is no multiple of Q.
    runs = {tmp_path / "a": RunSettings("wanderer", 1, 4), tmp_path / "b": RunSettings("wanderer", 1, 3)}
    with pytest.raises(BenchError, match="expected a multiple of query_interval = 3"):
        run_settings(MIXED, runs, load_task=short_task, policy=Wanderer())
    assert list(tmp_path.iterdir()) == []
