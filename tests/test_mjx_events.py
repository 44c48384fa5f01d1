"""Every task of the native suite with every event that it can have, on every engine: all arms run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from evals import registry
from evals.libero_max.eligibility import can_have
from evals.libero_max.sampler import sample_manifest
from mjx_bench.cases import EVENT_ORDER, Manifest, dump_manifest
from mjx_bench.physics.choice import missing_warp
from mjx_bench.records import Run, load_run
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from policies import registry as policies
from tests.test_tabletop import NAMES, every_task

pytestmark = pytest.mark.slow

HORIZON = 16


def cases_of(name: str) -> Manifest:
    """One case of each event, which strikes at the first step: in the middle of a chunk."""
    task = registry.load_task("tabletop", NAMES.index(name))
    events = [event for event in EVENT_ORDER if can_have(task, event)]
    drawn = [sample_manifest([task], 1, 0, events=[event], init_states=range(4)) for event in events]
    data = json.loads(dump_manifest(drawn[0]))
    data["cases"] = [json.loads(dump_manifest(manifest))["cases"][0] for manifest in drawn]
    for case in data["cases"]:
        case["scenario"]["trigger"]["distance_m"] = 5.0
    return Manifest.read(data, "every event")


def run(name: str, backend: str, out: Path) -> Run:
    task = dataclasses.replace(registry.load_task("tabletop", NAMES.index(name)), horizon=HORIZON)
    settings = RunSettings("random", lanes=8, query_interval=8, threads=1, backend=backend)
    run_pairs(cases_of(name), settings, out, load_task=lambda case: task, policy=policies.make("random"))
    return load_run(out)


@every_task
@pytest.mark.parametrize("backend", ["jax", "warp"])
def test_every_event_runs_on_every_engine(name: str, backend: str, tmp_path: Path):
    if backend == "warp" and missing_warp():
        pytest.skip(missing_warp())
    c = {record.key: record for record in run(name, "c", tmp_path / "c").records}
    found = run(name, backend, tmp_path / backend).records
    assert len(found) == len(c) == 2 * len(cases_of(name).cases)
    for record in found:
        other = c[record.key]
        assert record.verdict != "void", record.reason
        assert record.verdict == other.verdict
        if record.arm == "base":
            continue
        assert record.trigger_step == other.trigger_step is not None
        assert record.event is not None
        assert other.event is not None
        assert record.event.keys() == other.event.keys()
        for mine, theirs in zip(record.event.get("moved", []), other.event.get("moved", []), strict=True):
            assert mine["entity"] == theirs["entity"]
            # Metres: where a thing was moved from may differ by what five control steps of two engines differ by.
            np.testing.assert_allclose(mine["after"], theirs["after"], atol=2e-3)
