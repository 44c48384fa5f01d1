"""The twelve tasks: what stands on the table, how an instance of it is drawn, and what counts as done."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from evals.tabletop.cabinets import Door, Drawer
from evals.tabletop.draw import SPOT_TRIES, Area, Draw, NoRoom, Placed
from evals.tabletop.fixtures import Board, Button, Fixture, Knob, Zone
from evals.tabletop.objects import Ball, Bin, Block, Dome, Peg, Plate
from mjx_bench.task import Atom


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One task.

    Attributes:
      name: of the task.
      instruction: what the policy is told.
      goal: atoms that must hold at the same instant.
      horizon: policy steps (20 a second).
      draw: the things of one instance, always of the same names, kinds and order.
    """

    name: str
    instruction: str
    goal: tuple[Atom, ...]
    horizon: int
    draw: Callable[[Draw], list[Placed]]


# Room for the fingers of one hand between an object that is taken and its neighbours, metres.
_GRIP_ROOM = 0.03
# From the middle of a pushed dome to the hand behind it, metres.
_PUSH_ROOM = 0.09
# Cabinets stand at the right of the camera's picture and open towards the middle of the table.
_CABINETS: Area = (-0.10, 0.06, 0.13, 0.18)
_BEFORE_CABINETS: Area = (-0.14, 0.14, -0.22, -0.16)
_CABINET_YAW = 0.3


def _block(d: Draw, colour: str) -> Block:
    half = (d.between(0.017, 0.024), d.between(0.017, 0.024), d.between(0.017, 0.022))
    return Block(f"{colour}_block", *d.stuff(colour), half=half)


def _pick_lift(d: Draw) -> list[Placed]:
    block = d.place(_block(d, "red"))
    return [block, *d.clutter(d.spares(), gap=_GRIP_ROOM)]


def _pick_place(d: Draw) -> list[Placed]:
    plate = Plate("plate", d.colour("white"), d.density(), d.friction(), size=d.between(0.06, 0.08))
    things = [d.place(_block(d, "red")), d.place(plate, gap=_GRIP_ROOM)]
    return [*things, *d.clutter(d.spares(), gap=_GRIP_ROOM)]


def _place_in_bin(d: Draw) -> list[Placed]:
    ball = Ball("red_ball", *d.stuff("red"), size=d.between(0.018, 0.022))
    box = Bin(
        "bin", d.colour("blue"), friction=d.friction(), half=d.between(0.072, 0.085), height=d.between(0.04, 0.055)
    )
    things = [d.place(ball), d.place(box, gap=_GRIP_ROOM)]
    return [*things, *d.clutter(d.spares(), gap=_GRIP_ROOM)]


def _stack_two(d: Draw) -> list[Placed]:
    blocks = [d.place(_block(d, colour), gap=_GRIP_ROOM) for colour in ("red", "green")]
    return [*blocks, *d.clutter(d.spares()[1:3], gap=_GRIP_ROOM)]


def _stack_three(d: Draw) -> list[Placed]:
    blocks = [d.place(_block(d, colour), gap=_GRIP_ROOM) for colour in ("blue", "green", "red")]
    return [*blocks, *d.clutter(d.spares()[2:3], gap=_GRIP_ROOM)]


def _push_to_region(d: Draw) -> list[Placed]:
    dome = Dome("red_dome", d.colour("red"), d.between(200.0, 600.0), d.friction(), size=d.between(0.047, 0.055))
    zone = Zone("zone", d.colour("green"))
    start = d.spot(dome.radius)
    for _ in range(SPOT_TRIES):
        end = d.between(-0.10, 0.12), d.between(-0.18, 0.18)
        # Apart by their middles: the dome may start half in the zone, but never where it counts. And the hand must reach
        # the side from which a straight push starts.
        away = math.dist(start, end)
        behind = start[0] + (start[0] - end[0]) * _PUSH_ROOM / away
        if away > 0.11 and behind < 0.15:
            break
    else:
        raise NoRoom
    d.take(*end, zone.radius)
    return [Placed(dome, start, d.yaw()), *d.clutter(d.spares(), gap=0.02), Placed(zone, end)]


def _cabinet(d: Draw, thing: Fixture, joints: dict[str, float]) -> list[Placed]:
    spot = d.spot(thing.radius, _CABINETS)
    yaw = d.yaw(_CABINET_YAW)
    return [*d.clutter(d.spares()[2:3], area=_BEFORE_CABINETS), Placed(thing, spot, yaw, joints)]


def _drawer(d: Draw) -> Drawer:
    half = (d.between(0.09, 0.11), d.between(0.08, 0.09), 0.05)
    return Drawer("drawer", d.colour("brown"), half=half, damping=d.between(4.0, 10.0))


def _open_drawer(d: Draw) -> list[Placed]:
    drawer = _drawer(d)
    return _cabinet(d, drawer, {drawer.joint: d.between(0.0, 0.02)})


def _close_drawer(d: Draw) -> list[Placed]:
    drawer = _drawer(d)
    return _cabinet(d, drawer, {drawer.joint: d.between(0.07, 0.14)})


def _open_door(d: Draw) -> list[Placed]:
    half = (d.between(0.09, 0.11), d.between(0.06, 0.08), 0.065)
    door = Door("door", d.colour("teal"), half=half, damping=d.between(0.15, 0.4))
    return _cabinet(d, door, {door.joint: d.between(0.0, 0.08)})


def _press_button(d: Draw) -> list[Placed]:
    button = Button("button", d.colour("red"), cap=d.between(0.022, 0.03), stiffness=d.between(180.0, 350.0))
    spot = d.spot(button.radius)
    return [*d.clutter(d.spares()[:1]), Placed(button, spot, d.yaw())]


def _turn_knob(d: Draw) -> list[Placed]:
    grip = (d.between(0.028, 0.036), d.between(0.007, 0.010), d.between(0.015, 0.019))
    knob = Knob("knob", d.colour("orange"), grip=grip, damping=d.between(0.02, 0.06))
    spot = d.spot(knob.radius)
    return [*d.clutter(d.spares()[:1]), Placed(knob, spot, d.yaw(0.7), {knob.joint: d.between(0.0, 0.2)})]


def _insert_peg(d: Draw) -> list[Placed]:
    peg = Peg("peg", *d.stuff("red"), size=(0.014, d.between(0.040, 0.044)))
    board = Board("board", d.colour("blue"), half=d.between(0.055, 0.07))
    stand, spot = d.spot(peg.radius), d.spot(board.radius, gap=_GRIP_ROOM)
    return [Placed(peg, stand, d.yaw()), *d.clutter(d.spares()[2:3], gap=_GRIP_ROOM), Placed(board, spot, d.yaw())]


RECIPES = (
    Recipe("pick_lift", "lift the red block", (Atom("up", ("red_block",)),), 160, _pick_lift),
    Recipe("pick_place", "put the red block on the plate", (Atom("on", ("red_block", "plate")),), 200, _pick_place),
    Recipe(
        "place_in_bin", "put the red ball in the bin", (Atom("inside", ("red_ball", "bin_inside")),), 200, _place_in_bin
    ),
    Recipe(
        "stack_two",
        "stack the red block on the green block",
        (Atom("on", ("red_block", "green_block")),),
        200,
        _stack_two,
    ),
    Recipe(
        "stack_three_in_order",
        "stack the blue block on the green block and the green block on the red block",
        (Atom("on", ("green_block", "red_block")), Atom("on", ("blue_block", "green_block"))),
        300,
        _stack_three,
    ),
    Recipe(
        "push_to_region",
        "push the red dome into the green square",
        (Atom("on", ("red_dome", "zone_area")),),
        240,
        _push_to_region,
    ),
    Recipe("open_drawer", "open the drawer", (Atom("open", ("drawer",)),), 200, _open_drawer),
    Recipe("close_drawer", "close the drawer", (Atom("close", ("drawer",)),), 160, _close_drawer),
    Recipe("open_door", "open the door of the cupboard", (Atom("open", ("door",)),), 240, _open_door),
    Recipe("press_button", "press the red button", (Atom("turnon", ("button",)),), 120, _press_button),
    Recipe("turn_knob", "turn the knob to the green mark", (Atom("turnon", ("knob",)),), 200, _turn_knob),
    Recipe("insert_peg", "put the peg in the hole", (Atom("inside", ("peg", "board_hole")),), 240, _insert_peg),
)
