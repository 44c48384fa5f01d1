"""What a run is told, and what of it the policy at hand can do."""

from __future__ import annotations

import dataclasses

from mjx_bench.arms import Arms, Manner
from mjx_bench.errors import BenchError
from mjx_bench.observe.repair import check_restoration
from mjx_bench.physics.choice import choose
from mjx_bench.policy import Policy


@dataclasses.dataclass(frozen=True)
class RunSettings(Manner):
    """How to run the cases of a manifest.

    Attributes:
      policy: name, as recorded.
      lanes: episodes of one scene that run side by side.
      query_interval: Q, actions executed of each chunk.
      horizon: H, actions used of each chunk; None for all that the policy returns.
      threads: worker threads; 0 for one a processor.
      backend: engine, `auto` or one of `physics.choice.ENGINES`.
      renderer: of the policy's pictures, `auto` or one of `observe.choice.RENDERERS`; not used for a policy without cameras.
      scene_form: of the tasks that `load_task` returns, as recorded.
    """

    policy: str
    lanes: int
    query_interval: int
    horizon: int | None = None
    threads: int = 0
    backend: str = "auto"
    renderer: str = "auto"
    scene_form: str = "exact"


def check_settings(settings: RunSettings, policy: Policy) -> Arms:
    """How arms are run under these settings.

    Raises:
      BenchError: a number out of range, Q > H, a horizon longer than the policy's, or a backend that is unknown or not
        installed.
    """
    for name in ("lanes", "query_interval"):
        if getattr(settings, name) < 1:
            raise BenchError(f"{name.replace('_', ' ')} must be at least 1, got {getattr(settings, name)}")
    if settings.threads < 0:
        raise BenchError(f"threads must be 0 (one a processor) or more, got {settings.threads}")
    choose(settings.backend)
    horizon = policy.spec.horizon if settings.horizon is None else settings.horizon
    if not 1 <= horizon <= policy.spec.horizon:
        raise BenchError(f"horizon must be 1 to {policy.spec.horizon}, what {settings.policy} returns, got {horizon}")
    if settings.query_interval > horizon:
        raise BenchError(
            f"query interval {settings.query_interval} is larger than the action horizon {horizon} of {settings.policy}:"
            f" it would run out of actions; choose 1 to {horizon}"
        )
    if settings.delay < 0:
        raise BenchError(f"delay must be 0 or more control steps, got {settings.delay}")
    if (needed := settings.query_interval + settings.delay) > horizon:
        raise BenchError(
            f"query interval {settings.query_interval} and delay {settings.delay} need {needed}"
            f" actions of each answer, and the action horizon of {settings.policy} is {horizon}; choose smaller ones"
        )
    check_restoration(settings.restoration, policy.spec)
    manner = {field.name: getattr(settings, field.name) for field in dataclasses.fields(Manner)}
    return Arms(settings.query_interval, horizon, **manner)
