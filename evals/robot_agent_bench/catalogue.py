"""What may be asked for: drinks, snacks, waste and belongings, with their looks and with the facts that contexts go by.

Products and facts are the benchmark sheet's: neutral names, and attributes by declaration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from evals.robot_agent_bench.things import Part as Look
from evals.robot_agent_bench.things import Thing, bottle, packet, rod, tin

_SILVER, _WHITE, _BLACK = (0.78, 0.79, 0.80), (0.94, 0.94, 0.93), (0.10, 0.10, 0.11)


@dataclasses.dataclass(frozen=True)
class Item:
    """A candidate.

    Attributes:
      thing: looks, size and mass.
      facts: attribute to value; the values are words that a context is written with.
    """

    thing: Thing
    facts: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.thing.name


def _drink(thing: Thing, taste: str, sugar: bool, caffeine: bool, fizzy: bool) -> Item:
    fruity = taste in ("lemon", "orange", "berry")
    flags = {"sugar": sugar, "caffeine": caffeine, "fizzy": fizzy, "fruity": fruity}
    return Item(thing, {"taste": taste, **{name: "yes" if value else "no" for name, value in flags.items()}})


def _can(name: str, body: tuple[float, float, float], band: tuple[float, float, float]) -> Thing:
    return tin(name, 0.033, 0.122, 0.25, body, band, _SILVER)


DRINKS = (
    _drink(_can("cola", (0.74, 0.10, 0.12), _WHITE), "cola", True, True, True),
    _drink(_can("diet_cola", (0.80, 0.81, 0.83), (0.74, 0.10, 0.12)), "cola", False, True, True),
    _drink(_can("lemon_soda", (0.93, 0.83, 0.20), (0.20, 0.55, 0.25)), "lemon", True, False, True),
    _drink(
        bottle("sparkling_water", 0.032, 0.20, 0.30, (0.62, 0.80, 0.88), _WHITE, (0.15, 0.35, 0.70)),
        "none",
        False,
        False,
        True,
    ),
    _drink(
        bottle("orange_juice", 0.032, 0.20, 0.30, (0.95, 0.58, 0.12), _WHITE, (0.20, 0.55, 0.25)),
        "orange",
        True,
        False,
        False,
    ),
    _drink(
        bottle("green_tea", 0.032, 0.20, 0.30, (0.66, 0.72, 0.30), (0.16, 0.40, 0.20), _WHITE),
        "tea",
        False,
        True,
        False,
    ),
    _drink(_can("iced_coffee", (0.36, 0.24, 0.16), (0.85, 0.76, 0.60)), "coffee", True, True, False),
    _drink(
        bottle("sport_drink", 0.032, 0.20, 0.30, (0.35, 0.20, 0.62), (0.90, 0.30, 0.50), _BLACK),
        "berry",
        True,
        False,
        False,
    ),
)


def _snack(thing: Thing, taste: str, texture: str, contains: str) -> Item:
    held = contains.split()
    sweet, salty, smoky, creamy = (str(word in taste.split()) for word in ("sweet", "salty", "smoky", "creamy"))
    facts = {"sweet": sweet, "salty": salty, "smoky": smoky, "creamy": creamy, "texture": texture}
    facts |= {f"with {food}": str(food in held) for food in ("potato", "milk", "wheat", "nuts", "rice")}
    return Item(thing, {name: {"True": "yes", "False": "no"}.get(value, value) for name, value in facts.items()})


def _bag(name: str, body: tuple[float, float, float], band: tuple[float, float, float]) -> Thing:
    return packet(name, (0.11, 0.05, 0.16), 0.08, body, band)


def _carton(name: str, body: tuple[float, float, float], band: tuple[float, float, float]) -> Thing:
    return packet(name, (0.07, 0.045, 0.16), 0.12, body, band)


SNACKS = (
    _snack(_bag("bbq_crisps", (0.62, 0.16, 0.10), (0.95, 0.70, 0.20)), "smoky salty", "crunchy", "potato"),
    _snack(_bag("sour_cream_crisps", (0.30, 0.55, 0.30), _WHITE), "creamy salty", "crunchy", "potato milk"),
    _snack(_carton("cream_biscuits", (0.16, 0.28, 0.62), _WHITE), "sweet chocolate", "crumbly", "wheat milk"),
    _snack(_carton("salted_nuts", (0.80, 0.62, 0.30), (0.36, 0.22, 0.12)), "nutty salty", "crunchy", "nuts"),
    _snack(_carton("milk_chocolate", (0.34, 0.18, 0.42), (0.90, 0.88, 0.80)), "sweet chocolate", "smooth", "milk"),
    _snack(_carton("rice_crackers", (0.92, 0.90, 0.84), (0.74, 0.12, 0.14)), "plain salty", "crunchy", "rice"),
)


def _waste(thing: Thing, material: str, kind: str, state: str) -> Item:
    return Item(thing, {"material": material, "kind": kind, "state": state})


_CARDBOARD, _CLEAR, _PAPER = (0.70, 0.54, 0.36), (0.66, 0.80, 0.84), (0.90, 0.89, 0.86)
_BOX = (0.12, 0.08, 0.05)
WASTE = (
    _waste(packet("dry_cardboard_box", _BOX, 0.04, _CARDBOARD, (0.60, 0.45, 0.30)), "cardboard", "packaging", "clean"),
    _waste(
        packet("greasy_cardboard_box", _BOX, 0.05, _CARDBOARD, (0.34, 0.24, 0.12)), "cardboard", "packaging", "dirty"
    ),
    _waste(
        bottle("rinsed_plastic_bottle", 0.032, 0.19, 0.03, _CLEAR, _WHITE, (0.2, 0.4, 0.8)),
        "plastic",
        "packaging",
        "clean",
    ),
    _waste(
        bottle("oily_plastic_bottle", 0.032, 0.19, 0.05, (0.72, 0.62, 0.20), _WHITE, _BLACK),
        "plastic",
        "packaging",
        "dirty",
    ),
    _waste(tin("rinsed_can", 0.031, 0.115, 0.02, _SILVER, (0.30, 0.45, 0.70), _SILVER), "metal", "packaging", "clean"),
    _waste(
        tin("dirty_can", 0.031, 0.115, 0.03, (0.52, 0.46, 0.40), (0.70, 0.30, 0.20), _SILVER),
        "metal",
        "packaging",
        "dirty",
    ),
    _waste(
        tin("used_paper_cup", 0.037, 0.095, 0.03, _PAPER, (0.46, 0.30, 0.18), (0.30, 0.20, 0.13)),
        "paper",
        "packaging",
        "dirty",
    ),
    _waste(
        Thing("dry_paper_ball", (0.026, 0.026, 0.033), 0.01, (Look("sphere", (0.035,), _PAPER),)),
        "paper",
        "packaging",
        "clean",
    ),
    _waste(rod("used_toothbrush", 0.010, 0.17, 0.02, (0.20, 0.60, 0.75), _WHITE), "plastic", "hygiene", "dirty"),
)


def _belonging(thing: Thing, use: str) -> Item:
    return Item(thing, {"use": use})


_CAP = (
    Look("sphere", (0.075,), (0.70, 0.16, 0.16)),
    Look("box", (0.05, 0.09, 0.006), (0.60, 0.12, 0.12), (0.07, 0, -0.03)),
)
BELONGINGS = (
    _belonging(packet("tv_remote", (0.045, 0.17, 0.020), 0.12, _BLACK, (0.40, 0.41, 0.43)), "switch channels"),
    _belonging(
        packet("wallet", (0.11, 0.085, 0.022), 0.12, (0.40, 0.24, 0.14), (0.30, 0.17, 0.10)), "pay or show a card"
    ),
    _belonging(packet("sunglasses_case", (0.16, 0.06, 0.045), 0.12, (0.12, 0.14, 0.20), _SILVER), "keep glasses safe"),
    _belonging(
        packet("power_bank", (0.13, 0.065, 0.018), 0.25, (0.86, 0.87, 0.88), (0.20, 0.55, 0.85)), "charge a phone"
    ),
    _belonging(Thing("cap", (0.070, 0.070, 0.045), 0.10, _CAP), "keep the sun off the face"),
    _belonging(
        rod("umbrella", 0.025, 0.26, 0.30, (0.12, 0.20, 0.42), (0.55, 0.38, 0.22)), "keep rain off the shoulders"
    ),
    _belonging(bottle("water_bottle", 0.034, 0.21, 0.40, (0.30, 0.62, 0.66), _SILVER, _BLACK), "drink on the way"),
    _belonging(
        packet("green_notebook", (0.18, 0.12, 0.015), 0.20, (0.16, 0.44, 0.22), (0.12, 0.34, 0.17)), "write by hand"
    ),
)


def by_name(items: tuple[Item, ...]) -> dict[str, Item]:
    """Items by name."""
    return {item.name: item for item in items}
