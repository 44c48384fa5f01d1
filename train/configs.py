"""Named settings of training. Standard library only, so that a name can be checked before anything heavy is loaded."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from mjx_bench.errors import BenchError, unknown_name
from policies.pi05 import configs as models

# Parts of the model that may be left as they are.
PARTS = ("tower", "trunk", "expert")

_SEEDS = 2**32  # of the order of batches


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """How pictures are varied, by openpi's rules; 0 leaves a property as it is.

    Attributes:
      crop: share of a side that is cut away, at a random place; the rest is enlarged again. Not for cameras at a wrist.
      rotation: degrees, at most, to either side. Not for cameras at a wrist.
      brightness, contrast, saturation: factors are drawn from 1 - x to 1 + x.
    """

    crop: float = 0.05
    rotation: float = 5.0
    brightness: float = 0.3
    contrast: float = 0.4
    saturation: float = 0.5


@dataclasses.dataclass(frozen=True)
class Config:
    """One training.

    Attributes:
      name: as the command line has it.
      model: name in `policies.pi05.configs`.
      steps: of the optimiser.
      batch: frames a step, over all devices.
      accumulate: parts that a batch is cut into, one after the other, to save memory.
      draws: noises and flow times for each frame and step; the prefix is read once for all of them.
      peak: learning rate after `warmup` steps, from where a cosine leads to `peak * floor` at the last step.
      warmup, floor: see `peak`.
      betas, epsilon, weight_decay: of AdamW.
      clip: largest norm of a gradient.
      ema: decay of the averaged weights, which are the ones that act; 0 for none. It starts lower:
        min(ema, (1 + step) / (10 + step)).
      frozen: of `PARTS`, those that are not trained.
      lora: rank of the adapters that are trained in place of trunk's and expert's matrices; 0 for none.
      auxiliary: weight of the error of the places of things, told from image tokens; 0 for none. For datasets with a
        column `environment_state`.
      augmentation: of pictures.
      workers: processes that prepare batches; 0 for threads of this one.
      fsdp: devices over which the weights are cut; the others hold copies.
      log_every, picture_every: steps between lines of the log, and between pictures of sample predictions.
      save_every: steps between checkpoints.
      keep: checkpoints that are kept, the latest.
      keep_every: every so many steps one is kept for good; 0 for none.
      eval_every: steps between evaluations on held-out instances; 0 for none.
      seed: of everything that is drawn.
    """

    name: str
    model: str
    steps: int = 30_000
    batch: int = 32
    accumulate: int = 1
    draws: int = 1
    peak: float = 2.5e-5
    warmup: int = 1_000
    floor: float = 0.1
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 1e-4
    clip: float = 1.0
    ema: float = 0.999
    frozen: tuple[str, ...] = ()
    lora: int = 0
    auxiliary: float = 0.0
    augmentation: Augmentation = Augmentation()
    workers: int = 2
    fsdp: int = 1
    log_every: int = 50
    picture_every: int = 1_000
    save_every: int = 1_000
    keep: int = 2
    keep_every: int = 5_000
    eval_every: int = 0
    seed: int = 0

    def check(self) -> None:
        """Refuses what cannot be trained.

        Raises:
          BenchError: with the field, its value and what it may be.
        """
        for name, value in _flat(dataclasses.asdict(self)).items():
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, float) and not math.isfinite(number):
                    raise BenchError(f"{name} = {number}; give a finite number")
        for field in (
            "steps",
            "batch",
            "accumulate",
            "draws",
            "fsdp",
            "log_every",
            "picture_every",
            "save_every",
            "keep",
        ):
            if getattr(self, field) < 1:
                raise BenchError(f"{field} = {getattr(self, field)}; give an integer of at least 1")
        for field in ("warmup", "lora", "auxiliary", "workers", "keep_every", "eval_every", "weight_decay"):
            if getattr(self, field) < 0:
                raise BenchError(f"{field} = {getattr(self, field)} is negative")
        for field in ("peak", "clip"):
            if getattr(self, field) <= 0:
                raise BenchError(f"{field} = {getattr(self, field)}; give a number above 0")
        if not 0.0 <= self.floor <= 1.0:
            raise BenchError(f"floor = {self.floor}; give a share of the peak from 0 to 1")
        if not 0 <= self.seed < _SEEDS:
            raise BenchError(f"seed = {self.seed}; give an integer from 0 to {_SEEDS - 1}")
        if self.batch % self.accumulate:
            raise BenchError(f"batch = {self.batch} is no multiple of accumulate = {self.accumulate}")
        if not 0.0 <= self.ema < 1.0:
            raise BenchError(f"ema = {self.ema}; give a decay from 0 up to, not including, 1")
        for part in self.frozen:
            if part not in PARTS:
                raise unknown_name("part of the model", part, PARTS)
        if not set(PARTS) - set(self.frozen):
            raise BenchError(f"frozen = {', '.join(self.frozen)}: nothing is left to train; leave out one of them")
        if self.lora:
            self._check_lora()

    def _check_lora(self) -> None:
        model = models.named(self.model)
        streams = {part: getattr(model, part) for part in ("trunk", "expert") if part not in self.frozen}
        if not streams:
            raise BenchError(
                f"lora = {self.lora} is for matrices of trunk and expert, and frozen = {', '.join(self.frozen)};"
                " leave out one of the two, or give --lora 0"
            )
        most = min(model.head_dim, *(side for stream in streams.values() for side in (stream.width, stream.mlp)))
        if self.lora > most:
            raise BenchError(
                f"lora = {self.lora} is more than the rank of {model.name}'s smallest matrix; give at most {most}"
            )


CONFIGS = {
    config.name: config
    for config in (
        # RoboQuest's published recipe; the decay of its EMA is not public, openpi's is taken.
        Config("pi05_roboquest", "pi05_roboquest"),
        # openpi's recipe for LIBERO.
        Config(
            "pi05_libero",
            "pi05_libero",
            batch=256,
            peak=5e-5,
            warmup=10_000,
            floor=1.0,
            betas=(0.9, 0.95),
            weight_decay=1e-10,
            workers=8,
            fsdp=8,
        ),
        # For trying things out on two processors.
        Config(
            "pi05_tiny_tabletop",
            "pi05_tiny",
            steps=2_000,
            peak=1e-3,
            warmup=100,
            floor=0.01,
            workers=0,
            save_every=500,
            augmentation=Augmentation(crop=0.03, rotation=0.0),
        ),
        # One native task from pictures, on two processors in less than an hour.
        Config(
            "pi05_micro_tabletop",
            "pi05_micro",
            steps=3_000,
            batch=64,
            draws=4,
            peak=1e-3,
            warmup=100,
            floor=0.01,
            auxiliary=1.0,
            workers=0,
            save_every=500,
            picture_every=500,
            augmentation=Augmentation(crop=0.03, rotation=0.0, brightness=0.2, contrast=0.2, saturation=0.2),
        ),
    )
}


def named(name: str) -> Config:
    """The settings of this name.

    Raises:
      BenchError: there are none; with the nearest names.
    """
    if name not in CONFIGS:
        raise unknown_name("training configuration", name, CONFIGS)
    return CONFIGS[name]


def lines(config: Config) -> list[str]:
    """Every setting, one a line."""
    flat = _flat(dataclasses.asdict(config))
    width = max(map(len, flat))
    return [f"{name:<{width}}  {value}" for name, value in flat.items()]


def to_json(config: Config) -> str:
    """As a run keeps it."""
    return json.dumps(dataclasses.asdict(config), indent=1) + "\n"


# What may change when a run goes on: where it ends, and what is written or looked at on the way.
FREE = ("steps", "log_every", "picture_every", "save_every", "keep", "keep_every", "eval_every", "workers", "fsdp")


def check_same(stored: dict[str, Any], config: Config) -> None:
    """Refuses to go on with a run under other settings than it began with, those of `FREE` aside.

    Raises:
      BenchError: with the first setting that differs.
    """
    before, now = _flat(stored), _flat(json.loads(to_json(config)))
    for name in now:
        if name not in FREE and before.get(name) != now[name]:
            raise BenchError(
                f"this run was begun with {name} = {before.get(name)}, not {now[name]}; leave it so, or choose another --out"
            )


def _flat(fields: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in fields.items():
        out.update({f"{name}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value})
    return out
