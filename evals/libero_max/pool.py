"""What the benchmark chooses from: variants of LIBERO-Plus by their rules, and LIBERO-PRO's, task by task.

LIBERO-Plus has as many variants of each category and suite as its own catalogue, their names drawn from the rules. Its
levels of difficulty came from what policies achieved, so there are none here. `strength` is another thing: how large the
change is by the variant's own parameters, in five steps, where it has such a parameter.
"""

from __future__ import annotations

import functools
import re

import numpy as np

from evals.libero import package
from evals.libero.sources import background, extra, layout, lenses, robot, wording
from evals.libero.sources.camera import View
from evals.libero.sources.catalogue import PLUS_CATEGORIES, PRO_FOLDERS
from evals.libero.variants import plus_variant, pro_variant
from evals.libero_max.released import Source
from mjx_bench.cases import stable_seed

SAMPLER = "mjx-bench-max-pool-v1"
SUITES = package.SUITES[:4]
TASKS = 10  # of a suite
STRENGTHS = 5

# LIBERO-Plus's own numbers of variants: spatial, object, goal, 10.
COUNTS = {
    "Background Textures": (258, 248, 281, 289),
    "Camera Viewpoints": (376, 396, 408, 419),
    "Robot Initial States": (350, 398, 409, 393),
    "Language Instructions": (390, 354, 410, 383),
    "Light Conditions": (292, 297, 279, 274),
    "Objects Layout": (385, 403, 425, 312),
    "Sensor Noise": (351, 422, 379, 449),
}
# Kinds of viewpoints by LIBERO-Plus's own counts: around the table, further away, turned on the spot.
_VIEWS = (992, 313, 294)
_AROUND_DEG = (*range(1, 76), *range(285, 360))
_UP_DEG = (0, 15)
_DISTANCE = (115, 200)
_TURNS_DEG = (2, 4, 6, 8, 10, 350, 352, 354, 356, 358)

PRO_CATEGORIES = (*package.PRO_CATEGORIES.values(), *PRO_FOLDERS)
PRO_STATES = range(10)


@functools.cache
def plus_sources(category: str) -> tuple[Source, ...]:
    """The variants of a category, by suite and task, each named once."""
    out = []
    for suite, count in zip(SUITES, COUNTS[category], strict=True):
        for index in range(TASKS):
            wanted = count // TASKS + (index < count % TASKS)
            names = _names(category, suite, index)[:wanted]
            out += [Source("plus", category, suite, index, name) for name in names]
    return tuple(out)


@functools.cache
def pro_sources(category: str) -> tuple[Source, ...]:
    """The initial states of a category's forty tasks."""
    return tuple(
        Source("pro", category, suite, index, "", row)
        for suite in SUITES
        for index in range(TASKS)
        for row in PRO_STATES
    )


@functools.lru_cache(maxsize=65536)
def variant_of(source: Source) -> dict[str, str]:
    """The `substrate_variant` of a source."""
    if source.benchmark == "plus":
        return plus_variant(source.category, source.suite, source.index, source.name)
    return pro_variant(source.category, source.suite, source.index, _language(source))


def strength(source: Source) -> int | None:
    """How strong a variant is by its own parameters, 1 to 5; None where it has none that says so."""
    name = source.name
    if source.category == "Camera Viewpoints":
        view = View.parse(name)
        assert view is not None, name
        around = max(min(view.around, 360 - view.around), view.up) / 15  # of 75 degrees
        turned = (min(view.pan, 360 - view.pan) + min(view.tilt, 360 - view.tilt)) / 4  # of 20 degrees together
        return _step(max(around, turned, (view.distance - 100) / 20))
    if source.category == "Robot Initial States":
        number = robot.number_of(name)
        assert number is not None, name
        return _step(number / (robot.COUNT / STRENGTHS))
    if source.category == "Sensor Noise":
        number = lenses.number_of(name)
        assert number is not None, name
        return _step(lenses.family_of(number)[1] / 2)
    if source.category == "Objects Layout":
        found = layout.parse(name)
        return found[0] if found else (int(name.removeprefix("add_")) - 1) % extra.MOST + 1
    return None


def _step(value: float) -> int:
    return int(min(max(np.ceil(value), 1), STRENGTHS))


def _names(category: str, suite: str, index: int) -> list[str]:
    """The names that a task's variants of a category take, in an order of chance."""
    rng = np.random.RandomState(stable_seed(SAMPLER, category, suite, index))
    if category == "Camera Viewpoints":
        return _views(rng)
    names = {
        "Background Textures": [f"{kind}_{n}" for kind in ("table", "tb") for n in range(1, background.COUNT + 1)],
        "Language Instructions": [f"language_{n}_view_0_0_100_0_0_initstate_0" for n in range(1, wording.COUNT + 1)],
        "Light Conditions": [f"light_{n}" for n in range(1, 101)],
        "Objects Layout": [
            *(layout.name_of(suite, L, k) for L in range(1, layout.LEVELS + 1) for k in range(1, layout.SAMPLES + 1)),
            *(f"add_{n}" for n in range(1, extra.COUNT + 1)),
        ],
        "Robot Initial States": [f"view_0_0_100_0_0_initstate_{k}" for k in range(1, robot.COUNT + 1)],
        "Sensor Noise": [f"view_0_0_100_0_0_initstate_0_noise_{m}" for m in range(1, lenses.COUNT + 1)],
    }[category]
    return [names[i] for i in rng.permutation(len(names))]


def _views(rng: np.random.RandomState) -> list[str]:
    """Names of viewpoints, none twice: one kind each, in LIBERO-Plus's proportions."""
    kinds = np.array(_VIEWS) / sum(_VIEWS)
    names: dict[str, None] = {}
    while len(names) < 60:
        kind = rng.choice(len(kinds), p=kinds)
        if kind == 0:
            view = View(around=int(rng.choice(_AROUND_DEG)), up=int(rng.choice(_UP_DEG)))
        elif kind == 1:
            view = View(distance=int(rng.randint(_DISTANCE[0], _DISTANCE[1] + 1)))
        else:
            view = View(pan=int(rng.choice((0, *_TURNS_DEG))), tilt=int(rng.choice((0, *_TURNS_DEG))))
        if view != View():
            names[view.name] = None
    return list(names)


def _language(source: Source) -> str:
    """The wording inside a variant's task file; an extended category shares the plain task's."""
    tails = {category: tail for tail, category in package.PRO_CATEGORIES.items()}
    suite = f"{source.suite}_{tails[source.category]}" if source.category in tails else source.suite
    return _wording(package.find(suite, source.index).bddl.read_text(encoding="utf-8"))


def _wording(text: str) -> str:
    match = re.search(r"\(\s*:language\s+([^()]*)\)", text)
    assert match is not None, "a task file says what is to be done"
    return " ".join(match.group(1).split())


def categories() -> tuple[tuple[str, str], ...]:
    """("plus" or "pro", category) of all seventeen; those whose variants are scenes of their own come last."""
    scenes = ("Objects Layout", "Background Textures")
    first = [("plus", c) for c in PLUS_CATEGORIES if c not in scenes]
    return (*first, *(("pro", c) for c in PRO_CATEGORIES), *(("plus", c) for c in scenes))
