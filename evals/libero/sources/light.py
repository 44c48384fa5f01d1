"""Other lights: LIBERO-Plus's light conditions, whose scenes are not public, and the dim light of LIBERO-PRO's glare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evals.libero.sources.edits import Fields, with_fields
from mjx_bench.cases import stable_seed
from mjx_bench.task import Task

if TYPE_CHECKING:
    import mujoco

SAMPLER = "mjx-bench-plus-light-v1"
# What lights shine at, and from how far away, metres.
CENTRE = np.array([0.0, 0.0, 0.8])
DISTANCE_M = 3.0
ELEVATION_DEG = (35.0, 85.0)
# Of white light, by channel; and what each channel keeps of it.
DIFFUSE = (0.3, 1.0)
TINT = (0.6, 1.0)
SPECULAR = (0.0, 0.6)

# LIBERO-PRO's visual_noise_glare: of every light, whatever it was.
PRO_AMBIENT, PRO_DIFFUSE, PRO_SPECULAR = 0.020, 0.16, 0.010


def lit(task: Task, number: int) -> Task:
    """The task with every light of its room in another place, of another colour and strength.

    What is drawn depends on `number` and on how many lights there are, not on the scene.
    """

    def fields(model: mujoco.MjModel) -> Fields:
        rng = np.random.RandomState(stable_seed(SAMPLER, number))
        out = {name: getattr(model, f"light_{name}").copy() for name in ("pos", "dir", "diffuse", "specular")}
        for i in range(model.nlight):
            azimuth, elevation = rng.uniform(-np.pi, np.pi), np.deg2rad(rng.uniform(*ELEVATION_DEG))
            along = np.array(
                [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)]
            )
            out["pos"][i], out["dir"][i] = CENTRE + DISTANCE_M * along, -along
            tint = rng.uniform(*TINT, 3)
            out["diffuse"][i], out["specular"][i] = rng.uniform(*DIFFUSE) * tint, rng.uniform(*SPECULAR) * tint
        return {f"light_{name}": value for name, value in out.items()}

    return with_fields(task, fields)


def dimmed(task: Task) -> Task:
    """The task in the dim light of visual_noise_glare."""

    def fields(model: mujoco.MjModel) -> Fields:
        strengths = {"ambient": PRO_AMBIENT, "diffuse": PRO_DIFFUSE, "specular": PRO_SPECULAR}
        return {f"light_{name}": np.full((model.nlight, 3), value) for name, value in strengths.items()}

    return with_fields(task, fields)
