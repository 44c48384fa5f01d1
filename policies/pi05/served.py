"""The model behind a socket: openpi's requests to its inputs, and its actions to answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from policies.pi05.adapters import Adapter
from policies.pi05.policy import Episode, Pi05
from policies.serving import OWN, OWN_SEED, number_array, picture

# Names that clients send a seed under, the first one found is taken; without one, noise is drawn from a count of requests.
SEEDS = (OWN_SEED, "__openpi_rng_seed__", "libero_max_noise_seed")

MAX_PROMPT = 4000  # characters; models read a few hundred tokens


class Pi05Served:
    """Implements `policies.serving.Served`.

    Args:
      policy: what answers.
      adapter: how its robot's requests are keyed.
    """

    def __init__(self, policy: Pi05, adapter: Adapter) -> None:
        self._policy = policy
        self._adapter = adapter
        self._unseeded = 0
        self.metadata: Mapping[str, Any] = {
            "policy": policy.spec.name,
            "config": policy.config.name,
            "action_horizon": policy.spec.horizon,
            "action_dim": len(adapter.actions),
            "state": list(adapter.state),
            "actions": list(adapter.actions),
            OWN: {
                "mirrored": adapter.mirrored,
                "size": policy.spec.image_size,
                "cameras": list(adapter.cameras),
                "fingerprint": dict(policy.fingerprint()),
            },
        }

    def check(self, request: Any) -> None:
        """See `policies.serving.Served.check`."""
        if not isinstance(request, Mapping):
            raise ValueError(f"an observation is a dict, not {type(request).__name__}")
        for key in self._keys:
            picture(request, key)
        number_array(request, "observation/state", (len(self._adapter.state),))
        if not isinstance(request.get("prompt"), str):
            raise ValueError(f"prompt: expected text, got {type(request.get('prompt')).__name__}")
        if len(request["prompt"]) > MAX_PROMPT:
            raise ValueError(f"prompt: {len(request['prompt'])} characters, at most {MAX_PROMPT} are read")
        seed = self._seed(request)
        if seed is not None and not 0 <= seed < 2**64:
            raise ValueError(f"{SEEDS[0]}: expected an integer from 0 to 2^64 - 1, got {seed}")

    def infer(self, requests: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """See `policies.serving.Served.infer`."""
        pictures = [None if key is None else self._stacked(requests, key) for key in self._adapter.pictures]
        seeds = [self._seed(request) for request in requests]
        for i, seed in enumerate(seeds):
            if seed is None:
                seeds[i], self._unseeded = self._unseeded, self._unseeded + 1
        state = np.stack([np.asarray(request["observation/state"], np.float64) for request in requests])
        actions, after = self._policy.infer(
            [Episode()] * len(requests),
            pictures,
            state,
            [request["prompt"] for request in requests],
            np.array(seeds, np.uint64),
        )
        if not np.isfinite(actions).all():
            raise ValueError("the policy's answer is not finite")
        said = [{"subtask": episode.subtask} if episode.subtask else {} for episode in after]
        return [{"actions": chunk} | words for chunk, words in zip(actions, said, strict=True)]

    @property
    def _keys(self) -> list[str]:
        return [key for key in self._adapter.pictures if key is not None]

    def _stacked(self, requests: Sequence[Mapping[str, Any]], key: str) -> np.ndarray:
        """Pictures of one camera, at the model's size: clients may send several."""
        from kernels.resize import resize_with_pad

        side = self._policy.config.vision.image_size
        return np.concatenate(
            [resize_with_pad(np.ascontiguousarray(request[key][None]), side, side) for request in requests]
        )

    @staticmethod
    def _seed(request: Mapping[str, Any]) -> int | None:
        for key in SEEDS:
            if key in request:
                value = request[key]
                if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
                    return int(value)
                raise ValueError(f"{key}: expected an integer, got {type(value).__name__}")
        return None
