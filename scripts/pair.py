"""`mjx-bench pair`: runs cases in pairs."""

from __future__ import annotations

import dataclasses

from scripts import chosen, running
from scripts import options as shared
from scripts.output import Emit


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair(chosen.EventCaseOptions, shared.OneRunOptions):
    """Run a policy on cases in pairs: the base arm as it is, the dynamic arm with one event in mid-episode.

    The cases come from a manifest, or are drawn from suites. The same command again goes on where the last one ended.
    """

    replay: bool = False
    """Run each dynamic arm from the start instead of forking it at its event, and check that it arrives at the same bits."""
    faithful: bool = False
    """Removed objects behave as in the reference: dropped under the floor and shot upwards, not parked."""


def run(options: Pair, emit: Emit) -> int:
    """Runs and reports; 1 if a case could not be scored."""
    no_event, _ = shared.no_event(shared.flat(options.event))
    settings, policy = running.begin_one(options, replay=options.replay, no_event=no_event, faithful=options.faithful)
    manifest, load = chosen.choose(options, options.scene_form, interval=options.query_interval)
    return running.carry_out(options, manifest, settings, policy, load, emit)
