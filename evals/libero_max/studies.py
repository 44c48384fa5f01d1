"""The cases of LIBERO-MAX's studies, made from those of a manifest. Sections 5.3 and 5.5 of the protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mjx_bench.cases import CONTROL_ONLY, Case, Change, Manifest
from mjx_bench.errors import BenchError

CAMERA, NOISE = "camera_shift", "sensor_noise_onset"
# Strengths of the camera study: what the shift's position, yaw and field of view are multiplied by.
ALPHAS = (0.25, 0.5, 1.0)

_SCALED = ("yaw_degrees", "delta_fovy_degrees")


def only(manifest: Manifest, event: str) -> Manifest:
    """The cases of one event; `BenchError` where there is none."""
    cases = tuple(case for case in manifest.cases if case.event == event)
    if not cases:
        raise BenchError(f"{manifest.source}: no case has the event {event}, which this study is about")
    return dataclasses.replace(manifest, cases=cases)


def mid_task(manifest: Manifest, alphas: Sequence[float]) -> Manifest:
    """Each camera case once a strength, the shift in mid-episode. They share one Base arm."""
    return _with(manifest, [_case(case, a) for case in manifest.cases for a in alphas])


def reset(manifest: Manifest, alphas: Sequence[float]) -> Manifest:
    """Each camera case once a strength, the whole shift before the first picture, in one arm."""
    cases = []
    for case in manifest.cases:
        for alpha in alphas:
            shifted = _case(case, alpha)
            assert shifted.scenario is not None
            setup = (*shifted.setup, shifted.scenario.change)
            cases.append(dataclasses.replace(shifted, scenario=dataclasses.replace(shifted.scenario, setup=setup)))
    one_arm = dataclasses.replace(manifest, protocol=dataclasses.replace(manifest.protocol, arms=CONTROL_ONLY))
    return _with(one_arm, cases)


def strength_of(case_id: str) -> tuple[str, float]:
    """The case that one of the above was made from, and its strength."""
    name, _, alpha = case_id.rpartition("@")
    return name, float(alpha)


def _case(case: Case, alpha: float) -> Case:
    scenario = case.scenario
    assert scenario is not None
    fields = dict(scenario.change.fields)
    if "fovy_degrees" in fields:
        raise BenchError(
            f"case {case.case_id!r}: scenario.change.fovy_degrees is absolute and cannot be made weaker; use"
            " delta_fovy_degrees"
        )
    if "delta_position_m" in fields:
        fields["delta_position_m"] = [alpha * x for x in fields["delta_position_m"]]
    fields |= {name: alpha * fields[name] for name in _SCALED if name in fields}
    weaker = dataclasses.replace(
        scenario,
        scenario_id=f"{scenario.scenario_id}@{alpha:g}",
        change=Change.make(scenario.change.operation, **fields),
    )
    return dataclasses.replace(case, case_id=f"{case.case_id}@{alpha:g}", scenario=weaker)


def _with(manifest: Manifest, cases: Sequence[Case]) -> Manifest:
    """The manifest with these cases, checked as one from a file would be."""
    return Manifest.read(dataclasses.replace(manifest, cases=tuple(cases)).to_json(), manifest.source)
