"""What stands in a kitchen, to look at: rows of cupboards, cooker, fridge, table, cabinets, window, sink, and things about.

Every part is drawn in its own axes, in which its front faces -y, and put where the layout has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evals.roboquest.layouts import Layout, Stand
from evals.roboquest.styles import STYLES, Style
from evals.tabletop.shapes import visual, yaw_quat

if TYPE_CHECKING:
    import mujoco

TOP_Z = 0.92  # metres, of every work top
HIGH_Z, _HIGH = 1.45, 0.70  # of the wall cabinets: lower edge, height
DECOR = (0.058, 0.032, 0.075)  # radii of the canister, the bottle and the bowl that stand about, at their usual size
_SLAB, _OVERHANG, _KICK = 0.04, 0.02, 0.10  # thickness and overhang of work tops; height of the recess at the floor

# x and y of a thing on the work top, and its size against the usual.
Standing = tuple[float, float, float]


def furnish(spec: mujoco.MjSpec, plan: Layout, number: int, decor: Sequence[Standing]) -> None:
    """Adds everything, always the same geoms in the same order.

    Args:
      spec: what to add it to.
      plan: where it stands.
      number: of the style.
      decor: where the three things on the task's work top stand.
    """
    style, parts = STYLES[number], plan.parts
    _run(spec, "counter", parts["counter"], style, 4)
    _run(spec, "run_a", parts["run_a"], style, 3)
    _run(spec, "run_b", parts["run_b"], style, 3)
    _cooker(spec, parts["cooker"], style)
    _fridge(spec, parts["fridge"], style)
    _table(spec, parts["table"], style)
    for i, stand in enumerate(plan.high):
        _cabinet(spec, f"high{i}", stand, style)
    _window(spec, plan.window)
    _sink(spec, parts["run_a"], style)
    _decor(spec, parts["run_b"], style, decor)


def _put(
    spec: mujoco.MjSpec, stand: Stand, name: str, half: Sequence[float], colour: Sequence[float], at: Sequence[float],
    kind: str = "box",
) -> None:  # fmt: skip
    """Adds a geom to look at, `at` [3] in a part's axes."""
    x, y = stand.at(at[0], at[1])
    visual(spec.worldbody, kind, half, colour, name=name, pos=[x, y, at[2]], quat=yaw_quat(stand.turn))


def _run(spec: mujoco.MjSpec, name: str, s: Stand, style: Style, fronts: int) -> None:
    """A row of cupboards with a drawer in each, below a work top."""
    w, d = s.width / 2, s.depth / 2
    body = (TOP_Z - _SLAB - _KICK) / 2
    _put(spec, s, f"{name}_top", [w, d, _SLAB / 2], style.top, [0, 0, TOP_Z - _SLAB / 2])
    _put(spec, s, f"{name}_case", [w - 0.005, d - _OVERHANG, body], style.front, [0, _OVERHANG, _KICK + body])
    _put(spec, s, f"{name}_kick", [w - 0.01, d - 0.06, _KICK / 2], (0.12, 0.12, 0.13), [0, 0.06, _KICK / 2])
    half = (w - 0.005) / fronts
    face = -d + 0.012
    light = tuple(min(1.0, 1.06 * c + 0.015) for c in style.front)
    for i in range(fronts):
        x = -w + 0.005 + (2 * i + 1) * half
        for part, low, high in (("door", _KICK + 0.005, 0.66), ("drawer", 0.67, TOP_Z - _SLAB - 0.005)):
            size = [half - 0.004, 0.01, (high - low) / 2]
            _put(spec, s, f"{name}_{part}{i}", size, light, [x, face, (low + high) / 2])
        bar = (x + (half - 0.06) * (1 if i % 2 == 0 else -1), 0.60)
        _put(
            spec, s, f"{name}_door_handle{i}", [0.007, 0.007, 0.06], style.metal, [bar[0], face - 0.024, bar[1] - 0.04]
        )
        _put(spec, s, f"{name}_drawer_handle{i}", [0.06, 0.007, 0.007], style.metal, [x, face - 0.024, 0.785])


def _cooker(spec: mujoco.MjSpec, s: Stand, style: Style) -> None:
    w, d, dark = s.width / 2, s.depth / 2, (0.07, 0.07, 0.08)
    _put(spec, s, "cooker_case", [w - 0.004, d - 0.01, TOP_Z / 2 - 0.01], style.device, [0, 0.01, TOP_Z / 2 - 0.01])
    _put(spec, s, "cooker_hob", [w - 0.004, d - 0.01, 0.01], dark, [0, 0.01, TOP_Z - 0.01])
    for i, (x, y) in enumerate(((-1, -1), (1, -1), (-1, 1), (1, 1))):
        at = [0.13 * x, 0.02 + 0.13 * y, TOP_Z + 0.001]
        _put(spec, s, f"cooker_ring{i}", [0.085 + 0.01 * (x * y), 0.002], (0.24, 0.23, 0.23), at, "cylinder")
    _put(spec, s, "cooker_glass", [w - 0.07, 0.008, 0.20], dark, [0, -d + 0.012, 0.46])
    _put(spec, s, "cooker_handle", [w - 0.08, 0.009, 0.009], style.metal, [0, -d - 0.025, 0.71])
    for i in range(4):
        _put(spec, s, f"cooker_knob{i}", [0.018, 0.012, 0.018], dark, [-0.15 + 0.1 * i, -d + 0.004, 0.83])
    _put(spec, s, "hood_plate", [w - 0.01, d - 0.10, 0.03], style.device, [0, 0.09, 1.60])
    _put(spec, s, "hood_pipe", [0.14, 0.13, 0.44], style.device, [0, d - 0.14, 2.07])


def _fridge(spec: mujoco.MjSpec, s: Stand, style: Style) -> None:
    w, d = s.width / 2, s.depth / 2
    light = tuple(min(1.0, 1.05 * c + 0.02) for c in style.device)
    _put(spec, s, "fridge_case", [w - 0.01, d - 0.02, 0.90], style.device, [0, 0.02, 0.90])
    for part, low, high in (("lower", 0.06, 1.14), ("upper", 1.15, 1.79)):
        _put(spec, s, f"fridge_{part}", [w - 0.012, 0.02, (high - low) / 2], light, [0, -d + 0.02, (low + high) / 2])
        middle = high - 0.28 if part == "lower" else low + 0.22
        _put(spec, s, f"fridge_{part}_handle", [0.01, 0.01, 0.16], style.metal, [0.06 - w, -d - 0.03, middle])


def _table(spec: mujoco.MjSpec, s: Stand, style: Style) -> None:
    wood = (0.72, 0.60, 0.45)
    _put(spec, s, "table_top", [s.width / 2, s.depth / 2, 0.018], wood, [0, 0, 0.732])
    for i, (x, y) in enumerate(((-1, -1), (1, -1), (-1, 1), (1, 1))):
        at = [x * (s.width / 2 - 0.05), y * (s.depth / 2 - 0.05), 0.357]
        _put(spec, s, f"table_leg{i}", [0.025, 0.025, 0.357], wood, at)
    for i, aside in enumerate((-0.3, 0.3)):
        _put(spec, s, f"stool{i}", [0.16, 0.22], style.decor[i], [aside, 0.1 - 0.2 * i, 0.22], "cylinder")


def _cabinet(spec: mujoco.MjSpec, name: str, s: Stand, style: Style) -> None:
    w, d, z = s.width / 2, s.depth / 2, HIGH_Z + _HIGH / 2
    light = tuple(min(1.0, 1.05 * c + 0.015) for c in style.high)
    _put(spec, s, f"{name}_case", [w, d - 0.01, _HIGH / 2], style.high, [0, 0.01, z])
    for i, x in enumerate((-1, 1)):
        _put(spec, s, f"{name}_door{i}", [w / 2 - 0.004, 0.01, _HIGH / 2 - 0.004], light, [x * w / 2, 0.008 - d, z])
        _put(spec, s, f"{name}_handle{i}", [0.006, 0.006, 0.06], style.metal, [0.04 * x, -d - 0.02, HIGH_Z + 0.12])


def _window(spec: mujoco.MjSpec, s: Stand) -> None:
    w, z = s.width / 2, 1.80
    _put(spec, s, "window_frame", [w, 0.02, 0.32], (0.95, 0.95, 0.94), [0, 0, z])
    for i, x in enumerate((-1, 1)):
        _put(
            spec,
            s,
            f"window_pane{i}",
            [w / 2 - 0.03, 0.006, 0.28],
            (0.70, 0.84, 0.95),
            [x * (w / 2 - 0.008), -0.018, z],
        )


def _sink(spec: mujoco.MjSpec, s: Stand, style: Style) -> None:
    _put(spec, s, "sink", [0.24, 0.18, 0.002], (0.55, 0.57, 0.58), [0, -0.02, TOP_Z + 0.001])
    _put(spec, s, "sink_bowl", [0.21, 0.15, 0.001], (0.30, 0.31, 0.32), [0, -0.02, TOP_Z + 0.0035])
    _put(spec, s, "tap", [0.012, 0.13], style.metal, [0, 0.22, TOP_Z + 0.13], "cylinder")
    _put(spec, s, "tap_arm", [0.010, 0.08, 0.010], style.metal, [0, 0.15, TOP_Z + 0.25])


def _decor(spec: mujoco.MjSpec, s: Stand, style: Style, decor: Sequence[Standing]) -> None:
    """A canister, a bottle and a bowl on the work top, and a plant at the next row's end. Nothing meets them."""
    world = spec.worldbody

    def stands(i: int, kind: str, name: str, size: Sequence[float], colour: Sequence[float], z: float) -> None:
        x, y, scale = decor[i]
        visual(world, kind, [scale * c for c in size], colour, name=name, pos=[x, y, TOP_Z + scale * z])

    stands(0, "cylinder", "decor_canister", [0.055, 0.085], style.decor[0], 0.085)
    stands(0, "cylinder", "decor_lid", [DECOR[0], 0.010], style.metal, 0.178)
    stands(1, "cylinder", "decor_bottle", [DECOR[1], 0.095], style.decor[1], 0.095)
    stands(1, "cylinder", "decor_neck", [0.012, 0.04], style.decor[1], 0.22)
    stands(2, "ellipsoid", "decor_bowl", [DECOR[2], DECOR[2], 0.045], style.decor[2], 0.045)
    _put(spec, s, "plant_pot", [0.06, 0.06], style.decor[1], [-s.width / 2 + 0.14, 0.12, TOP_Z + 0.06], "cylinder")
    _put(spec, s, "plant", [0.10, 0.10, 0.13], style.decor[2], [-s.width / 2 + 0.14, 0.12, TOP_Z + 0.22], "ellipsoid")
