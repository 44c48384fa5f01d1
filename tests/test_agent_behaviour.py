"""From an agent's recorded episodes to RobotAgentBench's behavioural metrics and process scores."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals import registry
from evals.robot_agent_bench import episodes
from evals.robot_agent_bench.behaviour import Happening, Subtask
from evals.robot_agent_bench.episodes import Made, metrics, read_episode
from evals.toolsets import toolset_of
from mjx_bench.agent import Reply, Turn
from mjx_bench.agents.run import AgentSettings, run_agent
from mjx_bench.agents.transcript import transcript_path
from mjx_bench.cases import evaluation
from mjx_bench.records import load_run
from mjx_bench.task import Task
from policies.agents.scripted import Scripted
from scripts.agent import AgentRun, run
from tests.agent_plays import Says, call, named

WASTE = registry.load_task("robot_agent_bench", 2)
MISSED = named("robot_agent_bench", "shelf_pickup_missed")
DONE = call("done", {"reason": "enough"})


def go(out: Path, agent: Any, task: Task) -> episodes.Episode:
    cases = evaluation([task], 1, 195)
    run_agent(cases, AgentSettings(backend="c"), out, load_task=lambda case: task, toolset_of=toolset_of, agent=agent)
    return read_episode(load_run(out), cases.cases[0], task)[0]


def test_an_idle_agent_stagnates_and_covers_nothing(tmp_path: Path):
    """Four alike executions of 15 s: half of the minute is stagnant, and no call advanced anything."""
    waits = call("wait", {"seconds": 15.0})
    episode = go(tmp_path, Says(waits, call("fly"), waits, call("observe"), waits, waits, DONE), WASTE)
    assert episode.subtasks == (Subtask(False, 0.0, 1.0),)
    assert [(c.begin, c.end) for c in episode.calls if c.end > c.begin] == [(300 * i, 300 * i + 300) for i in range(4)]
    assert {c.key[0] for c in episode.calls} == {"wait", "fly", "observe", "done"}
    assert not any(c.progressed for c in episode.calls)
    # The loop of one call counts from its second cycle on.
    assert metrics([episode]) == {
        "task_coverage": 0.0,
        "task_progress": None,
        "recovery_rate": None,
        "stagnation": 75.0,
    }


def test_exploring_and_driving_are_no_stagnation(tmp_path: Path):
    calls = [
        call("look", {"yaw": 1.4, "pitch": 0.2}), call("drive", {"distance": -0.3}), call("turn", {"angle": 0.4}),
        call("drive_velocity", {"v": 0.1, "w": 0.0, "seconds": 0.1}), DONE,
    ]  # fmt: skip
    look, drive, turn, too_short, _ = go(tmp_path, Says(*calls), WASTE).calls
    assert look.cells > 100
    assert look.navigated is None
    assert drive.navigated == (pytest.approx(0.29, abs=0.02), pytest.approx(0.0, abs=0.02))
    assert turn.navigated is not None
    assert turn.navigated[1] == pytest.approx(0.39, abs=0.03)
    assert (drive.went, turn.went) == (True, True)
    assert too_short.navigated is None, "the base had no time to do half of it"
    assert drive.state is not None
    assert np.allclose(drive.state.joints[16:18], [1.4, 0.2], atol=0.02)


def test_a_missed_grasp_is_a_failure_of_its_subtask(tmp_path: Path):
    """Fingers that close on air, near the target and away from it."""

    def hand(turn: Turn, by: float) -> list[float]:
        text = next(part for part in turn.messages[-1].parts if isinstance(part, str))
        found: list[float] = np.add(json.loads(text.partition(": ")[2])["right_hand"]["position"], [by, 0, 0]).tolist()
        return found

    def leads(by: float) -> Callable[[Turn], Reply]:
        return lambda turn: call("move_eef_to", {"arm": "right", "position": hand(turn, by)})

    opens, closes = (call("set_gripper", {"arm": "right", "theta": theta}) for theta in (0.7, 0.05))
    wait = call("wait", {"seconds": 0.6})
    episode = go(tmp_path, Says(opens, leads(0.03), closes, wait, leads(-0.1), opens, closes, wait, DONE), MISSED)
    missed = [h for h in episode.happenings if not h.success]
    assert len(missed) == 1
    third = episode.calls[2]
    assert third.end - 2 <= missed[0].step - episodes.SETTLED <= third.end + 4
    assert metrics([episode])["recovery_rate"] == 0.0
    assert episode.subtasks[0].possible == 70.0


def test_holds_that_are_lost_and_things_that_fall():
    held = np.array([0] * 3 + [1] * 5 + [0] * 9 + [1] * 2 + [0] * 30)
    assert episodes._lost(held) == [3 + 5 + 9 + 2 + 10], "nine steps of a lost contact are none"
    assert episodes._lost(np.ones(50)) == episodes._lost(np.zeros(50)) == []
    assert episodes._lost(np.array([1] * 5 + [0] * 9)) == [], "the end comes first"
    here, gone = np.zeros(3), np.array([0.11, 0.0, 0.0])
    assert episodes._navigated(Made("drive", {"distance": 0.2}, 9), here, gone) == (pytest.approx(0.11), 0.0)
    assert episodes._navigated(Made("drive", {"distance": 0.3}, 9), here, gone) is None
    assert episodes._navigated(Made("step", {"actions": []}, 9), here, gone) is None


def test_the_command_reports_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out"
    options = AgentRun(suite="robot_agent_bench", task="waste_selection", agent="scripted", out=out, json=True)
    emitted: list[Any] = []
    assert run(options, emitted.append) == 0
    (told,) = emitted
    assert told["behaviour"] == {
        "task_coverage": 100.0, "task_progress": 100.0, "recovery_rate": None, "stagnation": 0.0,
    }  # fmt: skip
    assert told["rows"][0]["process_score"] == 1.0
    assert run(dataclasses.replace(options, json=False), emitted.append) == 0
    assert "recovery rate undefined, stagnation 0.0 %" in capsys.readouterr().out.replace("\n", " ")
    # Without a transcript its chunks are the executions: those of a policy alone.
    recorded = load_run(out)
    transcript_path(out, recorded.records[0].case_id).unlink()
    episode, _ = read_episode(recorded, evaluation([WASTE], 1, 195).cases[0], WASTE)
    assert [call.end for call in episode.calls][-1] == recorded.records[0].end_step
    assert {call.key for call in episode.calls} == {("chunk", "null")}


@pytest.mark.slow
def test_an_expert_that_lifts_the_product_has_all_its_points(tmp_path: Path):
    cases = evaluation([MISSED], 1, 195)
    go(tmp_path, Scripted(), MISSED)
    episode, score = read_episode(load_run(tmp_path), cases.cases[0], MISSED)
    assert score == pytest.approx(100.0)
    assert episode.subtasks == (Subtask(True, pytest.approx(70.0), 70.0),)  # type: ignore[arg-type]
    successes = [h for h in episode.happenings if h.success]
    assert all(isinstance(h, Happening) for h in successes)
    assert successes
    assert [c for c in episode.calls if c.manipulated]
    assert not [h for h in episode.happenings if not h.success]
