"""Puzzle Box: layouts that hold together, a chain that gives way from its end, scores at their thresholds, an oracle."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import types
from collections.abc import Mapping

import mujoco
import numpy as np
import pytest

from evals.instances import differing
from evals.roboquest import instances as making
from evals.roboquest import puzzle_box as box
from evals.roboquest import puzzle_box_layout as plan
from evals.roboquest import puzzle_box_parts as parts
from evals.roboquest import puzzle_box_program as solving
from evals.roboquest.recipes import quest_task
from mjx_bench.checkers import START, SUBMITTED, Standing, stack, unstack
from mjx_bench.judged import describe, read_judged
from mjx_bench.signals import HAND, PRESS, SUPPORT, Signals, touch_pair
from mjx_bench.types import Verdict
from tests import roboquest_runs

PULL = 12.0  # N, the benchmark's test
PLAY = 0.006  # metres that a blocked part may move, likewise
LEVELS = [(lid, chain, cover) for chain, cover in ((4, "absent"), (5, "present"), (6, "present")) for lid in plan.LIDS]


def layout(lid: str, chain: int, cover: str, decoys: int = 1, seed: int = 0) -> plan.Layout:
    rng = np.random.default_rng(seed)
    for _ in range(2000):
        try:
            return plan.draw_layout(rng, lid, chain, cover, decoys)
        except plan.NoLayout:
            continue
    raise AssertionError("no layout")


def area(a: plan.Rect, b: plan.Rect) -> float:
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[2], b[2]))


@pytest.mark.parametrize(("lid", "chain", "cover"), LEVELS)
def test_a_layout_is_a_chain_and_nothing_else_touches(lid: str, chain: int, cover: str):
    made = layout(lid, chain, cover, decoys=2)
    assert len(made.bolts) == chain
    assert len(made.decoys) == 2
    for held, bolt in itertools.pairwise(made.bolts):
        assert np.dot(held.way, bolt.way) == pytest.approx(0.0), "a tip enters a notch from the side"
        notch = held.rect(*held.notch)
        tip = bolt.rect(0.0, plan.BOLT_GRIP)
        assert area(notch, tip) == pytest.approx(plan.BOLT_GRIP * 2 * plan.HALF_WIDTH, rel=1e-6)
        # Withdrawn as far as counts, it is out of the other's side.
        assert area(held.swept, bolt.rect(parts.RELEASED, bolt.length + parts.RELEASED)) == 0.0
    bars = [*made.bolts, *made.decoys]
    linked = {(i, i + 1) for i in range(chain - 1)}
    for (i, a), (j, b) in itertools.combinations(enumerate(bars), 2):
        assert (i, j) in linked or area(a.swept, b.swept) == 0.0
    for rect in made.cover:
        assert area(rect, (-plan.SLOT[0], plan.SLOT[0], -plan.SLOT[1], plan.SLOT[1])) == pytest.approx(0.0)
    locks = plan._locks(made.bolts)
    for k, lock in enumerate(locks[: made.covered]):
        hidden = sum(area(lock, rect) for rect in made.cover)
        assert hidden > 0.5 * area(lock, lock), f"the cover is over lock {k + 1}"


def world(made: plan.Layout) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """The chest by itself."""
    spec = mujoco.MjSpec()
    spec.option.timestep, spec.option.integrator = 0.002, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.compiler.degree = False
    parts.Chest(parts.NAME, (0, 0, 0), made, 0.05).add(spec.worldbody, [0, 0, 0.92], [1, 0, 0, 0])
    model = spec.compile()
    return model, mujoco.MjData(model)


def pull(model: mujoco.MjModel, data: mujoco.MjData, part: str, force: float = PULL, seconds: float = 1.5) -> float:
    """Pulls at a part along its joint; how far it is out then, metres."""
    joint = model.joint(parts.JOINTS[part])
    for _ in range(int(seconds / model.opt.timestep)):
        data.qfrc_applied[joint.dofadr[0]] = force
        mujoco.mj_step(model, data)
    data.qfrc_applied[:] = 0.0
    return float(data.qpos[joint.qposadr[0]])


@pytest.mark.parametrize(("lid", "chain", "cover"), LEVELS[::4])
def test_only_the_end_of_the_chain_gives_way_and_so_on_to_the_lid(lid: str, chain: int, cover: str):
    made = layout(lid, chain, cover)
    model, data = world(made)
    order = [*reversed(parts.BOLTS[:chain]), "lid"]
    for i, part in enumerate(order):
        for blocked in order[i + 1 :]:
            assert pull(model, data, blocked, seconds=0.4) < PLAY
        reached = pull(model, data, part)
        wanted = parts.opened(lid) if part == "lid" else parts.LID_RELEASED
        assert reached >= wanted, part


def test_a_decoy_drives_the_lids_bolt_back_and_slides_home():
    made = next(m for m in (layout("x+", 4, "absent", seed=s) for s in range(40)) if m.relock)
    model, data = world(made)
    for part in reversed(parts.BOLTS[:4]):
        assert pull(model, data, part) > 0.045
    pull(model, data, "decoy_1", force=25.0)
    bolt, decoy = (model.joint(parts.JOINTS[p]).qposadr[0] for p in ("bolt_1", "decoy_1"))
    assert data.qpos[bolt] < 0.009, "re-locked, as the benchmark counts it"
    for _ in range(2000):
        mujoco.mj_step(model, data)
    assert abs(data.qpos[decoy]) < 0.003
    assert pull(model, data, "bolt_1") > parts.LID_RELEASED, "and can be withdrawn again"


def test_levels_and_classes_are_those_of_the_benchmark():
    seen = set()
    for index in range(6):
        drawn = making.draw(box.RECIPE, index)
        chest = next(p.thing for p in drawn.placed if isinstance(p.thing, parts.Chest))
        cell = box.CELLS[index % len(box.CELLS)]
        assert len(chest.layout.bolts) == cell["chain_length"]
        assert bool(chest.layout.cover) is (cell["cover"] == "present")
        assert chest.layout.lid == plan.HELD_OUT[cell["chain_length"]]
        seen.add((cell["chain_length"], cell["cover"]))
    assert len(seen) == 6
    for index in range(10_000, 10_006):
        drawn = making.draw(box.RECIPE, index)
        chest = next(p.thing for p in drawn.placed if isinstance(p.thing, parts.Chest))
        assert chest.layout.lid != plan.HELD_OUT[len(chest.layout.bolts)]


@functools.cache
def made_task():
    return quest_task(box.RECIPE, "roboquest", 3, box.VERSION)


class Stage(roboquest_runs.Stage):
    def __init__(self, index: int) -> None:
        super().__init__(made_task(), box.RECIPE, index)
        self.chest: parts.Chest = self.placed[parts.NAME].thing
        self.standing = START

    def signals(self, **touches: bool) -> Signals:
        s = self.seen()
        for i, name in enumerate(self.index.joints):
            s.joint_qpos[0, i] = self.data.qpos[self.model.joint(name).qposadr[0]]
        pairs = {"item_tray": ("item", SUPPORT + "tray"), "hand_submit": (HAND, PRESS + "submit")}
        pairs |= {f"hand_{e}": (HAND, e) for e in ("item", "chest")}
        for name, on in touches.items():
            s.touch[0, self.index.touches.index(touch_pair(*pairs[name]))] = on
        return s

    def tick(self, ticks: int = 1, **touches: bool) -> Standing:
        found = self.signals(**touches)
        for _ in range(ticks):
            self.standing = unstack(self.judge.update(stack([self.standing]), found))[0]
        return self.standing

    def slide(self, joints: Mapping[str, float]) -> None:
        for part, value in joints.items():
            self.data.qpos[self.model.joint(parts.JOINTS[part]).qposadr[0]] = value

    def put(self, x: float, y: float, z: float, quat=(1, 0, 0, 0)) -> None:
        adr = self.model.joint("item_free").qposadr[0]
        self.data.qpos[adr : adr + 7] = [x, y, z, *quat]

    def in_tray(self, dx: float = 0.0, dy: float = 0.0) -> None:
        height = self.chest.height
        self.put(box.TRAY_AT[0] + dx, box.TRAY_AT[1] + dy, 0.92 + 2 * parts.TRAY_FLOOR + height / 2)

    def press(self, **touches: bool) -> Standing:
        self.down(0.0031)
        return self.tick(hand_submit=True, **touches)

    def down(self, by: float) -> None:
        self.data.qpos[self.model.joint("submit_press").qposadr[0]] = by


@pytest.mark.parametrize("index", [0, 5])
def test_progress_counts_released_bolts_of_those_there_are(index: int):
    stage = Stage(index)
    chain = len(stage.chest.layout.bolts)
    assert stage.tick().progress == 0.0
    for k, part in enumerate(reversed(parts.BOLTS[:chain]), 1):
        bound = parts.LID_RELEASED if part == "bolt_1" else parts.RELEASED
        stage.slide({part: bound - 1e-4})
        assert stage.tick().progress == pytest.approx((k - 1) / (chain + 1), abs=1e-6)
        stage.slide({part: bound + 1e-4})
        assert stage.tick().progress == pytest.approx(k / (chain + 1), abs=1e-6)
    # A bolt that is driven back no longer counts.
    stage.slide({"bolt_1": 0.009})
    assert stage.tick().progress == pytest.approx((chain - 1) / (chain + 1), abs=1e-6)


def test_what_has_ever_been_is_read_once_a_second():
    stage = Stage(0)
    half = parts.opened(stage.chest.layout.lid) / 2
    stage.slide({"lid": half + 1e-3})
    assert stage.tick().progress == pytest.approx(1 / 15, abs=1e-6), "the judged tick is a sample for itself"
    stage.slide({"lid": half - 1e-3})
    assert stage.tick().progress == 0.0, "between two samples nothing is kept"
    stage.slide({"lid": half + 1e-3})
    stage.tick(box.SAMPLE - 2)
    stage.slide({"lid": 0.0})
    assert stage.tick().progress == pytest.approx(1 / 15, abs=1e-6)


def test_an_item_that_was_out_counts_for_all_bolts():
    stage = Stage(0)
    x, y, _ = stage.data.qpos[stage.model.joint("item_free").qposadr[0] :][:3]
    stage.put(x, y, 0.92 + 0.25)
    stage.tick(box.SAMPLE)
    assert stage.standing.progress == 0.0, "0.30 m is out, less is not"
    stage.put(x, y, 0.92 + 0.40)
    stage.tick(box.SAMPLE)
    stage.put(x, y, 1.0)
    assert stage.tick().progress == pytest.approx((4 + 2 / 3) / 5, abs=1e-6)


def test_placed_is_inside_by_its_corners_on_the_tray_and_released():
    stage = Stage(0)
    stage.in_tray()
    assert stage.tick(item_tray=True).progress == pytest.approx(1.0)
    assert stage.tick(item_tray=True, hand_item=True).progress == pytest.approx(14 / 15, abs=1e-6)
    assert stage.tick().progress == pytest.approx(14 / 15, abs=1e-6), "not on the tray"
    # The tray is turned by a quarter: its longer side lies along x.
    room = parts.TRAY_HALF[1] - parts.TRAY_MARGIN - stage.placed["item"].thing.half[0]
    for dx, placed in ((room - 1e-3, True), (room + 1e-3, False)):
        stage.in_tray(dx)
        assert bool(stage.tick(item_tray=True).progress == 1.0) is placed


@pytest.mark.parametrize(
    ("touches", "solved", "success"),
    [({}, True, True), ({"hand_chest": True}, True, False), ({"hand_item": True}, True, False), ({}, False, False)],
)
def test_a_press_settles_it(touches: dict[str, bool], solved: bool, success: bool):
    stage = Stage(0)
    if solved:
        stage.in_tray()
    end = stage.press(item_tray=solved, **touches)
    assert end.ended == SUBMITTED
    assert bool(end.success) is success
    assert stage.judge.end(end, at_horizon=False)[0] is (Verdict.SUCCESS if success else Verdict.FAILURE)
    stage.in_tray()
    assert stage.tick(item_tray=True) == end, "nothing counts after the first press"


@pytest.mark.parametrize(("down", "by", "counts"), [
    (0.0029, {"hand_submit": True}, False),
    (0.0030, {"hand_submit": True}, True),
    (0.0090, {}, False),
    (0.0090, {"hand_item": True}, False),
])  # fmt: skip
def test_a_press_is_three_millimetres_and_a_hand_from_above(down: float, by: dict[str, bool], counts: bool):
    stage = Stage(0)
    stage.down(down)
    assert bool(stage.tick(**by).ended == SUBMITTED) is counts


def test_a_solution_that_is_never_submitted_is_none():
    stage = Stage(0)
    stage.in_tray()
    assert stage.judge.end(stage.tick(item_tray=True), at_horizon=True)[0] is Verdict.TIMEOUT


def test_rules_are_read_again_as_they_were_written():
    task = made_task()
    again = read_judged(describe(task), "tasks.json: puzzle_box")
    assert again.rules == task.rules
    assert again.goal == task.goal


def test_an_instance_is_made_the_same_again_and_differs_from_others_in_numbers_alone():
    once, again, other = (making.draw(box.RECIPE, index) for index in (0, 0, 4))
    a, b, c = (making.build(box.RECIPE, drawn).compile() for drawn in (once, again, other))
    assert differing(a, b) == set()
    states = (making.initial_state(m, d.placed, d.start) for m, d in ((a, once), (b, again)))
    assert np.array_equal(*states)
    assert {"jnt_range", "site_pos", "geom_size", "body_quat"} <= differing(a, c)
    assert (a.nq, a.nv, a.ngeom, a.names) == (c.nq, c.nv, c.ngeom, c.names)


@pytest.mark.parametrize("index", [2, 5])
def test_what_the_oracle_sees_of_the_locks_is_so_and_no_more(index: int):
    stage = Stage(index)
    mujoco.mj_forward(stage.model, stage.data)

    def body(name: str) -> int:
        return stage.model.body(name if name == parts.NAME else f"{parts.NAME}_{name}").id

    view = types.SimpleNamespace(
        pos=lambda name: stage.data.xpos[body(name)], rot=lambda name: stage.data.xmat[body(name)].reshape(3, 3)
    )
    bars, made = list(stage.chest.bars), stage.chest.layout
    for i, name in enumerate(parts.BOLTS[: len(made.bolts)]):
        seen = solving._holds(view, name, bars)
        assert seen == (None if i < made.covered else "lid" if i == 0 else parts.BOLTS[i - 1])
        assert solving._in_view(view, name) is (i >= made.covered)
    for name in bars[len(made.bolts) :]:
        assert solving._holds(view, name, bars) is None


@pytest.mark.slow
def test_the_oracle_solves_every_level_and_doing_nothing_does_not():
    from tests.roboquest_runs import outcomes

    task = dataclasses.replace(made_task(), horizon=5000)
    found = outcomes(task, "scripted.oracle", range(6))
    assert [progress for _, progress in found] == [pytest.approx(1.0)] * 6
    assert all(verdict is Verdict.SUCCESS for verdict, _ in found)
    idle = outcomes(dataclasses.replace(task, horizon=100), "zero", range(2))
    assert idle == [(Verdict.TIMEOUT, 0.0)] * 2
