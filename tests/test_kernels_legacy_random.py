"""The compiled stream against `RandomState`, number by number and in any mixture of draws."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.legacy_random import CHUNK, Stream, integer, normals, stream


def drawn(source: Stream, n: int) -> np.ndarray:
    chunk, out = np.empty(CHUNK), np.empty(n)
    done = 0
    while done < n:
        k = normals(source, n - done, chunk)
        out[done : done + k] = chunk[:k]
        done += k
    return out


@pytest.mark.parametrize("seed", [0, 5, 123456, 2**31, 2**32 - 1])
def test_normals_are_numpy_s(seed: int):
    np.testing.assert_array_equal(drawn(stream(seed), 20_001), np.random.RandomState(seed).normal(size=20_001))


@pytest.mark.parametrize("seed", range(4))
def test_any_mixture_of_draws_is_numpy_s(seed: int):
    ours, theirs = stream(seed), np.random.RandomState(seed)
    plan = np.random.default_rng(seed)
    for _ in range(60):
        # An odd number leaves the second half of a pair over, an integer moves what follows off the block's grid.
        n = int(plan.choice([1, 2, 3, 311, 312, 313, 624, 1000]))
        np.testing.assert_array_equal(drawn(ours, n), theirs.normal(size=n))
        for limit in (1, 2, 155, 185, 256, 2**31 + 1, 2**32 - 1):
            assert integer(ours, limit) == theirs.randint(0, limit)


def test_integers_alone_outlast_a_block():
    ours, theirs = stream(9), np.random.RandomState(9)
    assert [integer(ours, 185) for _ in range(2000)] == theirs.randint(0, 185, 2000).tolist()


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_outside_32_bits(seed: int):
    with pytest.raises(ValueError, match=str(seed)):
        stream(seed)
