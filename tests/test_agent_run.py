"""An agent's episode is a record like any: reported, judged again, filmed, replayed; and a run goes on where it ended."""

from __future__ import annotations

import dataclasses
import json
import types
from pathlib import Path

import pytest

from evals import registry
from evals.toolsets import toolset_of
from mjx_bench.agent import AgentFault, Reply, Turn
from mjx_bench.agents.run import AgentSettings, run_agent
from mjx_bench.agents.transcript import read_summary, transcript_path
from mjx_bench.cases import Manifest, evaluation
from mjx_bench.errors import BenchError
from mjx_bench.film import film_pair
from mjx_bench.records import Record, load_run
from mjx_bench.report.evaluation import summarise_evaluation
from mjx_bench.rescore import rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.task import Task
from mjx_bench.types import Arm
from policies.agents.scripted import Scripted
from policies.reference.oracle import Oracle
from policies.replay import Replay
from tests.agent_plays import DRONE, HALF, ROOM, Says, call, named, quest, robotworld

CASES = evaluation([DRONE], 2, 195)
LEAN = AgentSettings(backend="c", scene_form="lean")
# Four steps, then idling until the budget ends the episode.
FOUR = (call("apply_action", HALF | {"steps": 3}), call("apply_action", HALF | {"steps": 1}), call("observe"))


def go(out: Path, agent: object, task: Task = DRONE, manifest: Manifest = CASES) -> list[Record]:
    settings = AgentSettings(backend="c")
    run_agent(manifest, settings, out, load_task=lambda case: task, toolset_of=toolset_of, agent=agent)  # type: ignore[arg-type]
    return list(load_run(out).records)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("agent")
    go(out, Says(*FOUR))
    return out


def test_a_record_says_how_it_ended_and_the_transcript_the_rest(played: Path):
    for record in load_run(played).records:
        assert (record.verdict, record.reason, record.end_step) == ("timeout", "nonaction_consecutive_limit", 4)
        assert (record.n_queries, record.success, record.progress) == (2, False, 0.0)
        summary = read_summary(played, record.case_id)
        assert (summary["turns"], summary["steps"], summary["termination"]) == (17, 4, record.reason)
        assert summary["calls"] == {"apply_action": 2, "observe": 15}
    data = json.loads(transcript_path(played, record.case_id).read_text())
    assert [tool["name"] for tool in data["tools"]] == ["observe", "apply_action"]
    assert data["system"].endswith(DRONE.instruction)


def test_it_is_reported_judged_again_and_filmed(played: Path):
    loaded = load_run(played)
    assert summarise_evaluation(loaded)["void"] == 0
    assert rescore(played).agrees
    film = film_pair(loaded, CASES.cases[0], DRONE)
    assert len(film.arms[Arm.BASE].poses) == 5
    assert film.arms[Arm.BASE].query_steps == (0, 3)


def test_a_replay_of_it_executes_the_same(played: Path, tmp_path: Path):
    settings = RunSettings(policy="replay", lanes=2, query_interval=1, threads=1, backend="c")
    replay = Replay(str(played))
    run_pairs(CASES, settings, tmp_path, load_task=lambda case: DRONE, policy=replay)
    was, now = load_run(played), load_run(tmp_path)
    assert was.done.keys() == now.done.keys()
    for key, record in was.done.items():
        for name in ("actions", "eef_pos"):
            assert now.array(now.done[key], name).data.startswith(was.array(record, name).data)


def test_a_run_goes_on_and_comes_out_the_same(played: Path, tmp_path: Path):
    def gone(turn: Turn) -> Reply:
        raise AgentFault("the server is gone")

    with pytest.raises(
        AgentFault, match=r"i0-p195, agent 'says': the server is gone; the same command goes on with this"
    ):
        go(tmp_path, Says(*FOUR[:2], gone))
    assert not load_run(tmp_path).records, "an episode without an end is not recorded"
    again = go(tmp_path, Says(*FOUR))
    assert [r.result() for r in again] == [r.result() for r in load_run(played).records]
    assert go(tmp_path, Says(gone)) == again, "what is there is not played again"


def test_other_rules_do_not_finish_what_was_begun(played: Path):
    with pytest.raises(BenchError, match=r"settings\.agent\.privileged"):
        go(played, Says(*FOUR, privileged=True))


def test_another_form_of_the_scene_does_not_finish_what_was_begun(tmp_path: Path):
    agent = Says(Reply(ending="refused"))
    run_agent(CASES, LEAN, tmp_path, load_task=lambda case: DRONE, toolset_of=toolset_of, agent=agent)
    assert load_run(tmp_path).header.settings["scene_form"] == "lean"
    with pytest.raises(
        BenchError, match=r"settings\.scene_form = 'lean', now it is 'exact'; give --scene-form lean to continue"
    ):
        go(tmp_path, agent)


def test_an_agent_that_cannot_play_leaves_no_folder(tmp_path: Path):
    class Cannot(Says):
        def init(self, *args: object) -> int:
            raise BenchError("no such tool")

    with pytest.raises(BenchError, match="no such tool"):
        go(tmp_path / "out", Cannot())
    assert not (tmp_path / "out").exists()


def test_an_agent_that_raises_at_the_start_leaves_no_folder_and_later_loses_nothing(tmp_path: Path):
    class Fails(Says):
        works = False

        def init(self, *args: object) -> int:
            if not self.works:
                raise ValueError("bug")
            return super().init(*args)  # type: ignore[arg-type]

    agent = Fails(Reply(ending="refused"))
    with pytest.raises(AgentFault, match=r"^agent 'says': raised ValueError: bug \(test_agent_run\.py, line \d+\)$"):
        go(tmp_path / "out", agent)
    assert not (tmp_path / "out").exists()
    agent.works = True
    go(tmp_path / "out", agent)
    assert {r.verdict for r in load_run(tmp_path / "out").records} == {"timeout"}


class Named(Says):
    """An agent of another name."""

    def __init__(self, name: str) -> None:
        super().__init__(Reply(ending="refused"))
        self.spec = dataclasses.replace(self.spec, name=name)


@pytest.mark.parametrize(
    ("was", "told"),
    [
        ("scripted", "give --agent scripted to continue"),
        ("openai:tiny", "give --agent openai:tiny to continue"),
        ("says", "give the --agent that is named 'says' to continue"),
    ],
)
def test_another_agent_is_told_which_one_goes_on(was: str, told: str, tmp_path: Path):
    go(tmp_path, Named(was))
    with pytest.raises(BenchError, match=rf"settings\.policy = 'agent:{was}', now it is 'agent:other'; {told}"):
        go(tmp_path, Named("other"))


def test_a_folder_of_policies_is_none_of_agents_and_the_other_way_round(played: Path, tmp_path: Path):
    settings = RunSettings(policy="zero", lanes=1, query_interval=1, threads=1, backend="c")
    short = dataclasses.replace(DRONE, horizon=2)

    def evaluate(out: Path) -> None:
        run_pairs(CASES, settings, out, load_task=lambda case: short, policy=Oracle())

    with pytest.raises(
        BenchError, match=r"episodes of the agent 'says' .*, now it is the policy 'zero' .*; give another --out"
    ):
        evaluate(played)
    evaluate(tmp_path)
    with pytest.raises(
        BenchError, match=r"episodes of the policy 'zero' .*, now it is the agent 'says' .*; give another --out"
    ):
        go(tmp_path, Says(*FOUR))


def test_an_agent_whose_class_has_no_file_is_recorded_too(tmp_path: Path):
    says = Says(Reply(ending="refused"))
    agent = types.SimpleNamespace(spec=says.spec, init=says.init, reply=says.reply)
    assert [r.reason for r in go(tmp_path, agent)] == ["provider_refusal"] * 2


@pytest.mark.parametrize("task", [DRONE, robotworld("quadruped_push_recovery")], ids=["flies", "walks"])
def test_the_expert_moves_through_its_tools_as_it_does_without(tmp_path: Path, task: Task):
    """Where a call holds an action for a step, calls add nothing: the same bits as in an evaluation, and those that a
    control law takes beyond 1.
    """
    task = dataclasses.replace(task, horizon=40)
    one = evaluation([task], 1, 195)
    (agent,) = go(tmp_path / "agent", Scripted(), task, one)
    settings = RunSettings(policy="scripted.oracle", lanes=1, query_interval=8, threads=1, backend="c")
    run_pairs(one, settings, tmp_path / "eval", load_task=lambda case: task, policy=Oracle())
    (policy,) = load_run(tmp_path / "eval").records
    for name in ("actions", "eef_pos"):
        a, b = (load_run(tmp_path / f).array(r, name).data for f, r in (("agent", agent), ("eval", policy)))
        assert a == b
    assert agent.end_step == 40


@pytest.mark.parametrize("task", [DRONE, ROOM], ids=lambda task: task.name)
def test_an_episode_without_a_step_is_a_record_too(tmp_path: Path, task: Task):
    one = evaluation([task], 1, 195)
    (record,) = go(tmp_path, Says(dataclasses.replace(call("wait"), ending="refused")), task, one)
    assert (record.end_step, record.n_queries, record.reason) == (0, 0, "provider_refusal")
    assert rescore(tmp_path).agrees
    assert len(film_pair(load_run(tmp_path), one.cases[0], task).arms[Arm.BASE].poses) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "task",
    [
        ROOM,
        quest("puzzle_box"),
        *(named("robot_agent_bench", row["name"]) for row in registry.task_table("robot_agent_bench")),
        *(named("robotworld", row["name"]) for row in registry.task_table("robotworld")),
        quest("odd_parcel"),
        quest("skill_pick_place"),
        quest("skill_drive_pick"),
    ],
    ids=lambda task: task.name,
)
def test_the_expert_succeeds_through_the_tools_of_each_benchmark(tmp_path: Path, task: Task):
    (record,) = go(tmp_path, Scripted(), task, evaluation([task], 1, 195))
    assert record.verdict == "success", record.reason
    film_pair(load_run(tmp_path), evaluation([task], 1, 195).cases[0], task)
