"""What the prefix cache saves, by XLA's own count of floating-point operations at the published size; nothing is run."""

from __future__ import annotations

import pytest

pytest.importorskip("flax")

from policies.pi05 import configs, costs


def test_the_cache_saves_two_thirds_of_ten_steps_at_least():
    config = configs.named("pi05_libero")
    assert config.image_tokens + config.prompt_tokens == 968
    found = costs.flops(config)
    assert found.cached() == found.prefix + 10 * found.step
    assert found.anew() > 3.0 * found.cached()


def test_every_layer_is_counted():
    """By hand, two operations for each weight that a token meets, and attention: XLA counts a loop's body once."""
    config = configs.named("pi05_libero")
    trunk = 2 * 968 * 18 * (3 * 2048 * 16384 + 2 * 2048 * 2048 + 2 * 2048 * 256)
    tower = 2 * 768 * 27 * (4 * 1152 * 1152 + 2 * 1152 * 4304)
    attention = 4 * (18 * 8 * 256 * 968**2 + 3 * 27 * 1152 * 256**2)
    assert costs.flops(config).prefix == pytest.approx(trunk + tower + attention, rel=0.01)
