"""Goal predicates as pure functions of signals, with LIBERO's exact tests.

`compile_goal` turns atoms into one function `signals -> bool [B]`. It resolves every name once, so that a goal that cannot
be judged is refused before anything runs. The functions use operators that NumPy and JAX arrays share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjx_bench.courses import ON_GROUND
from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.measures import MEASURES, VELOCITIES, Measure
from mjx_bench.signals import GRIP, HAND, PRESS, SUPPORT, SignalIndex, Signals, touch_pair
from mjx_bench.task import COMPARE, Atom, Entity, Scene, Threshold

Test = Callable[[Signals], Any]

# Metres; all from LIBERO's object states and site objects.
STACK_RADIUS = 0.03
ON_REGION_BELOW = 0.005
ON_REGION_ABOVE = 0.10
IN_REGION_BELOW = 0.01
UP_HEIGHT = 1.0

# These read joints, and whether any or all of them must pass.
JOINT_PREDICATES = {"open": any, "close": all, "turnon": any, "turnoff": all}
# These read a contact signal: how many arguments they take, and the pair that these make up.
CONTACTS: dict[str, tuple[int, Callable[..., tuple[str, str]]]] = {
    "touching": (2, lambda a, b: (a, b)),
    "clear": (2, lambda a, b: (a, b)),
    "touched": (1, lambda a: (HAND, a)),
    "free": (1, lambda a: (HAND, a)),
    "held": (1, lambda a: (GRIP, a)),
    "supported": (2, lambda a, b: (a, SUPPORT + b)),
    "pressed": (1, lambda a: (HAND, PRESS + a)),
}
APART = ("clear", "free")  # of these, the ones that ask for none


def touches_of(goal: Sequence[Atom], scene: Scene) -> tuple[tuple[str, str], ...]:
    """Pairs of entities whose contact the goal reads, without repetition."""
    pairs: list[tuple[str, str]] = []
    for atom in goal:
        if atom.predicate == "on" and len(atom.args) == 2:
            region = scene.regions.get(atom.args[1])
            other = atom.args[1] if region is None else region.parent
            if other is not None:
                pairs.append(touch_pair(atom.args[0], other))
        elif atom.predicate in CONTACTS:
            arity, pair = CONTACTS[atom.predicate]
            if len(atom.args) == arity:
                pairs.append(touch_pair(*pair(*atom.args)))
    return tuple(dict.fromkeys(pairs))


def goal_index(goal: Sequence[Atom], scene: Scene) -> SignalIndex:
    """The columns of signals that judging these atoms needs, and no others."""
    names = dict.fromkeys(name for atom in goal for name in atom.args)
    posed = [n for n in names if n in scene.entities]
    jointed = [n for atom in goal if atom.predicate in JOINT_PREDICATES for n in atom.args]
    joints = [j for n in jointed for j in (scene.entities[n] if n in scene.entities else scene.regions[n]).joints]
    return SignalIndex(
        tuple(posed),
        tuple(n for n in names if n in scene.regions),
        tuple(dict.fromkeys(joints)),
        touches_of(goal, scene),
        tuple(dict.fromkeys(atom.args[0] for atom in goal if atom.predicate in VELOCITIES)),
    )


def compile_goal(goal: Sequence[Atom], scene: Scene, index: SignalIndex) -> tuple[tuple[Test, ...], Test]:
    """Resolves a goal.

    Args:
      goal: atoms that must all hold at the same instant.
      scene: names.
      index: columns of the signals that the tests will read.

    Returns:
      tests: one function `signals -> bool [B]` an atom, in goal order.
      success: their conjunction.

    Raises:
      BenchError: an unknown predicate or name, or arguments that a predicate does not take.
    """
    if not goal:
        raise BenchError("a goal needs at least one atom")
    tests = tuple(compile_atom(atom, scene, index) for atom in goal)
    return tests, every(tests)


def every(tests: Sequence[Test]) -> Test:
    """The conjunction of tests, at least one."""

    def together(signals: Signals) -> Any:
        result = tests[0](signals)
        for test in tests[1:]:
            result = result & test(signals)
        return result

    return together


def compile_atom(atom: Atom, scene: Scene, index: SignalIndex) -> Test:
    """Resolves one atom; see `compile_goal`."""
    if atom.bound is not None:
        return _bounded(atom, atom.bound, scene, index)
    builders: dict[str, tuple[int, Callable[..., Test]]] = {
        "on": (2, _on),
        "in": (2, _in),
        "inside": (2, _inside),
        "outside": (2, _outside),
        "up": (1, _up),
        **{name: (arity, _contact_test(name)) for name, (arity, _) in CONTACTS.items()},
        **{name: (1, _joint_test(name, any_joint=rule is any)) for name, rule in JOINT_PREDICATES.items()},
    }
    if atom.predicate in MEASURES or atom.predicate in ON_GROUND:
        raise BenchError(f"{atom} is a measure; give it a bound")
    if atom.predicate not in builders:
        raise unknown_name("predicate", atom.predicate, builders)
    arity, build = builders[atom.predicate]
    _check_args(atom, arity, scene)
    if atom.args[0] in scene.regions and atom.predicate not in JOINT_PREDICATES:
        raise BenchError(f"the first argument of {atom} must be an object, not a region")
    return build(*atom.args, scene, index)


def _check_args(atom: Atom, arity: int | None, scene: Scene) -> None:
    if arity is None:
        if len(atom.args) < 2:
            raise BenchError(f"predicate {atom.predicate!r} takes 2 or more arguments, got {len(atom.args)} in {atom}")
    elif len(atom.args) != arity:
        raise BenchError(f"predicate {atom.predicate!r} takes {arity} arguments, got {len(atom.args)} in {atom}")
    for name in atom.args:
        if name not in scene.entities and name not in scene.regions:
            raise unknown_name(f"object or region in goal {atom}", name, [*scene.entities, *scene.regions])


def _bounded(atom: Atom, bound: Threshold, scene: Scene, index: SignalIndex) -> Test:
    """The test that a measure stays within its bound."""
    measure, compare = compile_measure(atom, scene, index), COMPARE[bound.comparison]
    return lambda s: compare(measure(s), bound.value)


def compile_measure(atom: Atom, scene: Scene, index: SignalIndex) -> Measure:
    """What an atom measures, whatever its bound; signals to float [B]. See `compile_goal`."""
    if atom.predicate in ON_GROUND:
        least, place = ON_GROUND[atom.predicate]
        _check_args(atom, least, scene)
        for name in atom.args:
            if name not in scene.regions:
                raise BenchError(f"the arguments of {atom} must be regions, and {name!r} is an object")
        return place(*atom.args, scene, index)
    if atom.predicate not in MEASURES:
        raise unknown_name("measure", atom.predicate, [*MEASURES, *ON_GROUND])
    arity, build = MEASURES[atom.predicate]
    _check_args(atom, arity, scene)
    return build(*atom.args, index)


def _on(a: str, b: str, scene: Scene, index: SignalIndex) -> Test:
    ia = index.entity(a)
    if b in scene.entities:
        ib, touch = index.entity(b), index.touch(a, b)

        def on_entity(s: Signals) -> Any:
            d = s.entity_pos[:, ia] - s.entity_pos[:, ib]
            apart = (d[:, 0] ** 2 + d[:, 1] ** 2) ** 0.5
            return (d[:, 2] >= 0.0) & s.touch[:, touch] & (apart < STACK_RADIUS)

        return on_entity

    region = scene.regions[b]
    ir, (hx, hy, hz) = index.region(b), region.half_size
    parent_touch = None if region.parent is None else index.touch(a, region.parent)

    def on_region(s: Signals) -> Any:
        # The site's rotation is applied as it is, not transposed: that is LIBERO's test, right for yaw 0 and 180 only.
        d = (s.region_mat[:, ir] * (s.entity_pos[:, ia] - s.region_pos[:, ir])[:, None, :]).sum(-1)
        inside = (abs(d[:, 0]) < hx) & (abs(d[:, 1]) < hy)
        height = (d[:, 2] > hz - ON_REGION_BELOW) & (d[:, 2] < hz + ON_REGION_ABOVE)
        return inside & height if parent_touch is None else inside & height & s.touch[:, parent_touch]

    return on_region


def _in(a: str, b: str, scene: Scene, index: SignalIndex) -> Test:
    if b not in scene.regions:
        raise BenchError(f"the second argument of in({a}, {b}) must be a region, and {b!r} is an object")
    ia, ir, half = index.entity(a), index.region(b), scene.regions[b].half_size

    def inside(s: Signals) -> Any:
        mat = s.region_mat[:, ir]
        extent = abs(mat[:, :, 0] * half[0] + mat[:, :, 1] * half[1] + mat[:, :, 2] * half[2])
        d = s.entity_pos[:, ia] - s.region_pos[:, ir]
        above = (d[:, 0] > -extent[:, 0]) & (d[:, 1] > -extent[:, 1]) & (d[:, 2] > -extent[:, 2] - IN_REGION_BELOW)
        below = (d[:, 0] < extent[:, 0]) & (d[:, 1] < extent[:, 1]) & (d[:, 2] < extent[:, 2])
        return above & below

    return inside


def _inside(a: str, b: str, scene: Scene, index: SignalIndex) -> Test:
    """The origin of `a` is in the box of the region, however it is turned; LIBERO's `in` is right for yaw 0 and 180 only."""
    if b not in scene.regions:
        raise BenchError(f"the second argument of inside({a}, {b}) must be a region, and {b!r} is an object")
    ia, ir, half = index.entity(a), index.region(b), scene.regions[b].half_size

    def inside(s: Signals) -> Any:
        mat, d = s.region_mat[:, ir], s.entity_pos[:, ia] - s.region_pos[:, ir]
        local = [mat[:, 0, k] * d[:, 0] + mat[:, 1, k] * d[:, 1] + mat[:, 2, k] * d[:, 2] for k in range(3)]
        return (abs(local[0]) < half[0]) & (abs(local[1]) < half[1]) & (abs(local[2]) < half[2])

    return inside


def _outside(a: str, b: str, scene: Scene, index: SignalIndex) -> Test:
    inside = _inside(a, b, scene, index)
    return lambda s: ~inside(s)


def _contact_test(predicate: str) -> Callable[..., Test]:
    """Builder of tests whether there is the contact that a predicate reads, or whether there is none."""

    def build(*args: Any) -> Test:
        *names, _, index = args
        touch = index.touch(*CONTACTS[predicate][1](*names))
        return (lambda s: ~s.touch[:, touch]) if predicate in APART else (lambda s: s.touch[:, touch])

    return build


def _up(a: str, scene: Scene, index: SignalIndex) -> Test:
    ia = index.entity(a)
    return lambda s: s.entity_pos[:, ia, 2] >= UP_HEIGHT


def _joint_test(predicate: str, *, any_joint: bool) -> Callable[..., Test]:
    """Builder of open, close, turnon, turnoff: any joint must pass, or all."""

    def build(name: str, scene: Scene, index: SignalIndex) -> Test:
        owner, joints = _articulation(name, predicate, scene)
        threshold: Threshold = owner.thresholds[predicate]
        columns = [index.joint(j) for j in joints]
        compare = COMPARE[threshold.comparison]

        def test(s: Signals) -> Any:
            result = compare(s.joint_qpos[:, columns[0]], threshold.value)
            for column in columns[1:]:
                one = compare(s.joint_qpos[:, column], threshold.value)
                result = result | one if any_joint else result & one
            return result

        return test

    return build


def _articulation(name: str, predicate: str, scene: Scene) -> tuple[Entity, tuple[str, ...]]:
    """Whose thresholds and which joints `predicate(name)` reads: a region reads the joints of the part it sits in."""
    if name in scene.entities:
        owner, joints = scene.entities[name], scene.entities[name].joints
    else:
        region = scene.regions[name]
        if region.parent is None:
            raise BenchError(f"{predicate}({name}): a region of the workspace has no joints")
        owner, joints = scene.entities[region.parent], region.joints
    if predicate not in owner.thresholds or not joints:
        raise BenchError(
            f"{predicate}({name}): {owner.name!r} has no joint that can be judged so"
            f" (it knows: {', '.join(owner.thresholds) or 'none'})"
        )
    return owner, joints
