"""Where a flow policy's noise comes from: LIBERO-MAX's rule, by the case's policy seed and the number of the query."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

from mjx_bench.policy import Observation

# query: from the engine's seed for (case, query); libero_max: by the benchmark's rule.
NoiseRule = Literal["query", "libero_max"]


def libero_max_seed(policy_seed: int, query: int) -> int:
    """The first four bytes, big-endian, of the SHA-256 of `<policy_seed>:<query>`; queries count from 0 in each arm."""
    return int.from_bytes(hashlib.sha256(f"{policy_seed}:{query}".encode()).digest()[:4], "big")


def libero_max_seeds(obs: Observation, queries: Sequence[int]) -> np.ndarray:
    """uint64 [B] by the rule, for lanes that have asked so often before.

    Raises:
      ValueError: an observation without the policy seed of a case.
    """
    if obs.policy_seed is None:
        raise ValueError("LIBERO-MAX's noise comes from a case's policy seed, and here are no cases")
    pairs = zip(obs.policy_seed.tolist(), queries, strict=True)
    return np.array([libero_max_seed(seed, query) for seed, query in pairs], np.uint64)
