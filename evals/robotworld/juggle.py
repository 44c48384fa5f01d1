"""`drone_volleyball_solo_juggle`: keep a ball up with the racket on a quadrotor, in at least four high arcs.

Task 81 of RobotWorld, scoring profile W. What differs from it:

* Heights and touches are judged as each control step found them, 2 ms earlier than there. A touch that goes on is one hit.
* Where ball and drone start is not public: the ball is 1.2 m above the drone here, so that no arc is high before the first
  hit; the drone is within 0.5 m (0.2 m in height) of its anchor, VolleyBots', at any yaw. Rotors start at rest.
* Physics runs at 500 Hz; the benchmark's rate is not public. The Iris, its lag and the racket: `iris.py`.
* A state that is not finite voids the arm (infrastructure).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math

import numpy as np

from evals.instances import EVALUATION, TRAINING, Starts, reset_to_nothing
from evals.libero_max.eligibility import VISUAL
from evals.libero_max.placing import Layout
from evals.robotworld import iris
from evals.robotworld.driving import atom
from evals.robotworld.payload import quat_of
from mjx_bench.evidence import samples_of_hold
from mjx_bench.seeds import fold_seed
from mjx_bench.task import (
    Atom,
    Entity,
    Hits,
    Placement,
    Region,
    Rules,
    Scene,
    Task,
)

NAME = "drone_volleyball_solo_juggle"
INSTRUCTION = "keep the ball up with the racket: at least four arcs higher than 3.5 m"
VERSION = "1"  # of the generator: changes when an index comes to stand for another instance
HORIZON = 800  # 16 s

# Starts: metres and radians.
ANCHOR, AROUND, START_TILT = (4.5, 0.0, 2.0), (0.5, 0.5, 0.2), math.radians(18.0)
BALL_ABOVE = 1.2

HIGH, ARCS, APART = 3.5, 4, 25  # metres, hits, steps
LOW_BALL, CEILING, DRONE_HEIGHTS = 0.15, 4.5, (0.4, 2.5)

GOAL = (atom("height", "ball", bound=(">", LOW_BALL)),)
RULES = Rules(
    hold=samples_of_hold(0.6, iris.CONTROL_HZ),
    failures=(
        atom("height", "drone_frame", bound=("<", DRONE_HEIGHTS[0])),
        atom("height", "drone_frame", bound=(">", DRONE_HEIGHTS[1])),
        atom("gap", "drone_frame", "net", bound=("<", 0.0)),
        atom("height", "ball", bound=("<", LOW_BALL)),
        atom("height", "ball", bound=(">", CEILING)),
        Atom("outside", ("ball", "court")),
    ),
    hits=Hits(
        touch=(Atom("touched", ("ball",)),),
        between=(atom("height", "ball", bound=(">", HIGH)),),
        least=ARCS,
        apart=APART,
    ),
)


@dataclasses.dataclass(frozen=True)
class Drawn:
    """One instance: where the drone starts, [3] metres, and its roll, pitch and yaw, [3]. The ball is straight above it."""

    position: tuple[float, float, float]
    euler: tuple[float, float, float]


@functools.lru_cache(1024)
def draw(index: int) -> Drawn:
    """The instance of an index."""
    rng = np.random.default_rng(fold_seed(f"robotworld/{NAME}", f"instance {index}", 0))
    x, y, z = (middle + float(rng.uniform(-spread, spread)) for middle, spread in zip(ANCHOR, AROUND, strict=True))
    roll, pitch = (float(v) for v in rng.uniform(-START_TILT, START_TILT, 2))
    return Drawn((x, y, z), (roll, pitch, float(rng.uniform(-math.pi, math.pi))))


def state(drawn: Drawn) -> np.ndarray:
    """float64 [1 + 14 + 12]: the ball straight above the drone, everything at rest."""
    x, y, z = drawn.position
    return np.concatenate(
        [[0.0, x, y, z], quat_of(*drawn.euler), [x, y, z + BALL_ABOVE, 1.0, 0.0, 0.0, 0.0], np.zeros(12)]
    )


@dataclasses.dataclass(frozen=True)
class Geometry:
    """What `Task.extra["geometry"]` holds: the events that make sense. Nothing may be moved."""

    events: tuple[str, ...] = VISUAL
    spares: tuple[str, ...] = ()

    def layout(self, row: int) -> Layout:
        """The ball alone."""
        middle = np.array(ANCHOR[:2])
        return Layout({"ball": middle}, {"ball": iris.BALL_RADIUS}, (), middle - 1.0, middle + 1.0)


def make(suite: str, index: int) -> Task:
    """The task."""
    spec = iris.build()
    spec.compile()
    digest = hashlib.sha256(spec.to_xml().encode()).hexdigest()
    regions = (
        Region("drone_frame", None, (0.0, 0.0, 0.0)),
        Region("net", None, (iris.NEAR_NET, 50.0, 5.0)),
        Region("court", None, (*iris.COURT, 5.0)),
    )
    return Task(
        suite=suite,
        index=index,
        name=NAME,
        version=f"robotworld-{VERSION}-{digest[:12]}",
        instruction=INSTRUCTION,
        scene=Scene(
            key=digest[:32],
            entities={"ball": Entity("ball", "object", "ball", "ball", "ball_free", contact_geoms=("ball",))},
            regions={region.name: region for region in regions},
            placements=(Placement("on", "ball", "air", "air"),),
            robot=iris.ROBOT,
            cameras=iris.CAMERAS,
            load_spec=iris.build,
            observed=iris.CAMERAS,
        ),
        goal=GOAL,
        objects_of_interest=("ball",),
        horizon=HORIZON,
        control_hz=iris.CONTROL_HZ,
        substeps=iris.SUBSTEPS,
        settle_steps=0,
        settle_action=(0.0,) * 4,
        load_init_states=functools.partial(Starts, NAME, lambda index: state(draw(index))),
        load_reset=reset_to_nothing,
        extra={"geometry": Geometry(), "expert": "reference.juggle"},
        rules=RULES,
        action_modes=("rotors",),
        approached="ball",
    )


__all__ = ["EVALUATION", "GOAL", "HORIZON", "INSTRUCTION", "NAME", "RULES", "TRAINING", "draw", "make", "state"]
