"""A policy's pictures, repaired before it sees them: the strategies of LIBERO-MAX's restoration study (section 5.5)."""

from __future__ import annotations

import dataclasses
import importlib.util
import time

import numpy as np

from kernels.restoration import damage_of, restore
from mjx_bench.errors import BenchError, MissingExtra
from mjx_bench.policy import Observation, PolicySpec

# off: pictures as they are; native: the same, and what the gate would have done is measured; always: every picture is
# repaired; gated: those that show damage.
STRATEGIES = ("off", "native", "always", "gated")


@dataclasses.dataclass(frozen=True)
class Repaired:
    """What was done to the pictures of one query of one lane.

    Attributes:
      opened: bool [C] whether the gate opened, by camera in the order of the observation.
      seconds: spent on them.
    """

    opened: np.ndarray
    seconds: float


class Repair:
    """One strategy other than `off`. It remembers nothing from one query to the next."""

    def __init__(self, strategy: str) -> None:
        self._strategy = strategy

    def __call__(self, obs: Observation) -> tuple[Observation, list[Repaired]]:
        """The observation as the policy gets it, and what was done in each lane."""
        images = {camera: pictures.copy() for camera, pictures in obs.images.items()}
        done = []
        for lane in range(len(obs.step)):
            start = time.perf_counter()
            opened = [self._repair(pictures[lane]) for pictures in images.values()]
            done.append(Repaired(np.array(opened, np.bool_), time.perf_counter() - start))
        return dataclasses.replace(obs, images=images), done

    def _repair(self, picture: np.ndarray) -> bool:
        """Repairs a picture in place, as far as the strategy has it; whether its gate opened."""
        damage = damage_of(picture)
        if self._strategy == "always" or (self._strategy == "gated" and damage.needs_repair):
            picture[:] = restore(picture, damage.mask)
        return damage.needs_repair


def check_restoration(strategy: str, spec: PolicySpec) -> None:
    """Raises `BenchError` for a strategy that cannot be used on the policy's pictures."""
    if strategy not in STRATEGIES:
        raise BenchError(f"restoration {strategy!r} is unknown; choose one of {', '.join(STRATEGIES)}")
    if strategy == "off":
        return
    if not spec.cameras:
        raise BenchError(
            f"--restoration {strategy} repairs a policy's pictures, and {spec.name!r} sees none; leave it out, or choose a"
            " policy with cameras"
        )
    if importlib.util.find_spec("cv2") is None:
        raise MissingExtra("--restoration needs OpenCV, which comes with the extra libero: pip install -e '.[libero]'")
