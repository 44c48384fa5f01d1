"""`mjx-bench agent`: an agent that decides turn by turn, through the tools that a task declares."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scripts import chosen, report
from scripts import options as shared
from scripts.output import Emit, console, note

if TYPE_CHECKING:
    from mjx_bench.cases import Manifest
    from mjx_bench.records import Run
    from mjx_bench.task import Task
    from mjx_bench.tools import Toolset


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentRun:
    """Let an agent play a task through its benchmark's tools, and show what came of it.

    The same command again goes on where the last one ended.
    """

    suite: str
    """Suite of the task."""
    task: str
    """The task, by index or by name."""
    agent: str
    """scripted (the task's expert, by calls alone), openai:MODEL (a server at $OPENAI_BASE_URL, with $OPENAI_API_KEY),
    code:FILE (a program that decides every control step), or module:factory (your own)."""
    out: Path
    """Results folder; transcripts go into its folder agent."""
    instances: int = 1
    """Initial states: the first so many."""
    backend: str = "auto"
    """Physics engine: c, jax, warp, or auto."""
    renderer: Literal["auto", "gl", "warp"] = "auto"
    """What takes pictures, for an agent that sees."""
    scene_form: Literal["exact", "lean"] = "exact"
    """lean: fewer and simpler colliding geoms, which robot_agent_bench and two suites of LIBERO have; needed by jax."""
    keep_pictures: bool = False
    """Keep the pictures that the agent saw, as PNG files beside its transcripts."""
    dry_run: bool = False
    """Show what the agent would be given, and what at most it may spend, and run nothing."""
    json: bool = False
    """Print the outcome as JSON instead of tables."""


def run(options: AgentRun, emit: Emit) -> int:
    """Plays and reports; 1 if an episode could not be scored."""
    shared.at_least(1, instances=options.instances)

    from evals import registry
    from evals.toolsets import toolset_of
    from mjx_bench.agents.harness import with_programs
    from mjx_bench.agents.run import AgentSettings, run_agent
    from mjx_bench.cases import evaluation
    from mjx_bench.physics.choice import choose
    from policies.agents import registry as agents
    from scripts.chosen import tasks_of
    from scripts.progress import ArmProgress

    suites = shared.plain_suites([options.suite])
    (which,) = tasks_of(suites, [options.task])
    agent = agents.make(options.agent, plays=not options.dry_run)
    registry.build([which], seeds=(chosen.POLICY_SEED,), workers=chosen.BUILDERS, progress=note)
    task = registry.load_task(*which, seeds=(chosen.POLICY_SEED,), form=options.scene_form)
    manifest = evaluation([task], options.instances, chosen.POLICY_SEED)
    if options.dry_run:
        choose(options.backend)
        toolset = toolset_of(task)
        return _say(task, with_programs(toolset, task) if agent.spec.code else toolset, options, emit)
    if agent.spec.privileged:
        note(f"agent {agent.spec.name} reads the simulator's state, which no benchmark lets an agent do")
    with ArmProgress() as progress:
        run_agent(
            manifest,
            AgentSettings(options.backend, options.renderer, options.scene_form, options.keep_pictures),
            options.out,
            load_task=functools.partial(registry.load_case, form=options.scene_form),
            toolset_of=toolset_of,
            agent=agent,
            progress=progress,
        )
    return _report(options, task, manifest, emit)


def _say(task: Task, toolset: Toolset, options: AgentRun, emit: Emit) -> int:
    """What would be given to the agent, in the first episode."""
    most = toolset.horizon or task.horizon
    found: dict[str, Any] = {
        "task": task.name,
        "episodes": options.instances,
        "toolset": toolset.name,
        "brief": f"{toolset.brief}\n\nGoal: {task.instruction_of(0)}",
        "tools": [tool.schema() for tool in toolset.tools],
        "budget": dict(toolset.budget.open().record()),
        "control_steps_at_most": most * options.instances,
        "cameras": list(toolset.cameras),
        "image_size": toolset.image_size,
    }
    if options.json:
        emit(found)
        return 0
    out = console()
    out.print(found["brief"], markup=False)
    for tool in toolset.tools:
        out.print(f"  {tool.name}({', '.join(tool.params)}): {tool.about}", markup=False)
    out.print(
        f"{options.instances} episode{'s' * (options.instances != 1)}, at most {most} control steps each; budget"
        f" {found['budget']}",
        markup=False,
    )
    return 0


def _behaviour(
    options: AgentRun, task: Task, manifest: Manifest, done: Run
) -> tuple[dict[str, float | None], dict[str, float]]:
    """RobotAgentBench's metrics over the episodes that have a score, and process scores by case; else nothing."""
    if options.suite != "robot_agent_bench":
        return {}, {}
    from evals.robot_agent_bench.episodes import metrics, read_episode

    note("reading the episodes' behaviour: their actions are executed once more")
    scored = {record.case_id for record in done.records if record.success is not None}
    read = {c.case_id: read_episode(done, c, task) for c in manifest.cases if c.case_id in scored}
    return metrics(episode for episode, _ in read.values()), {name: score for name, (_, score) in read.items()}


def _report(options: AgentRun, task: Task, manifest: Manifest, emit: Emit) -> int:
    from mjx_bench.agents.transcript import read_summary
    from mjx_bench.records import load_run

    done = load_run(options.out)
    behaviour, scores = _behaviour(options, task, manifest, done)
    rows = []
    for record in done.records:
        summary = read_summary(options.out, record.case_id)
        rows.append(
            {"case_id": record.case_id, "success": record.success, "progress": record.progress}
            | ({"process_score": scores[record.case_id]} if record.case_id in scores else {})
            | {name: value for name, value in summary.items() if name != "budget"}
            | {"budget": summary["budget"]}
        )
    scored = [row for row in rows if row["success"] is not None]
    if options.json:
        emit(
            {
                "suite": options.suite,
                "task": done.records[0].task_name if done.records else options.task,
                "agent": options.agent,
                "episodes": len(rows),
                "void": len(rows) - len(scored),
                "successes": sum(bool(row["success"]) for row in scored),
                **({"behaviour": behaviour} if behaviour else {}),
                "rows": rows,
            }
        )
        return 0 if len(scored) == len(manifest.cases) else 1
    _print(rows)
    if behaviour:
        told = (
            f"{name.replace('_', ' ')} {'undefined' if v is None else f'{v:.1f} %'}" for name, v in behaviour.items()
        )
        console().print(f"behaviour: {', '.join(told)}", markup=False)
    return 0 if report.show(options.out, None) else 1


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(title="episodes")
    for name in (
        "case",
        "verdict",
        "termination",
        "progress",
        "turns",
        "refused",
        "failed",
        "steps",
        "simulated s",
        "thinking s",
        "tokens",
    ):
        table.add_column(name, justify="left" if name in ("case", "verdict", "termination") else "right")
    for row in rows:
        progress = "" if row["progress"] is None else f"{row['progress']:.2f}"
        values = (
            row["case_id"],
            row["verdict"],
            row["termination"],
            progress,
            row["turns"],
            sum(row["refused"].values()),
            row.get("failed", 0),
        )
        more = (row["steps"], f"{row['simulated_s']:.1f}", f"{row['thinking_s']:.1f}", sum(row["tokens"].values()))
        table.add_row(*map(str, (*values, *more)))
    console().print(table)
    for row in rows:
        if row.get("last_error"):
            note(f"{row['case_id']}: the last call that was refused or failed: {row['last_error']}")
