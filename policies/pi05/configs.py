"""Named sizes of the model. Standard library only, so that a name can be checked before anything heavy is loaded."""

from __future__ import annotations

import dataclasses
from typing import Literal

from mjx_bench.errors import unknown_name

# The model's cameras, in the order of their tokens.
CAMERAS = ("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb")

# Token ids that PaliGemma's vocabulary and ours have in common.
PAD, EOS, BOS = 0, 1, 2


@dataclasses.dataclass(frozen=True)
class Vision:
    """The image tower.

    Attributes:
      image_size: pixels a side; a multiple of `patch`.
      patch: pixels a side of what becomes one token.
      width, depth, mlp, heads: of its transformer; `heads` divides `width`.
    """

    image_size: int
    patch: int
    width: int
    depth: int
    mlp: int
    heads: int

    @property
    def tokens(self) -> int:
        """Tokens of one picture."""
        return (self.image_size // self.patch) ** 2


@dataclasses.dataclass(frozen=True)
class Expert:
    """What one stream of tokens goes through beside the shared attention: D and F."""

    width: int
    mlp: int


@dataclasses.dataclass(frozen=True)
class Config:
    """One model.

    Attributes:
      name: as the command line and a checkpoint's metadata have it.
      vision: the image tower.
      trunk: expert 0, for pictures and text.
      expert: expert 1, for actions.
      depth, heads, kv_heads, head_dim: L, N, K and H of the shared attention.
      vocabulary: rows of the token table.
      horizon: T, actions of a chunk.
      action_dim: A, to which states and actions are padded.
      prompt_tokens: places for the prompt.
      state_in_prompt: the state is written into the prompt.
      subtask_tokens: places for a subtask between prompt and actions, 0 for none.
      time_conditioned: the flow's time scales, shifts and gates the action expert's norms (pi0.5); otherwise it is mixed
        into the action tokens, and the state is a token of its own (pi0).
      state_token: the state is a token of its own before the actions in a pi0.5 too.
      adapter: name in `policies.pi05.adapters` of the robot that it is for.
      tokenizer: "paligemma", a file that the user must have, or "small", which is in this package.
      normalisation: kind of the statistics.
      dtype: of activations; weights keep their own.
      remat: activations are computed again for gradients instead of being kept.
      attention: the program of `kernels.attention`; "cudnn" for NVIDIA GPUs and half precision.
    """

    name: str
    vision: Vision
    trunk: Expert
    expert: Expert
    depth: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    horizon: int
    action_dim: int = 32
    prompt_tokens: int = 200
    state_in_prompt: bool = True
    subtask_tokens: int = 0
    time_conditioned: bool = True
    state_token: bool = False
    adapter: str = "libero"
    tokenizer: Literal["paligemma", "small"] = "paligemma"
    normalisation: Literal["quantile", "zscore"] = "quantile"
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    remat: bool = True
    attention: Literal["xla", "cudnn"] = "xla"

    @property
    def projects_state(self) -> bool:
        """Whether the state is a token of its own: in pi0, and where `state_token` asks for it."""
        return self.state_token or not self.time_conditioned

    @property
    def image_tokens(self) -> int:
        """Tokens of all cameras."""
        return len(CAMERAS) * self.vision.tokens


# SigLIP So400m/14, gemma_2b and gemma_300m.
PI05_BASE = Config(
    name="pi05_base",
    vision=Vision(image_size=224, patch=14, width=1152, depth=27, mlp=4304, heads=16),
    trunk=Expert(width=2048, mlp=16384),
    expert=Expert(width=1024, mlp=4096),
    depth=18,
    heads=8,
    kv_heads=1,
    head_dim=256,
    vocabulary=257_152,
    horizon=50,
)

SMALL = Config(
    name="pi05_small",
    vision=Vision(image_size=128, patch=16, width=384, depth=6, mlp=1536, heads=6),
    trunk=Expert(width=512, mlp=2048),
    expert=Expert(width=256, mlp=1024),
    depth=8,
    heads=8,
    kv_heads=1,
    head_dim=64,
    vocabulary=1024,
    horizon=16,
    prompt_tokens=64,
    subtask_tokens=24,
    adapter="tabletop",
    tokenizer="small",
    dtype="float32",
    remat=False,
)

TINY = dataclasses.replace(
    SMALL,
    name="pi05_tiny",
    vision=Vision(image_size=64, patch=16, width=128, depth=3, mlp=512, heads=4),
    trunk=Expert(width=192, mlp=768),
    expert=Expert(width=128, mlp=512),
    depth=4,
    heads=4,
    head_dim=32,
)

# Small enough to be trained on two processors: the state is one token instead of some forty in the prompt.
MICRO = dataclasses.replace(
    TINY,
    name="pi05_micro",
    trunk=Expert(width=128, mlp=512),
    expert=Expert(width=128, mlp=256),
    depth=3,
    prompt_tokens=16,
    state_in_prompt=False,
    state_token=True,
    subtask_tokens=0,
    action_dim=8,
)

CONFIGS = {
    config.name: config
    for config in (
        PI05_BASE,
        dataclasses.replace(PI05_BASE, name="pi05_libero", horizon=10, state_in_prompt=False),
        dataclasses.replace(PI05_BASE, name="pi05_roboquest", horizon=20, subtask_tokens=32, adapter="roboquest"),
        dataclasses.replace(
            PI05_BASE,
            name="pi0_base",
            time_conditioned=False,
            prompt_tokens=48,
            state_in_prompt=False,
            normalisation="zscore",
        ),
        SMALL,
        TINY,
        MICRO,
    )
}


def named(name: str) -> Config:
    """The configuration of this name.

    Raises:
      BenchError: there is none; with the nearest names.
    """
    if name not in CONFIGS:
        raise unknown_name("policy configuration", name, CONFIGS)
    return CONFIGS[name]
