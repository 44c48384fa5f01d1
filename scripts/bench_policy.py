"""`mjx-bench bench policy`: pi0.5 policies at random weights, on any machine: actions a second, prefix cache, serving."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mjx_bench.errors import BenchError, MissingExtra
from scripts import options as shared
from scripts.output import note

if TYPE_CHECKING:
    from policies.pi05.configs import Config
    from policies.pi05.policy import Pi05

# Whose lengths the operations saved by the prefix cache are counted at: 968 tokens of prefix, 10 of actions.
COUNTED = "pi05_libero"


@dataclasses.dataclass(frozen=True)
class PolicyBench:
    """Actions a second of pi0.5 policies at random weights over lanes, what the prefix cache saves, what serving costs."""

    config: shared.Names = ()
    """Configurations, one after another: pi05_tiny, pi05_small, pi05_base, ...; pi05_tiny if none is given."""
    lanes: tuple[int, ...] = (1, 8, 64)
    """Numbers of lanes that ask at once."""
    clients: int = 8
    """Clients of a server in a process of its own, all at once; 0 leaves that out."""
    repeats: int = 5
    """How often everything is measured, in turns."""
    json: bool = False
    """Print JSON instead of text."""


def policy(options: PolicyBench) -> dict[str, Any]:
    """The figures of `bench policy`; the keys are those of the JSON."""
    shared.at_least(1, lanes=min(options.lanes, default=0), repeats=options.repeats)
    shared.at_least(0, clients=options.clients)

    from policies.pi05 import configs

    chosen = [configs.named(name) for name in shared.flat(options.config) or ("pi05_tiny",)]
    # A server beside this process needs its part of the device's memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        from policies.pi05 import costs
    except ModuleNotFoundError as error:
        raise MissingExtra(f"bench policy needs {error.name}: pip install -e '.[pi05]'") from None
    if options.clients:
        import scripts.bench_serving  # noqa: F401 - says what is missing of the extra `serve`, before any work

    from mjx_bench.bench import figures

    for config in chosen:
        _check_memory(config)
    counted = configs.named(COUNTED)
    flops = costs.flops(counted)
    return {
        "configs": [_one(config, options) for config in chosen],
        "flops_of_ten_steps": {
            "config": COUNTED,
            "prefix_tokens": counted.image_tokens + counted.prompt_tokens,
            "action_tokens": counted.horizon,
            "cached": flops.cached(),
            "without_cache": flops.anew(),
            "ratio": float(f"{flops.anew() / flops.cached():.4g}"),
        },
        "peak_rss_mib": figures.peak_rss_mib(),
        **figures.machine(),
    }


def _one(config: Config, options: PolicyBench) -> dict[str, Any]:
    """The figures of one configuration."""
    import jax

    from policies.pi05 import costs
    from policies.pi05.policy import TILE
    from scripts import bench_acting as acting

    note(f"{config.name}: drawing weights")
    found = acting.model(config)
    flops = costs.flops(config)
    widths: dict[int, Pi05] = {}
    compiling: dict[int, float] = {}
    for width in dict.fromkeys((TILE, *options.lanes)):
        widths[width], compiling[width] = acting.compiled(found, width)
        note(f"{config.name}: {width} lanes in one program, compiled in {compiling[width]:.3g} s")
    matmul = acting.matmul(config)
    rows = []
    for lanes in options.lanes:
        row = acting.over_lanes(widths[TILE], widths[lanes], lanes, options.repeats, flops.cached(), matmul)
        rows.append(row | {"compile_s": round(compiling[lanes], 1)})
        note(f"{config.name}, {lanes} lanes: {row['in_tiles']['actions_per_s']:g} actions/s in tiles of {TILE}")
    saved = float(f"{flops.anew() / flops.cached():.4g}")
    return {
        "config": config.name,
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(found.tree)),
        "computes_in": config.dtype,
        "device": jax.devices()[0].device_kind,
        "actions_a_query": config.horizon,
        "tile": TILE,
        "flops_a_query": flops.cached(),
        "matmul_flops_per_s": float(f"{matmul():.4g}"),
        "lanes": rows,
        "prefix_cache": {"flops_ratio": saved, **acting.prefix(found, options.repeats)},
        **_pictures(widths[TILE], options.repeats),
        **_served(widths[TILE], options),
    }


def _pictures(acting: Pi05, repeats: int) -> dict[str, Any]:
    """What is saved by pictures that stay on the device, or why that is not measured."""
    from mjx_bench.observe.choice import choose
    from scripts.bench_acting import pictures

    try:
        choose("warp")
        return {"pictures_on_device": pictures(acting, repeats), "pictures_note": None}
    except MissingExtra as missing:
        return {"pictures_on_device": None, "pictures_note": str(missing)}


def _served(acting: Pi05, options: PolicyBench) -> dict[str, Any]:
    """What a server keeps of the policy's speed, or why that is not measured."""
    from policies.pi05 import configs

    if not options.clients:
        return {"served": None, "served_note": "--clients 0"}
    if configs.named(acting.config.name).tokenizer != "small":
        return {"served": None, "served_note": "a server needs the model's tokenizer, which is not in this package"}
    from scripts.bench_serving import measure

    return {"served": measure(acting, options.clients, options.repeats), "served_note": None}


def _check_memory(config: Config) -> None:
    """Raises `BenchError` for a model that this machine has no memory for."""
    import jax

    from policies.pi05 import weights

    count = sum(leaf.size for leaf in jax.tree.leaves(weights.abstract(config)[1]))
    device = jax.devices()[0]
    stats = device.memory_stats() or {}
    # Weights, and as much again for what is computed from them. A CPU has no half precision: there, float32 comes on top.
    each = 8 if config.dtype == "float32" or device.platform == "cpu" else 4
    if "bytes_limit" in stats:
        have, where = stats["bytes_limit"] - stats.get("bytes_in_use", 0), device.device_kind
    else:
        have, where = _free_memory(), "this machine"
    if count * each > have:
        raise BenchError(
            f"{config.name} needs about {count * each / 2**30:.3g} GiB of memory, and {where} has {have / 2**30:.3g} free;"
            " take a smaller configuration, such as pi05_tiny, or a GPU"
        )


def _free_memory() -> int:
    """Bytes that this machine has free."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        line = next(line for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable:"))
        return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
