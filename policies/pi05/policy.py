"""The model as a policy of the engine: `pi05:DIR`, a checkpoint, or `pi05_tiny:random`, one without any training.

Lanes are computed in tiles of one width, padded where they do not fill one, so that a single program does and a lane's
actions do not depend on its company: XLA sums differently at another width. The noise that a query starts from is drawn on
the host from the query's own seed, so it is the same on every device.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.policy import Observation, PolicySpec
from mjx_bench.task import Task
from policies.noise import NoiseRule, libero_max_seeds
from policies.openpi_inputs import state_of
from policies.pi05 import adapters, checkpoint, configs, observing, sampling, statistics, tokenizer, weights
from policies.pi05.checkpoint import Checkpoint
from policies.pi05.configs import CAMERAS, Config
from policies.pi05.sequence import Array, Inputs

Subtasks = Literal["off", "greedy", "drawn"]
TILE = 8


@dataclasses.dataclass(frozen=True)
class Episode:
    """What is remembered of an episode.

    Attributes:
      query: queries so far.
      subtask: the last one, if subtasks are predicted.
    """

    query: int = 0
    subtask: str = ""


class Pi05:
    """See the module.

    Args:
      found: weights, statistics and tokenizer.
      name: as recorded.
      tile: lanes that are computed at once.
      steps: of the flow.
      noise: what `act` draws it from, see `policies.noise`.
      subtasks: whether a subtask is said before actions are chosen, and how.

    Raises:
      BenchError: a robot that is not in our scenes, no statistics, or ones of other features; subtasks of a model without.

    Attributes:
      config: of the model.
      tile: as given.
    """

    def __init__(
        self,
        found: Checkpoint,
        name: str,
        *,
        tile: int = TILE,
        steps: int = sampling.STEPS,
        noise: NoiseRule = "query",
        subtasks: Subtasks = "off",
    ) -> None:
        config = found.config
        self.config, self._words, self._noise, self._subtasks = config, found.words, noise, subtasks
        self._stats, self._steps = found.stats, steps
        self._adapter = adapters.named(config.adapter)
        if found.stats is None:
            raise BenchError(
                f"{name} has no statistics of its data (assets/ID/norm_stats.json), and cannot act without"
            )
        if subtasks != "off" and not config.subtask_tokens:
            raise BenchError(f"{name}: {config.name} predicts no subtasks")
        self._state, self._actions = (
            found.stats.scale(vector, config.normalisation) for vector in ("state", "actions")
        )
        self._state.check(f"{name}, state", self._adapter.state)
        self._actions.check(f"{name}, actions", self._adapter.actions)
        self.tile = tile
        self.spec = PolicySpec(
            name,
            config.horizon,
            "osc_pose",
            self._adapter.cameras,
            self._adapter.rendered or config.vision.image_size,
            on_device=True,
        )
        self._tree = jax.device_put(weights.cast(found.tree, config.dtype))
        self._run = _program(config, steps, subtasks)

    def prepare(self, episodes: Sequence[tuple[Task, int]]) -> None:
        """Compiles before anything runs. See `mjx_bench.policy.Prepared.prepare`."""
        if not self._adapter.cameras:
            raise BenchError(f"{self.spec.name} is for {self._adapter.name}, which is in none of these scenes")
        self.warm_up()

    def warm_up(self) -> None:
        """Compiles, and runs once on nothing."""
        side, batch = self.config.vision.image_size, 1
        pictures = [np.zeros((batch, side, side, 3), np.uint8)] * len(CAMERAS)
        state = np.zeros((batch, len(self._adapter.state)))
        inputs = observing.inputs_of(self.config, self._words, self._state, pictures, state, [""])
        self._sample(inputs, np.zeros(batch, np.uint64))

    def fingerprint(self) -> Mapping[str, str]:
        """See `mjx_bench.policy.Fingerprinted.fingerprint`."""
        data = f"{self.config} {self._words.sha256} {self._stats}"
        return {
            "policy weights": self._weights_sha256[:32],
            "policy data": hashlib.sha256(data.encode()).hexdigest()[:32],
            "policy program": f"{self._steps} steps, tiles of {self.tile}, noise by {self._noise}, subtasks"
            f" {self._subtasks}, JAX {jax.__version__} on {jax.devices()[0].device_kind}",
        }

    @functools.cached_property
    def _weights_sha256(self) -> str:
        return weights.sha256(self._tree)

    def init(self, task: Task, seed: int) -> Episode:
        """See `mjx_bench.policy.Policy.init`."""
        return Episode()

    def act(
        self, carries: Sequence[Episode], obs: Observation, seeds: np.ndarray
    ) -> tuple[np.ndarray, Sequence[Episode]]:
        """See `mjx_bench.policy.Policy.act`.

        Raises:
          Unusable: pictures or a state that the model cannot be given.
        """
        if self._noise == "libero_max":
            seeds = libero_max_seeds(obs, [carry.query for carry in carries])
        state = state_of(obs)
        told = [obs.instruction(lane) for lane in range(len(state))]
        return self.infer(carries, observing.pictures_of(obs, self._adapter), state, told, seeds)

    def infer(
        self,
        carries: Sequence[Episode],
        pictures: Sequence[Array | None],
        state: np.ndarray,
        prompts: Sequence[str],
        seeds: np.ndarray,
    ) -> tuple[np.ndarray, Sequence[Episode]]:
        """Answers queries that need not be of one task, nor of our scenes.

        Args:
          carries: B episodes.
          pictures: uint8 [B, H, W, 3] of each of the model's cameras, or None; on the host or on the device.
          state: [B, s] in the robot's units.
          prompts: B instructions.
          seeds: uint64 [B], of the noise.

        Returns:
          actions: float32 [B, H, a] in [-1, 1].
          carries: B episodes.

        Raises:
          Unusable: as `act`.
        """
        if state.shape[1:] != (len(self._adapter.state),):
            raise observing.Unusable(
                f"a state of {self._adapter.name} has {len(self._adapter.state)} numbers, not {list(state.shape)}"
            )
        inputs = observing.inputs_of(self.config, self._words, self._state, pictures, state, prompts)
        chunks, said = self._sample(inputs, seeds)
        actions = self._adapter.from_model(self._actions.restore(chunks.astype(np.float64)), state)
        after = [
            dataclasses.replace(carry, query=carry.query + 1, subtask=self._text(row))
            for carry, row in zip(carries, said, strict=True)
        ]
        return np.clip(actions, -1.0, 1.0).astype(np.float32), after

    def _text(self, said: np.ndarray) -> str:
        return tokenizer.one_line(self._words.decode(said.tolist()))

    def _sample(self, inputs: Inputs, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The model's actions [B, T, A], and the tokens that it said [B, S], tile by tile."""
        noise = np.stack([self.noise(seed) for seed in seeds.tolist()])
        words = np.stack([seeds >> np.uint64(32), seeds & np.uint64(0xFFFFFFFF)], 1).astype(np.uint32)
        lanes = (inputs._replace(subtask=None), noise, words)
        done: list[tuple[jax.Array, jax.Array]] = []
        for start in range(0, len(noise), self.tile):
            rows = np.minimum(np.arange(start, start + self.tile), len(noise) - 1)
            # TF32 would round what is float32 on purpose: the flow's time and the small layers around the expert.
            with jax.default_matmul_precision("highest"):
                done.append(self._run(self._tree, *jax.tree.map(lambda x, rows=rows: x[rows], lanes)))
        chunks, said = (np.concatenate(part)[: len(noise)] for part in zip(*jax.device_get(done), strict=True))
        return chunks, said

    def noise(self, seed: int) -> np.ndarray:
        """Where the flow of a query starts, float32 [T, A]; LIBERO-MAX draws it so too, from its own seeds."""
        shape = (self.config.horizon, self.config.action_dim)
        return np.random.default_rng(seed).standard_normal(shape, np.float32)


@functools.cache
def _program(config: Config, steps: int, subtasks: Subtasks) -> Any:
    """(weights, inputs, noise [B, T, A], seeds uint32 [B, 2]) to (actions [B, T, A], tokens said [B, S])."""

    def run(tree: weights.Tree, inputs: Inputs, noise: jax.Array, seeds: jax.Array) -> tuple[jax.Array, jax.Array]:
        model = weights.bound(config, tree)
        prefix = sampling.read_prefix(model, inputs)
        said = jax.numpy.zeros((len(noise), 0), int)
        if subtasks != "off":
            keys = jax.random.wrap_key_data(seeds) if subtasks == "drawn" else None
            said, prefix = sampling.decode_subtask(model, prefix, config.subtask_tokens, keys)
        return sampling.sample(model, prefix, inputs.state, noise, steps), said

    return jax.jit(run)


def from_folder(folder: str, noise: NoiseRule = "query") -> Pi05:
    """The policy `pi05:DIR`.

    Raises:
      BenchError: see `checkpoint.load` and `Pi05`.
    """
    return Pi05(checkpoint.load(Path(folder)), f"pi05:{folder}", noise=noise)


def random(config_name: str, noise: NoiseRule = "query") -> Pi05:
    """The policy `NAME:random`: random weights, always the same, and actions as they come out of the model.

    Raises:
      BenchError: no such configuration, or one whose tokenizer is not in this package.
    """
    config = configs.named(config_name)
    if config.tokenizer != "small":
        raise BenchError(
            f"{config_name} needs PaliGemma's tokenizer, which is not in this package: random weights are for pi05_small and"
            " pi05_tiny; a checkpoint gets it from mjx-bench policy import --tokenizer"
        )
    words = tokenizer.fitting(config, None)
    adapter = adapters.named(config.adapter)
    stats = statistics.unit(adapter.state, adapter.actions)
    found = Checkpoint(config, weights.random_weights(config, 0), stats, words)
    return Pi05(found, f"{config_name}:random", noise=noise)
