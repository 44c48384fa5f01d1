"""What is hidden in Puzzle Box and Odd Parcel: no picture shows it, and the oracle does not act on it before it is found."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import mujoco
import numpy as np
import pytest

from evals import registry
from evals.instances import differing
from evals.roboquest import instances as making
from evals.roboquest import odd_parcel as odd
from evals.roboquest import odd_parcel_parts as odd_parts
from evals.roboquest import puzzle_box as box
from evals.roboquest import puzzle_box_layout as plan
from evals.roboquest import puzzle_box_parts as box_parts
from evals.roboquest.instances import Drawn, QuestRecipe
from evals.roboquest.kitchen import START_GAP
from evals.roboquest.odd_parcel_program import TOUR, odd_ones
from evals.roboquest.robot import CAMERAS, out_of_view, start_qpos
from evals.tabletop.shapes import VISUAL_GROUP
from mjx_bench.physics.choice import make_physics
from mjx_bench.policy import Observation
from mjx_bench.task import Task
from policies.mobile.view import Library, MobileView

ODD, BOX = odd.RECIPE, box.RECIPE
# What changes with a body's mass, and shows in no picture.
MASSES = {"body_mass", "body_subtreemass", "body_inertia", "body_invweight0", "dof_M0", "dof_invweight0"}


def of_level(recipe: QuestRecipe, start: int = 0, **level: Any) -> list[int]:
    """Instances from `start` on, one of each setting of the other parameters."""
    cells = enumerate(recipe.cells)
    return [start + (i - start) % len(recipe.cells) for i, c in cells if all(c[k] == v for k, v in level.items())]


def placed(drawn: Drawn) -> dict[str, Any]:
    return {p.thing.name: p for p in drawn.placed}


def lying(drawn: Drawn) -> list[Any]:
    """The parcels that an instance has, as they are placed."""
    there = placed(drawn)
    return [there[name] for name in odd_parts.PARCELS if there[name].xy[0] < 2.0]


@pytest.mark.parametrize("index", [*of_level(ODD, observability="look"), *of_level(ODD, 10_000, observability="look")])
def test_a_parcel_that_is_away_is_out_of_every_camera_and_in_view_from_where_the_oracle_looks(index: int):
    drawn = making.draw(ODD, index)
    model = making.build(ODD, drawn).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = making.initial_state(model, drawn.placed, drawn.start)[1 : 1 + model.nq]

    def shown(name: str, whole: bool) -> bool:
        """Whether any camera's square picture has one corner of a parcel in it; or all of them."""
        mujoco.mj_forward(model, data)
        at = model.joint(f"{name}_free").qposadr[0]
        corners = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)]) * odd_parts.HALF
        turn = np.empty(9)
        mujoco.mju_quat2Mat(turn, data.qpos[at + 3 : at + 7])
        corners = corners @ turn.reshape(3, 3).T + data.qpos[at : at + 3]
        seen = []
        for camera in CAMERAS:
            number = model.camera(camera).id
            x, y, z = ((corners - data.cam_xpos[number]) @ data.cam_xmat[number].reshape(3, 3)).T
            edge = -z * math.tan(math.radians(model.cam_fovy[number] / 2))
            inside = (np.abs(x) < edge) & (np.abs(y) < edge)
            seen.append(inside.all() if whole else inside.any())
        return any(seen)

    away = [p.thing.name for p in lying(drawn) if abs(p.xy[0]) >= odd.ANNEX_X[0]]
    assert 1 <= len(away) <= 2
    assert not any(shown(name, whole=False) for name in away)
    assert all(shown(p.thing.name, whole=True) for p in lying(drawn) if p.thing.name not in away)
    found = set()
    for x in TOUR:
        for joint, value in start_qpos(x, ODD.footprint.front - START_GAP, math.pi / 2).items():
            data.qpos[model.joint(joint).qposadr[0]] = value
        found |= {name for name in away if shown(name, whole=True)}
    assert found == set(away)


def test_out_of_view_is_beyond_one_edge_of_each_picture():
    start = (0.0, -0.53, math.pi / 2)
    cube = np.array([[a, b, c] for a in (0, 0.1) for b in (0, 0.1) for c in (0, 0.1)])
    for at, out in (((0.0, 0.0, 0.92), False), ((-1.1, -0.2, 0.92), True), ((1.1, -0.2, 0.92), True)):
        assert out_of_view(start, cube + at) is out
    wall = np.array([[x, 0.0, z] for x in (-9.0, 9.0) for z in (0.9, 1.0)])
    assert not out_of_view(start, wall), "its corners are out of view to both sides, its middle is not"


@pytest.mark.parametrize("index", of_level(ODD, parcel_count=8))
def test_which_parcels_are_odd_shows_in_no_picture(index: int):
    drawn = making.draw(ODD, index)
    there = lying(drawn)
    turned = {p.thing.name: there[i - 1].thing.mass for i, p in enumerate(there)}
    things = [
        dataclasses.replace(p, thing=dataclasses.replace(p.thing, mass=turned[p.thing.name]))
        if p.thing.name in turned
        else p
        for p in drawn.placed
    ]
    one, other = (making.build(ODD, d).compile() for d in (drawn, dataclasses.replace(drawn, placed=things)))
    found = differing(one, other)
    assert "body_mass" in found
    assert found <= MASSES


def test_what_drives_a_bolt_back_shows_in_no_picture():
    drawn = making.draw(BOX, 5)
    chest = placed(drawn)[box_parts.NAME]
    assert chest.thing.layout.decoys
    models = []
    for relock in (False, True):
        layout = dataclasses.replace(chest.thing.layout, relock=relock)
        other = dataclasses.replace(chest, thing=dataclasses.replace(chest.thing, layout=layout))
        things = [other if p is chest else p for p in drawn.placed]
        models.append(making.build(BOX, dataclasses.replace(drawn, placed=things)).compile())
    one, other = models
    assert {"jnt_stiffness", "dof_frictionloss", "geom_pos"} <= differing(one, other)
    looked_at = one.geom_group == VISUAL_GROUP
    for field in ("geom_pos", "geom_quat", "geom_size", "geom_rgba", "geom_bodyid"):
        np.testing.assert_array_equal(getattr(one, field)[looked_at], getattr(other, field)[looked_at])
    for field in ("body_pos", "body_quat", "qpos0"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


def task_of(recipe: QuestRecipe) -> Task:
    return registry.load_task("roboquest", 3 if recipe is BOX else 4)


def view_of(recipe: QuestRecipe, index: int) -> MobileView:
    """What the oracle sees of an instance at the start."""
    task = task_of(recipe)
    physics = make_physics("c", task.scene, (), 1, "mobile_osc", task.substeps)
    physics.load(0, task.load_init_states()[index], task.load_reset(0), task.load_fields(index))
    k = physics.kinematics(np.zeros(1, np.int32))
    seen = {f.name: getattr(k, f.name) for f in dataclasses.fields(k)}
    return MobileView(Library(), Observation(task=task, step=np.zeros(1, np.int64), **seen), 0)


class Instead:
    """A view in which some things have other names, or lie elsewhere."""

    def __init__(self, view: MobileView, names: dict[str, str], spots: dict[str, np.ndarray] | None = None) -> None:
        self._view, self._names, self._spots = view, names, spots or {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def pos(self, entity: str) -> np.ndarray:
        return self._spots[entity] if entity in self._spots else self._view.pos(self._names.get(entity, entity))

    def rot(self, entity: str) -> np.ndarray:
        return self._view.rot(self._names.get(entity, entity))

    def yaw(self, entity: str) -> float:
        return self._view.yaw(self._names.get(entity, entity))


def first_moves(recipe: QuestRecipe, view: Any, moves: int = 4) -> list[tuple[str, str]]:
    """What the oracle does first, and says of it, if nothing comes of it."""
    memory, done = recipe.program.start(task_of(recipe)), []
    for _ in range(moves):
        memory, move, said = recipe.program.next(memory, view)
        done.append((repr(move), said))
    return done


@pytest.mark.parametrize("index", of_level(BOX, chain_length=5))
def test_the_oracle_of_puzzle_box_knows_no_part_by_its_name(index: int):
    view = view_of(BOX, index)
    bars = [n for n in box_parts.SLIDERS[:-1] if view.pos(f"{n}_grip")[2] > 0.92]
    assert len(bars) >= 4
    for turn in (1, 2):
        others = dict(zip(bars, [*bars[turn:], *bars[:turn]], strict=True))
        names = {f"{a}_{part}": f"{b}_{part}" for a, b in others.items() for part in ("grip", "end")}
        assert first_moves(BOX, Instead(view, names)) == first_moves(BOX, view)


def test_the_oracle_of_puzzle_box_does_not_look_into_the_shut_chest():
    view = view_of(BOX, 0)
    elsewhere = view.pos("item") + np.array([0.05, 0.03, -0.01])
    assert first_moves(BOX, Instead(view, {}, {"item": elsewhere})) == first_moves(BOX, view)


@pytest.mark.parametrize("index", of_level(ODD, parcel_count=6))
def test_the_oracle_of_odd_parcel_knows_no_parcel_by_its_name(index: int):
    view = view_of(ODD, index)
    there = [n for n in odd_parts.PARCELS if view.pos(n)[0] < 2.0]
    names = dict(zip(there, [*there[1:], there[0]], strict=True))
    assert first_moves(ODD, Instead(view, names)) == first_moves(ODD, view)


def test_the_oracle_of_odd_parcel_sees_nothing_under_the_cover_and_nothing_far_away():
    for level, spot in (("look", (-1.0, -0.1)), ("uncover", None)):
        index = of_level(ODD, parcel_count=6, observability=level)[0]
        view, cloche = view_of(ODD, index), odd_parts.CLOCHE
        hidden = [
            n
            for n in odd_parts.PARCELS
            if view.pos(n)[0] < 2.0
            and (abs(view.pos(n)[0]) >= odd.ANNEX_X[0] or math.dist(view.pos(n)[:2], view.pos(cloche)[:2]) < 0.01)
        ]
        assert hidden
        memory, _, _ = ODD.program.next(ODD.program.start(task_of(ODD)), view)
        assert not set(memory.seen) & set(hidden)
        for name in hidden:
            at = view.pos(name)
            elsewhere = at + np.array([0.02, -0.01, 0.0]) if spot is None else np.array([*spot, at[2]])
            moved = Instead(view, {}, {name: elsewhere})
            assert first_moves(ODD, moved) == first_moves(ODD, view), "it moves, and nothing that is done does"


def test_a_beam_at_its_stop_says_how_much_no_more():
    """On the left lies one that is 0.20 kg light: usual ones read 10.9 degrees, and all that are heavier 12."""
    seen, usual, heavy = ["a", "b", "c", "d", "e", "f", "g", "h"], math.radians(10.86), math.radians(12.02)
    readings = {n: heavy if n == "c" else 0.0 if n == "d" else usual for n in seen[1:]}
    assert odd_ones(seen, "a", readings) == ["a", "c", "d"]
    assert odd_ones(seen, "a", readings | {"d": heavy}) == ["a", "c", "d"], "nor are two at the stop alike"


def test_the_benchmarks_structure_classes_are_apart_and_all_appear():
    """Of Odd Parcel, cheap to draw; Puzzle Box's are in the slow test below."""
    classes: dict[bool, set[tuple[int, str]]] = {True: set(), False: set()}
    for held_out, start in ((True, 0), (False, 10_000)):
        for index in range(start, start + 90):
            off = [round(p.thing.mass - odd_parts.USUAL, 3) for p in lying(making.draw(ODD, index))]
            count, off = len(off), [d for d in off if d]
            direction = "H" * (max(off) > 0) + "L" * (min(off) < 0)
            magnitude = "same" if len({abs(d) for d in off}) == 1 else "different"
            classes[held_out].add((count, f"{direction}-{magnitude}"))
    assert not classes[True] & classes[False]
    assert classes[True] == {(count, name) for count, names in odd.HELD_OUT.items() for name in names}
    assert classes[True] | classes[False] == {(count, name) for count, names in odd.CLASSES.items() for name in names}


def test_what_is_told_names_the_item_and_in_half_of_the_instances_the_number_of_parcels():
    boxes, parcels = registry.load_task("roboquest", 3), registry.load_task("roboquest", 4)
    items = {placed(making.draw(BOX, i))[box_parts.ITEM].thing.kind: boxes.instruction_of(i) for i in range(12)}
    assert items.keys() == {"tangerine", "tomato", "candle"}
    assert all(text.startswith(f"take the {kind} out of the wooden chest") for kind, text in items.items())
    counts = [parcels.instruction_of(i).startswith("there are ") for i in range(180)]
    assert 60 <= sum(counts) <= 120
    words = {4: "four", 6: "six", 8: "eight"}
    for i in range(18):
        told = parcels.instruction_of(i)
        count = words[ODD.cells[i % len(ODD.cells)]["parcel_count"]]
        assert told in (odd.INSTRUCTION, f"there are {count} parcels; {odd.INSTRUCTION}")


@pytest.mark.slow
def test_puzzle_boxes_for_evaluation_are_none_of_those_for_training_and_keep_to_their_place():
    classes: dict[bool, set[tuple[int, str]]] = {True: set(), False: set()}
    decoys: dict[int, list[bool]] = {0: [], 1: [], 2: []}
    for held_out, start in ((True, 0), (False, 10_000)):
        for index in range(start, start + 120):
            drawn = making.draw(BOX, index)
            chest = placed(drawn)[box_parts.NAME]
            layout: plan.Layout = chest.thing.layout
            classes[held_out].add((len(layout.bolts), layout.lid))
            decoys[len(layout.decoys)].append(layout.relock)
            assert (drawn.quest.kitchen.style >= 10) is held_out
            c, s = math.cos(chest.yaw), math.sin(chest.yaw)
            x0, x1, y0, y1 = plan.lid_handle(layout.lid)
            bars = [*layout.bolts, *layout.decoys]
            ends = [(bar.length - 0.02, t) for bar in bars for t in (-bar.back, plan.TRAVEL)]
            spots = [bar.at(along + t) for bar, (along, t) in zip(np.repeat(bars, 2), ends, strict=True)]
            for x, y in (*spots, (x0, y0), (x1, y1)):
                there = chest.xy[0] + c * x - s * y, chest.xy[1] + s * x + c * y
                assert abs(there[0]) <= 0.57, index
                assert -0.31 <= there[1] <= 0.18, index
    assert not classes[True] & classes[False]
    assert classes[True] == set(plan.HELD_OUT.items())
    assert classes[False] == {(n, lid) for n in plan.HELD_OUT for lid in plan.LIDS} - classes[True]
    assert not any(decoys[0])
    for count in (1, 2):
        assert 0.35 < np.mean(decoys[count]) < 0.65, "half of the instances with a decoy"
    assert all(len(found) > 40 for found in decoys.values())


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [BOX, ODD], ids=lambda recipe: recipe.name)
def test_pictures_show_what_is_there_and_not_what_is_hidden(recipe: QuestRecipe):
    """Pixels of each part in the benchmark's three cameras, 256 x 256, every level twice."""
    from mjx_bench.observe.gl_renderer import GlRenderer
    from mjx_bench.physics.base import Pose

    task = task_of(recipe)
    instances = task.extra["instances"]
    model = instances.template
    renderer = GlRenderer(task.scene, CAMERAS, 256, 256)

    def geoms(prefix: str) -> list[int]:
        return [i for i in range(model.ngeom) if model.geom(i).name.startswith(prefix)]

    for index in range(2 * len(recipe.cells)):
        instance = instances.instance(index)
        own = dict(instance.fields)
        poses = [Pose(instance.state[1 : 1 + model.nq], own.pop("body_pos"), own.pop("body_quat"), fields=own)]
        pictures = [picture[0] for picture in renderer.segmentation(poses).values()]

        def pixels(prefix: str, pictures: list[np.ndarray] = pictures) -> int:
            return max(int(np.isin(picture, geoms(prefix)).sum()) for picture in pictures)

        there = {p.thing.name: p for p in instance.placed}
        assert pixels("submit_") > 38, "150 at the agents' 512 x 512"
        if recipe is BOX:
            assert all(pixels(f"chest_{part}_knob") > 38 for part in [*there["chest"].thing.bars, "lid"]), index
            assert pixels("tray_") > 38
            continue
        for name in odd_parts.PARCELS:
            x, y = there[name].xy
            hidden = abs(x) >= odd.ANNEX_X[0] or math.dist((x, y), there[odd_parts.CLOCHE].xy) < 0.01
            assert pixels(f"{name}_") == 0 if hidden else pixels(f"{name}_") > 38, (index, name)
        assert pixels("box_") > 38
        assert pixels("balance_dial") > 20
    renderer.close()
