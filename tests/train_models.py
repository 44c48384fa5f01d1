"""The smallest model that has everything that training touches, and settings to train it in seconds."""

from __future__ import annotations

import dataclasses

from policies.pi05 import configs as models
from train import configs

NANO = dataclasses.replace(
    models.MICRO,
    name="pi05_nano",
    vision=models.Vision(image_size=16, patch=8, width=16, depth=1, mlp=32, heads=2),
    trunk=models.Expert(width=16, mlp=32),
    expert=models.Expert(width=16, mlp=32),
    depth=1,
    heads=2,
    head_dim=8,
    horizon=4,
)
NANO_TRAINING = dataclasses.replace(
    configs.named("pi05_micro_tabletop"),
    name="nano",
    model="pi05_nano",
    steps=6,
    batch=8,
    draws=2,
    warmup=2,
    log_every=1,
    picture_every=100,
    save_every=3,
    augmentation=configs.Augmentation(crop=0.1, rotation=0.0),
)


def register(monkeypatch) -> None:
    """Makes both known by name."""
    monkeypatch.setitem(models.CONFIGS, NANO.name, NANO)
    monkeypatch.setitem(configs.CONFIGS, NANO_TRAINING.name, NANO_TRAINING)
