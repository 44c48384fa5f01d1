"""From a drawn household to a task of the engine."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evals.instances import TEMPLATE, reset_to_nothing
from evals.libero_max.eligibility import VISUAL
from evals.libero_max.placing import Layout
from evals.robot_agent_bench.furniture import PIECES
from evals.robot_agent_bench.instances import Instances
from evals.robot_agent_bench.robot import CAMERAS, ROBOT, TCPS
from evals.robot_agent_bench.things import entity
from mjx_bench.control.bimanual import HIGH, HOME, LOW
from mjx_bench.task import Atom, Entity, Placement, Region, Rules, Scene, Task

CONTROL_HZ = 20
COARSE_HZ, FINE_HZ = 60, 240  # of physics: where fingers only touch, and where they hold
VERSION = "1"  # of a generator, where it has no other: changes when an index comes to stand for another instance


@dataclasses.dataclass(frozen=True)
class Geometry:
    """What `Task.extra["geometry"]` holds: the events that make sense; nothing may be put elsewhere at once."""

    trigger: str
    events: tuple[str, ...] = tuple(event for event in VISUAL if event != "camera_shift")
    spares: tuple[str, ...] = ()

    def layout(self, row: int) -> Layout:
        """The trigger's entity alone."""
        here = np.zeros(2)
        return Layout({self.trigger: here}, {self.trigger: 0.0}, (), here - 1.0, here + 1.0)


def make_task(
    suite: str,
    index: int,
    name: str,
    instances: Instances,
    goal: tuple[Atom, ...],
    rules: Rules,
    horizon: int,
    instruction: str,
    *,
    approached: str = "target",
    regions: Sequence[Region] = (),
    extra_entities: Sequence[Entity] = (),
    extra: Mapping[str, Any] | None = None,
    geometry: Any = None,
    version: str = VERSION,
) -> Task:
    """The task of some instances; its version is that of the generator and a digest of its scene."""
    home = instances.drawn(TEMPLATE).home
    digest = hashlib.sha256(instances.spec().to_xml().encode()).hexdigest()
    things = [entity(placed.role, "thing") for placed in home.things]
    pieces = [Entity(p.name, "fixture", "furniture", p.name, None, contact_geoms=p.contacts) for p in PIECES]
    entities = {e.name: e for e in (*things, *extra_entities, *pieces)}
    hands = [Region(name, None, (0.005,) * 3) for name in TCPS]
    return Task(
        suite=suite,
        index=index,
        name=name,
        version=f"rab-{version}-{digest[:12]}",
        instruction=instruction,
        scene=Scene(
            key=digest[:32],
            entities=entities,
            regions={region.name: region for region in (*regions, *hands)},
            placements=tuple(Placement("on", e.name, "furniture", "furniture") for e in things),
            robot=ROBOT,
            cameras=(*CAMERAS, "agentview"),
            load_spec=instances.spec,
            observed=CAMERAS,
        ),
        goal=goal,
        objects_of_interest=(),
        horizon=horizon,
        control_hz=CONTROL_HZ,
        substeps=instances.physics_hz // CONTROL_HZ,
        settle_steps=0,
        settle_action=(0.0,) * 22,
        load_init_states=lambda: instances,
        load_reset=reset_to_nothing,
        load_fields=instances.fields,
        load_instruction=instances.told,
        extra={
            "geometry": geometry or Geometry(approached),
            "instances": instances,
            "ranges": (LOW, HOME, HIGH),
            "sizes": instances.sizes,
            **(extra or {}),
        },
        rules=rules,
        action_modes=("bimanual",),
        approached=approached,
    )
