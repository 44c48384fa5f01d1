"""Events that take time: motion along tracks and light in phases, as pure functions of their record and the step."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mjx_bench.changes import Change
from mjx_bench.errors import BenchError
from mjx_bench.events import LaneView, edits_after, go_on, resolve
from mjx_bench.physics.base import SetPosition, Visual
from mjx_bench.signals import HAND, SignalIndex, Signals, touch_pair

VIEW = LaneView({"cup": np.array([1.0, 0.0, 0.5]), "hand": np.array([0.0, 0.0, -1.0])}, np.zeros(3), {})
TRACKS = [
    {
        "object": "hand",
        "relative_to": "cup",
        "points": [
            {"step": 0, "offset_m": [0.6, 0, 0]},
            {"step": 4, "offset_m": [0, 0, 0]},
            {"step": 20, "offset_m": [0.6, 0, 0]},
        ],
    },
    {
        "object": "cup",
        "relative_to": "cup",
        "points": [{"step": 6, "offset_m": [0, 0, 0]}, {"step": 16, "offset_m": [0, 0.2, 0]}],
    },
]


def moving(**more: object) -> tuple[list, dict]:
    return resolve(Change.make("move_along", tracks=TRACKS, **more), VIEW)


def place(event: dict, step: int, name: str) -> np.ndarray | None:
    return next((np.array(e.pos) for e in edits_after(event, step) if e.entity == name), None)  # type: ignore[union-attr]


def test_tracks_are_followed_from_where_things_were_at_the_event():
    edits, event = moving()
    assert [(e.entity, e.pos.tolist()) for e in edits] == [("hand", [1.6, 0.0, 0.5])]
    assert place(event, 4, "hand") == pytest.approx([1.0, 0.0, 0.5])
    assert place(event, 5, "cup") is None, "not before its first step"
    assert place(event, 11, "cup") == pytest.approx([1.0, 0.1, 0.5]), "half way after half of the time"
    speeds = np.diff([place(event, k, "cup")[1] for k in range(6, 17)])  # type: ignore[index]
    assert speeds[0] < 0.002
    assert speeds.max() == pytest.approx(1.875 * 0.02, rel=0.05), "least jerk: 15/8 of the mean speed"
    assert speeds.sum() == pytest.approx(0.2)
    cup = [e for k in range(25) for e in edits_after(event, k) if isinstance(e, SetPosition) and e.entity == "cup"]
    assert [e.carried for e in cup] == [True] * 10 + [False], "its weight is carried until it is let go"
    assert edits_after(event, 21) == []
    assert event["moved"][1] == {"entity": "cup", "before": [1.0, 0.0, 0.5], "after": [1.0, 0.2, 0.5]}


def test_a_record_alone_gives_the_same_edits():
    _, event = moving()
    again = json.loads(json.dumps(event))
    for k in range(22):
        mine, other = edits_after(event, k), edits_after(again, k)
        assert [(e.entity, e.pos.tolist()) for e in mine] == [(e.entity, e.pos.tolist()) for e in other]  # type: ignore[union-attr]


def test_a_motion_that_is_called_off_leaves_what_it_had_not_taken():
    _, event = moving(grasp_step=6)
    event["called_off"] = 3
    assert place(event, 2, "hand") is not None
    assert place(event, 3, "hand") == pytest.approx([1.6, 0.0, 0.5]), "gone at once"
    assert all(edits_after(event, k) == [] for k in range(4, 25))


class Lane:
    """What `go_on` needs of an engine."""

    def __init__(self, *touches: tuple[str, str]) -> None:
        self.index = SignalIndex((), (), (), touches)
        self.signals = Signals.zeros(1, self.index)
        self.edits: list = []

    def edit(self, lane: int, edits: list) -> None:
        self.edits.append(edits)


def test_a_finger_that_comes_first_calls_the_motion_off():
    for step, off in ((3, 3), (6, None)):
        lane, (_, event) = Lane(touch_pair(HAND, "cup")), moving(grasp_step=6)
        for k in range(1, 25):
            lane.signals.touch[0, 0] = k >= step
            go_on(event, lane, 0, k)  # type: ignore[arg-type]
        assert event.get("called_off") == off
        assert len(lane.edits) == (off or 20)
    blind, (_, event) = Lane(), moving(grasp_step=6)
    go_on(event, blind, 0, 1)  # type: ignore[arg-type]
    assert "called_off" not in event, "a touch that nobody judges is not seen"
    at_once = {"operation": "move_object"}
    go_on(at_once, blind, 0, 2)  # type: ignore[arg-type]
    assert len(blind.edits) == 1


def test_light_goes_through_its_phases():
    phases = [{"steps": 3, "scale": 0.25}, {"steps": 2, "scale": 1.0}]
    _, event = resolve(Change.make("vary_lighting", phases=phases, repeat=True), VIEW)

    def scales(event: dict, steps: int) -> dict[int, float]:
        return {k: e.fields["scale"] for k in range(steps) for e in edits_after(event, k) if isinstance(e, Visual)}

    assert scales(event, 11) == {0: 0.25, 3: 1.0, 5: 0.25, 8: 1.0, 10: 0.25}
    _, once = resolve(Change.make("vary_lighting", phases=phases[:1], repeat=False), VIEW)
    assert scales(once, 11) == {0: 0.25, 3: 1.0}, "and then it is as it was"


@pytest.mark.parametrize(
    ("operation", "fields", "complaint"),
    [
        ("move_along", {"tracks": []}, "tracks"),
        ("move_along", {"tracks": [TRACKS[0], TRACKS[0]]}, "a different object from track 0"),
        (
            "move_along",
            {"tracks": [{**TRACKS[1], "points": [{"step": 3, "offset_m": [0, 0, 0]}] * 2}]},
            r"points\[1\]\.step",
        ),
        ("move_along", {"tracks": [{**TRACKS[1], "points": TRACKS[1]["points"][:1]}]}, "points"),
        ("vary_lighting", {"phases": [{"steps": 0, "scale": 1.0}], "repeat": True}, r"phases\[0\]\.steps"),
        ("vary_lighting", {"phases": [{"steps": 1, "scale": -1.0}], "repeat": True}, r"phases\[0\]\.scale"),
        ("vary_lighting", {"phases": [{"steps": 1, "scale": 1.0}]}, "repeat"),
    ],
)
def test_bad_fields_are_refused(operation: str, fields: dict, complaint: str):
    with pytest.raises(BenchError, match=complaint):
        Change.make(operation, **fields)


def test_entities_of_tracks_must_be_in_the_scene():
    change = Change.make("move_along", tracks=TRACKS)
    assert ("tracks[0].object", "hand") in list(change.entities())
    assert ("tracks[1].relative_to", "cup") in list(change.entities())
