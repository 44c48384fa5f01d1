"""Puzzle Box as a plan: where bolts, decoys, notches and cover lie in the sliding layer. Chest frame, metres; NumPy alone.

What slides is a bar with one direction in which it withdraws. A bolt's tip sits in a notch in the side of the next part,
across that part's own direction, and plain contact holds it: bolt 1 holds the lid, bolt 2 holds bolt 1, and so on.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np

HALF_WIDTH = 0.015  # of bolts and decoys
TRAVEL = 0.05  # of bolts; decoys go as far to both sides
PLAY, CLEARANCE = 0.0015, 0.004
NOTCH = 0.04  # length along the part
BOLT_DEPTH, LID_DEPTH = 0.015, 0.03
BOLT_GRIP, LID_GRIP = 0.013, 0.026  # how far a tip reaches into a notch
HANDLE_FROM_END, HANDLE_RADIUS = 0.02, 0.013
SHORT, LONG, DECOY = (0.10, 0.14), (0.14, 0.20), (0.10, 0.20)  # lengths: lock in view, lock covered, decoys
LID = (0.12, 0.08)  # half sizes in x and y
LID_TRAVEL = {"x+": 0.20, "x-": 0.20, "y+": 0.14}
LID_HANDLE = {"x+": (0.05, -0.02), "x-": (-0.05, -0.02), "y+": (0.0, -0.05)}
ITEM = {"x+": (-0.045, 0.0), "x-": (0.045, 0.0), "y+": (0.0, -0.035)}  # away from the opening side
OPENS = {"x+": (1.0, 0.0), "x-": (-1.0, 0.0), "y+": (0.0, 1.0)}
DECK_X, DECK_FRONT = 0.32, -0.30
DECK_BACK = {"x+": 0.11, "x-": 0.11, "y+": 0.26}
COVER_MARGIN, COVER_FROM_HANDLES = 0.010, 0.053
SLOT = (0.085, 0.045)  # half sizes of what the cover leaves open above the item
COVERED = {"absent": {4: 0, 5: 0, 6: 0}, "present": {4: 3, 5: 3, 6: 4}}  # locks, from the lid on
LIDS = ("x+", "x-", "y+")
HELD_OUT = {4: "x+", 5: "x-", 6: "y+"}  # lid of each chain length that is for evaluation alone
FINGERS = (0.056, 0.014)  # reach of an open hand's fingers from the handle between them: along the way, across
PALM = (0.11, 0.035)  # half sizes of the palm over the item: along x, which the fingers close along, and across
# Places tried for one bolt, and for all bolts of a chain before it is begun anew: few find a layout soonest, but covers
# are narrow.
_SEARCH = {False: (12, 400), True: (60, 1500)}
RELOCK_SHORT = 0.007  # how far from locked a driven-back bolt stops

# x from, x to, y from, y to.
Rect = tuple[float, float, float, float]


class NoLayout(Exception):
    """This attempt found no room; begin anew."""


@dataclasses.dataclass(frozen=True)
class Bar:
    """A bolt or a decoy.

    Attributes:
      tip: [2] middle of its tip's edge when it is in.
      way: [2] unit vector in which it withdraws; its handle is at that end.
      length: metres.
      notch: from the tip along the bar: where the notch begins and ends; None for none.
      side: +1 if the notch is in the side to the left of `way`, -1 to the right.
      back: how far it can also go inwards; decoys only.
    """

    tip: tuple[float, float]
    way: tuple[float, float]
    length: float
    notch: tuple[float, float] | None = None
    side: int = 1
    back: float = 0.0

    def at(self, along: float, aside: float = 0.0) -> tuple[float, float]:
        """A point: `along` from the tip, `aside` to the left of `way`."""
        (x, y), (wx, wy) = self.tip, self.way
        return x + along * wx - aside * wy, y + along * wy + aside * wx

    def rect(self, begin: float, end: float, half: float = HALF_WIDTH) -> Rect:
        """The rectangle between two places along it."""
        (ax, ay), (bx, by) = self.at(begin, half), self.at(end, -half)
        return min(ax, bx), max(ax, bx), min(ay, by), max(ay, by)

    @property
    def swept(self) -> Rect:
        """All that it ever covers."""
        return self.rect(-self.back, self.length + TRAVEL)

    @property
    def handle(self) -> Rect:
        """Where its handle's axis can be."""
        return self.rect(self.length - HANDLE_FROM_END - self.back, self.length - HANDLE_FROM_END + TRAVEL, 0.0)


@dataclasses.dataclass(frozen=True)
class Layout:
    """One chest.

    Attributes:
      lid: one of `LIDS`, the way it opens.
      lid_notch: where the notch begins and ends along the way of the lid, from its middle; side: as of a bar.
      bolts: from the lid on.
      decoys: bars that hold nothing.
      cover: rectangles of the plate above; none without a cover.
      covered: how many locks, from the lid on, it hides.
      relock: whether pulling the first decoy drives bolt 1 back.
    """

    lid: str
    lid_notch: tuple[float, float]
    lid_side: int
    bolts: tuple[Bar, ...]
    decoys: tuple[Bar, ...]
    cover: tuple[Rect, ...]
    covered: int
    relock: bool

    @property
    def item(self) -> tuple[float, float]:
        """Where the item stands: away from the opening side."""
        return ITEM[self.lid]

    def hides(self, part: str, bar: Bar) -> bool:
        """Whether the cover is over the inner end of a bolt (`bolt_1`, ...) or a decoy."""
        if part.startswith("bolt"):
            return int(part[5:]) <= self.covered
        return any(_gap(rect, bar.rect(0.0, 0.001)) < 0.0 for rect in self.cover)


def draw_layout(rng: np.random.Generator, lid: str, chain: int, cover: str, decoys: int) -> Layout:
    """A layout; raises `NoLayout` where `rng` ran into a corner: begin anew."""
    covered = COVERED[cover][chain]
    first, notch, side = _first_bolt(rng, lid, covered > 0)
    budget = [_SEARCH[covered > 0][1]]
    bolts = _chain(rng, lid, (first,), chain, covered, budget)
    if bolts is None:
        raise NoLayout
    plate = _plate(_locks(bolts)[:covered])
    false: list[Bar] = []
    relock = bool(decoys) and bool(rng.integers(2))
    for i in range(decoys):
        false.append(_decoy(rng, lid, [*bolts, *false], plate, bolts[0] if relock and i == 0 else None))
    return Layout(lid, notch, side, bolts, tuple(false), plate, covered, relock)


def _first_bolt(rng: np.random.Generator, lid: str, covered: bool) -> tuple[Bar, tuple[float, float], int]:
    """Bolt 1 in the lid's side: in front for lids that slide aside, at the left or right for one that slides back."""
    length = float(rng.uniform(*(LONG if covered else SHORT)))
    wx, wy = OPENS[lid]
    if lid == "y+":
        way = (float(rng.choice([-1.0, 1.0])), 0.0)
        at = float(rng.uniform(-0.045, 0.04))  # of the bolt, along the lid's way
        reach = LID[0] - LID_GRIP
    else:
        way = (0.0, -1.0)
        at = float(rng.uniform(-0.09, 0.08))
        reach = LID[1] - LID_GRIP
    begin = at - HALF_WIDTH - PLAY
    side = 1 if wx * way[1] - wy * way[0] > 0 else -1
    bolt = Bar((at * wx + reach * way[0], at * wy + reach * way[1]), way, length)
    if not _inside_deck(bolt, lid):
        raise NoLayout
    return bolt, (begin, begin + NOTCH), side


def _chain(
    rng: np.random.Generator, lid: str, bolts: tuple[Bar, ...], chain: int, covered: int, budget: list[int]
) -> tuple[Bar, ...] | None:
    """The bolts with further ones up to `chain`, each in the side of the one before; None where there is no way on."""
    k, last = len(bolts), bolts[-1]
    if k == chain:
        return bolts
    low = (LID_GRIP if k == 1 else BOLT_GRIP) + PLAY + 2 * CLEARANCE + HALF_WIDTH
    high = last.length - (NOTCH - HALF_WIDTH - PLAY) - CLEARANCE
    for _ in range(_SEARCH[covered > 0][0]):
        budget[0] -= 1
        if budget[0] < 0:
            return None
        # A covered lock lies near the one before: its cover must keep away from the handles.
        share = rng.uniform() ** (3 if k < covered else 1)
        along, side = float(low + share * (high - low)), int(rng.choice([-1, 1]))
        way = (-side * last.way[1], side * last.way[0])
        x, y = last.at(along)
        aside = HALF_WIDTH - BOLT_GRIP
        tip = x + way[0] * aside, y + way[1] * aside
        bolt = Bar(tip, way, float(rng.uniform(*(LONG if k < covered else SHORT))))
        if not _fits(bolt, lid, bolts[:-1]) or not _handles_apart(bolt, lid, bolts):
            continue
        begin = along - HALF_WIDTH - PLAY
        held = dataclasses.replace(last, notch=(begin, begin + NOTCH), side=side)
        grown = (*bolts[:-1], held, bolt)
        if _visible(grown, covered) and (found := _chain(rng, lid, grown, chain, covered, budget)) is not None:
            return found
    return None


def _locks(bolts: Sequence[Bar]) -> list[Rect]:
    """Where each bolt's tip reaches into the next part."""
    return [bolt.rect(-CLEARANCE, LID_GRIP if k == 0 else BOLT_GRIP) for k, bolt in enumerate(bolts)]


def _visible(bolts: Sequence[Bar], covered: int) -> bool:
    """Whether the cover over what there is so far keeps away from all handles."""
    plate = _plate(_locks(bolts)[:covered])
    return all(_gap(rect, bar.handle) >= COVER_FROM_HANDLES for rect in plate for bar in bolts)


def _decoy(rng: np.random.Generator, lid: str, others: Sequence[Bar], plate: Sequence[Rect], held: Bar | None) -> Bar:
    """A bar that holds nothing; one that drives `held` back is withdrawn the way in which that one is locked."""
    for _ in range(500):
        way = [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)][rng.integers(4)]
        if held is not None:
            way = (-held.way[0], -held.way[1])
        length = float(rng.uniform(*DECOY))
        tip = float(rng.uniform(-DECK_X, DECK_X)), float(rng.uniform(DECK_FRONT, DECK_BACK[lid]))
        bar = Bar(tip, way, length, back=TRAVEL)
        if not _fits(bar, lid, others) or not _handles_apart(bar, lid, others):
            continue
        if all(_gap(rect, bar.handle) >= COVER_FROM_HANDLES for rect in plate):
            return bar
    raise NoLayout


def _inside_deck(bar: Bar, lid: str) -> bool:
    x0, x1, y0, y1 = bar.swept
    return x0 >= -DECK_X and x1 <= DECK_X and y0 >= DECK_FRONT and y1 <= DECK_BACK[lid]


def _fits(bar: Bar, lid: str, others: Sequence[Bar]) -> bool:
    """Whether it stays on the deck, and off what the lid and other bars ever cover."""
    rects = (_lid_swept(lid), *(other.swept for other in others))
    return _inside_deck(bar, lid) and all(_gap(bar.swept, rect) >= CLEARANCE for rect in rects)


def _lid_swept(lid: str) -> Rect:
    (wx, wy), far = OPENS[lid], LID_TRAVEL[lid]
    x0, x1 = -LID[0] + min(0.0, far * wx), LID[0] + max(0.0, far * wx)
    return x0, x1, -LID[1] + min(0.0, far * wy), LID[1] + max(0.0, far * wy)


def _handles_apart(bar: Bar, lid: str, others: Sequence[Bar]) -> bool:
    """Whether a hand that holds a handle along its way, or the item along x, meets no other handle wherever the two are."""
    handles = [(bar.handle, bar.way), (lid_handle(lid), OPENS[lid]), *((other.handle, other.way) for other in others)]
    own, *rest = handles
    (x, y), (along, across) = ITEM[lid], PALM
    if _gap((x - along, x + along, y - across, y + across), _grown(bar.handle, HANDLE_RADIUS)) < CLEARANCE:
        return False
    return all(_hand_clear(own, other) and _hand_clear(other, own) for other in rest)


def _hand_clear(held: tuple[Rect, tuple[float, float]], other: tuple[Rect, tuple[float, float]]) -> bool:
    (x0, x1, y0, y1), (wx, wy) = held
    along, across = FINGERS
    dx, dy = (along, across) if abs(wx) > abs(wy) else (across, along)
    return _gap((x0 - dx, x1 + dx, y0 - dy, y1 + dy), _grown(other[0], HANDLE_RADIUS)) >= CLEARANCE


def lid_handle(lid: str) -> Rect:
    """Where the axis of the lid's handle can be."""
    (x, y), (wx, wy), far = LID_HANDLE[lid], OPENS[lid], LID_TRAVEL[lid]
    return min(x, x + far * wx), max(x, x + far * wx), min(y, y + far * wy), max(y, y + far * wy)


def _plate(locks: Sequence[Rect]) -> tuple[Rect, ...]:
    """Rectangles over neighbouring locks, joined along the bolt that both belong to, and open above the item."""
    plate = []
    for one, other in itertools.pairwise(locks):
        x0, x1, y0, y1 = _grown(
            (min(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), max(one[3], other[3])), COVER_MARGIN
        )
        sx, sy = SLOT
        if x0 < sx and x1 > -sx and y0 < sy and y1 > -sy:
            # Cut back at the side where least is lost.
            cuts = [
                (x1 - sx, (sx, x1, y0, y1)),
                (-sx - x0, (x0, -sx, y0, y1)),
                (-sy - y0, (x0, x1, y0, -sy)),
                (y1 - sy, (x0, x1, sy, y1)),
            ]
            left, rect = max(cuts)
            if left <= 0:
                raise NoLayout
            x0, x1, y0, y1 = rect
        plate.append((x0, x1, y0, y1))
    return tuple(plate)


def _grown(rect: Rect, by: float) -> Rect:
    return rect[0] - by, rect[1] + by, rect[2] - by, rect[3] + by


def _gap(a: Rect, b: Rect) -> float:
    """Distance between two rectangles; below 0 where they overlap."""
    dx, dy = max(a[0] - b[1], b[0] - a[1]), max(a[2] - b[3], b[2] - a[3])
    return math.hypot(max(dx, 0.0), max(dy, 0.0)) if dx > 0 or dy > 0 else max(dx, dy)
