"""What may be moved in a task of this suite, and where things stand, for whoever draws events (`evals.libero_max.sampler`).

Unlike LIBERO's, fixtures may be moved: they stand on the table as loose objects do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from evals.libero_max.eligibility import DISTRACTORS, VISUAL
from evals.libero_max.placing import Layout
from evals.tabletop.draw import WORKSPACE, Placed
from evals.tabletop.instances import Instances

# Obstacles come 14 cm from the target's origin: there is no such spot around a cabinet, whose radius is 11 cm or more.
OBSTACLE_RADIUS_M = 0.09
# The sampler lets things go some way beyond the box around what stands there; this much less here, or the camera loses them.
INSIDE_M = 0.07


@dataclasses.dataclass(frozen=True)
class Geometry:
    """What `Task.extra["geometry"]` holds.

    Attributes:
      events: that the task can have.
      spares: objects that no goal names, sorted.
      instances: of the task.
    """

    events: tuple[str, ...]
    spares: tuple[str, ...]
    instances: Instances

    @classmethod
    def of(
        cls, placed: Sequence[Placed], trigger: str, receptacle: str | None, named: Sequence[str], made: Instances
    ) -> Geometry:
        """From the things of the template and what the goal says of them."""
        spares = sorted(p.thing.name for p in placed if p.thing.free_joint is not None and p.thing.name not in named)
        events = [*VISUAL, "target_relocation"]
        if receptacle not in (None, trigger):
            events.append("receptacle_relocation")
        if len(spares) >= DISTRACTORS:
            events.append("distractor_burst")
        if spares and next(p.thing.radius for p in placed if p.thing.name == trigger) < OBSTACLE_RADIUS_M:
            events.append("obstacle_insertion")
        return cls(tuple(events), tuple(spares), made)

    def layout(self, row: int) -> Layout:
        """What stands where in an instance: every thing as a circle, in a box that the arm reaches."""
        placed = self.instances.instance(row).placed
        x0, x1, y0, y1 = WORKSPACE
        return Layout(
            position={p.thing.name: np.array(p.xy) for p in placed},
            # What is painted on the table is in nothing's way.
            radius={p.thing.name: p.thing.radius if p.thing.entity().contact_geoms else 0.0 for p in placed},
            fixtures=(),
            low=np.array([x0, y0]) + INSIDE_M,
            high=np.array([x1, y1]) - INSIDE_M,
        )
