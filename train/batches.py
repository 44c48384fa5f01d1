"""Batches of frames in an order that depends on the seed alone, and from any place in it again.

Frames are shuffled anew in every epoch. Of several datasets, frames are mixed by weight; each goes round at its own pace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mjx_bench.errors import BenchError, MissingExtra
from policies.pi05 import adapters, observing, tokenizer
from policies.pi05.configs import Config
from policies.pi05.sequence import Array, Inputs
from policies.pi05.statistics import Statistics
from policies.pi05.tokenizer import Tokenizer
from train.sources import Source

try:
    import grain
except ImportError:
    raise MissingExtra("training needs grain: pip install -e '.[train]'") from None

_FLAT = 1e-3  # metres; a place that deviates by less is no place to tell
_THREADS = 2
AHEAD = 4  # batches that are prepared before they are asked for


class Batch(NamedTuple):
    """B frames, as the model is taught them.

    Attributes:
      inputs: of the model; cameras that the robot lacks are left out.
      actions: float32 [B, T, A], normalised and padded; after the end of an episode the last one is repeated.
      places: float32 [B, p], normalised positions of things, and of things less the hand's; p is 0 without.
    """

    inputs: Inputs
    actions: Array
    places: Array


class Maker:
    """Makes batches of frames of some datasets.

    Args:
      config: of the model.
      words: its tokenizer.
      stats: of the datasets.
      sources: the datasets.

    Attributes:
      places: p of `Batch.places`; 0 unless every dataset has the same places.
    """

    def __init__(self, config: Config, words: Tokenizer, stats: Statistics, sources: Sequence[Source]) -> None:
        self._config, self._words, self._sources = config, words, tuple(sources)
        self._adapter = adapters.named(config.adapter)
        self._state, self._actions = (stats.scale(vector, config.normalisation) for vector in ("state", "actions"))
        self._starts = np.cumsum([0, *map(len, sources)])
        places = [_places(source) for source in sources if source.places is not None]
        told = len(places) == len(sources) and len({p.shape[1] for p in places}) == 1
        self._mean, self._std = (
            np.mean([f(p, 0) for p in places], 0) if told else np.zeros(0) for f in (np.mean, np.std)
        )
        self._told = np.flatnonzero(self._std >= _FLAT)
        self.places = len(self._told)

    def __call__(self, frames: np.ndarray) -> Batch:
        """The batch of these frames, int64 [B], counted over all datasets."""
        which = np.searchsorted(self._starts, frames, side="right") - 1
        parts = [(source, frames[which == i] - self._starts[i]) for i, source in enumerate(self._sources)]
        made = [self._of_one(source, rows) for source, rows in parts if len(rows)]
        order = np.argsort(np.concatenate([np.flatnonzero(which == i) for i in range(len(self._sources))]))
        return Batch(*_joined(made, order))

    def _of_one(self, source: Source, rows: np.ndarray) -> Batch:
        config = self._config
        state = source.state[rows].astype(np.float64)
        pictures = [None if p is None else p[rows] for p in source.pictures]
        if source.mirrored:
            pictures = [None if p is None else p[:, :, ::-1] for p in pictures]
        inputs = observing.inputs_of(
            config, self._words, self._state, pictures, state, [source.prompts[i] for i in source.task[rows]]
        )
        there = [i for i, p in enumerate(pictures) if p is not None]
        inputs = inputs._replace(images=inputs.images[:, there], image_mask=inputs.image_mask[:, there])
        if config.subtask_tokens and source.subtasks:
            texts = [source.subtasks[i] for i in source.subtask[rows]]
            inputs = inputs._replace(subtask=tokenizer.subtasks(self._words, config, texts))
        if source.chunks is not None:
            wanted = source.chunks[rows]
        else:
            wanted = source.actions[np.minimum(rows[:, None] + np.arange(config.horizon), source.end[rows, None] - 1)]
        actions = self._adapter.to_model(wanted.astype(np.float64), state)
        chunk = np.zeros((len(rows), config.horizon, config.action_dim), np.float32)
        chunk[..., : actions.shape[-1]] = self._actions.normalise(actions)
        places = np.zeros((len(rows), 0), np.float32)
        if self.places:
            places = ((_places(source, rows) - self._mean)[:, self._told] / self._std[self._told]).astype(np.float32)
        return Batch(inputs, chunk, places)


def _places(source: Source, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """[N, 2 p]: positions, and positions less the hand's where they come in threes."""
    assert source.places is not None
    places = source.places[rows]
    if places.shape[1] % 3:
        return places
    hand = np.tile(source.state[rows, :3], places.shape[1] // 3)
    return np.concatenate([places, places - hand], 1)


def _joined(made: Sequence[Batch], order: np.ndarray) -> Batch:
    if len({batch.inputs.images.shape[1] for batch in made}) > 1 or len({b.inputs.subtask is None for b in made}) > 1:
        raise BenchError("these datasets cannot be mixed: one has cameras or subtasks that another lacks")
    import jax

    joined: Batch = jax.tree.map(lambda *leaves: np.concatenate(leaves)[order], *made)
    return joined


def stream(
    maker: Callable[[np.ndarray], Batch],
    sizes: Sequence[int],
    weights: Sequence[float],
    batch: int,
    seed: int,
    *,
    begin: int = 0,
    workers: int = 0,
    shard: tuple[int, int] = (0, 1),
) -> Iterator[Batch]:
    """Batches without end. The n-th is the same wherever one begins and whoever makes it.

    Args:
      maker: frames to a batch.
      sizes: frames of each dataset.
      weights: of each, in any unit.
      batch: frames of a batch, over all shards.
      seed: of the order.
      begin: number of the first batch.
      workers: processes that make batches; 0 for threads of this one.
      shard: (i, n): of every batch only the i-th of n parts.
    """
    starts = np.cumsum([0, *sizes])
    parts = [
        grain.MapDataset.range(start, start + size).seed(seed + number).shuffle().repeat()
        for number, (size, start) in enumerate(zip(sizes, starts[:-1].tolist(), strict=True))
    ]
    total = float(sum(weights))
    mixed = parts[0] if len(parts) == 1 else grain.MapDataset.mix(parts, [w / total for w in weights])
    index, count = shard
    # A block, as devices are ordered: which noise a frame gets goes by its row in the whole batch.
    own = slice(index * batch // count, (index + 1) * batch // count)
    made = mixed.batch(batch)[begin:].map(lambda frames: maker(np.asarray(frames)[own]))
    options = grain.ReadOptions(num_threads=_THREADS, prefetch_buffer_size=AHEAD)
    out: Any = made.to_iter_dataset(options)
    if workers:
        from absl import flags

        if not flags.FLAGS.is_parsed():  # grain's processes read its flags, which only a program of absl parses
            flags.FLAGS.mark_as_parsed()
        out = out.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=AHEAD))
    return iter(out)
