"""From a manifest to a finished results folder, as `schedule` does it for policies: an agent's episode is a record like
any.

Episodes run one after the other; what a folder holds is not run again. `H` and `Q` of the records are 1, and a query is
a decision that moved the robot.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mjx_bench import seeds
from mjx_bench.agent import Agent, AgentFault
from mjx_bench.agents.checking import faults
from mjx_bench.agents.harness import Play, with_programs
from mjx_bench.agents.lane import STEP, Lane
from mjx_bench.agents.transcript import Transcript
from mjx_bench.arms import ArmResult, Arms
from mjx_bench.cases import Case, Manifest, base_key, dump_manifest, manifest_sha256
from mjx_bench.engines import check_scenes
from mjx_bench.episode import Episode
from mjx_bench.judged import TaskKey, dump_tasks, task_name, tasks_sha256
from mjx_bench.observe.choice import PACKAGES, choose_seen
from mjx_bench.observe.pictures import check_cameras
from mjx_bench.physics.choice import PACKAGES as ENGINE_PACKAGES
from mjx_bench.physics.choice import choose, tile_of
from mjx_bench.policy import NATIVE, PolicySpec
from mjx_bench.recording import Progress, Reporter
from mjx_bench.records import Header, RunWriter
from mjx_bench.records.media import stem
from mjx_bench.schedule import LoadTask, load_tasks, versions_of
from mjx_bench.task import GOAL_ALONE, Task
from mjx_bench.tools import Toolset
from mjx_bench.types import Arm


@dataclasses.dataclass(frozen=True)
class AgentSettings:
    """How to run an agent.

    Attributes:
      backend, renderer, scene_form: as in `settings.RunSettings`.
      keep_pictures: the pictures that the agent saw are kept as files.
    """

    backend: str = "auto"
    renderer: str = "auto"
    scene_form: str = "exact"
    keep_pictures: bool = False


def run_agent(
    manifest: Manifest,
    settings: AgentSettings,
    out: Path,
    *,
    load_task: LoadTask,
    toolset_of: Callable[[Task], Toolset],
    agent: Agent,
    progress: Progress | None = None,
) -> None:
    """Plays every case of an evaluation that `out` does not hold yet.

    Args:
      manifest: cases of one task.
      settings: how.
      out: results folder; an existing one is continued.
      load_task: case to task.
      toolset_of: a task's tools and rules.
      agent: what decides.
      progress: as for `schedule.run_pairs`.

    Raises:
      BenchError: what cannot be run, before anything runs; or an agent that cannot go on, with everything finished
      kept.
    """
    engine = choose(settings.backend)
    ((key, task),) = load_tasks(manifest, load_task).items()
    toolset = toolset_of(task)
    if agent.spec.code:
        toolset = with_programs(toolset, task)
    if toolset.horizon is not None:
        task = dataclasses.replace(task, horizon=toolset.horizon)
    spec = PolicySpec(agent.spec.name, STEP, NATIVE, toolset.cameras if agent.spec.sees else (), toolset.image_size)
    check_cameras(spec, [task])
    check_scenes([task], engine[0])
    if not out.exists():
        _check_plays(agent, task, toolset, manifest)
    seen = choose_seen(spec, settings.renderer)
    text = dump_tasks({key: task})
    header = _header(manifest, settings, agent, toolset, key, task, text, engine, seen)
    with RunWriter.open(out, header, dump_manifest(manifest), text) as writer:
        report = Reporter([writer], [STEP], len(manifest.cases), progress).into([0])
        wanted = [case for case in manifest.cases if (case.case_id, Arm.BASE) not in writer.done]
        if not wanted:
            return
        with Lane(task, engine[0], spec.cameras, spec.image_size, seen["renderer"]) as lane:
            for case in wanted:
                try:
                    _play(lane, case, toolset, agent, out, settings, report)
                except AgentFault as fault:
                    raise AgentFault(
                        f"{case.case_id}, agent {agent.spec.name!r}: {fault}; the same command goes on with this episode"
                    ) from fault


def _check_plays(agent: Agent, task: Task, toolset: Toolset, manifest: Manifest) -> None:
    """Raises where an agent cannot begin, so that a run that cannot begin leaves no folder; one that goes on has one."""
    seed = seeds.policy_seed(base_key(manifest.cases[0]))
    try:
        with faults():
            agent.init(task, tuple(tool.schema() for tool in toolset.tools), seed)
    except AgentFault as fault:
        raise AgentFault(f"agent {agent.spec.name!r}: {fault}") from fault


def _play(
    lane: Lane, case: Case, toolset: Toolset, agent: Agent, out: Path, settings: AgentSettings, report: Any
) -> None:
    key = base_key(case)
    folder = out / "agent" / stem(case.case_id) if settings.keep_pictures and agent.spec.sees else None
    transcript = Transcript(case.case_id, agent.spec.name, folder)
    episode = lane.begin(key, case.init_state_index, case.policy_seed)
    Play(lane, toolset, agent, key, transcript).run()
    # Before the record, so that whatever is recorded has its transcript.
    transcript.write(out)
    report(case, lane.task, _result(lane, episode))


def _result(lane: Lane, e: Episode) -> ArmResult:
    assert e.verdict is not None
    return ArmResult(
        arm=Arm.BASE,
        verdict=e.verdict,
        reason=e.reason,
        end_step=e.step,
        success_step=e.success_step,
        success_end=e.success_end,
        query_steps=tuple(e.query_steps),
        arrays=lane.arrays(),
        init_sha256=lane.init_sha256,
        progress=None if lane.task.rules == GOAL_ALONE else float(e.standing.progress),
        wall_s=time.perf_counter() - e.started,
        waited=tuple(e.waited),
    )


def digest_of(toolset: Toolset) -> str:
    """SHA-256 of what an agent is given: brief, tools and rules."""
    given: Mapping[str, Any] = {
        "name": toolset.name,
        "brief": toolset.brief,
        "tools": [tool.schema() for tool in toolset.tools],
        "history": dataclasses.astuple(toolset.history),
        "rules": [toolset.one_call, toolset.answer_ends, toolset.rejection, toolset.horizon, toolset.program_steps],
        "budget": repr(toolset.budget),
        "seen": [*toolset.cameras, toolset.image_size],
    }
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()


def _source(agent: Agent) -> str | None:
    """The file that defines an agent; None for a class that has none (`types.SimpleNamespace`)."""
    try:
        return inspect.getsourcefile(type(agent))
    except TypeError:
        return None


def _header(
    manifest: Manifest,
    settings: AgentSettings,
    agent: Agent,
    toolset: Toolset,
    key: TaskKey,
    task: Task,
    tasks_text: str,
    chosen_engine: tuple[str, str],
    seen: Mapping[str, Any],
) -> Header:
    engine, why = chosen_engine
    versions = versions_of({*ENGINE_PACKAGES[engine], *PACKAGES.get(seen["renderer"], ())})
    assets = {task_name(key): task.version, f"toolset {toolset.name}": digest_of(toolset)}
    if source := _source(agent):
        assets["agent source"] = hashlib.sha256(Path(source).read_bytes()).hexdigest()[:32]
    return Header.collect(
        {
            "policy": f"agent:{agent.spec.name}",
            **dataclasses.asdict(Arms(STEP, STEP)),
            "backend": engine,
            "tile": tile_of(engine),
            "scene_form": settings.scene_form,
            "action_mode": NATIVE,
            **seen,
            "left_out": {},
            "agent": {
                "name": agent.spec.name,
                "privileged": agent.spec.privileged,
                "code_control": agent.spec.code,
                **agent.spec.settings,
            },
            "toolset": toolset.name,
        },
        manifest_sha256(manifest),
        packages=versions,
        assets=assets,
        device=f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors; engine {engine}, {why}",
        tasks_sha256=tasks_sha256(tasks_text),
    )
