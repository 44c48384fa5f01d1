"""One episode of an agent: observe, ask, carry out its calls, charge its budget, until something ends it.

The simulation advances only inside a call that is carried out. A call that is not is answered, charged as the benchmark
says, and leaves the state as it was, to the bit.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import time
from typing import Any

from mjx_bench import seeds
from mjx_bench.agent import Agent, Reply, ToolCall, Turn
from mjx_bench.agents.checking import checked, faults
from mjx_bench.agents.conversation import Conversation
from mjx_bench.agents.lane import Lane
from mjx_bench.agents.program import as_motion, program_tool, running
from mjx_bench.agents.transcript import Transcript
from mjx_bench.budgets import Account, Spent
from mjx_bench.errors import BenchError
from mjx_bench.policy import ACTION_DIMS, NATIVE, Carry, Observation, action_mode_for
from mjx_bench.task import Task
from mjx_bench.tools import BadCall, Motion, Program, Recall, Stop, Told, Toolset, Tracker
from mjx_bench.types import Verdict

# Ends of an episode that are neither the task's nor a budget's. Its verdict is a time-out: the goal was not reached.
ANSWERED, REFUSED, CUT_OFF = "provider_final_answer", "provider_refusal", "reply cut off"
AGAIN = "The episode goes on: text alone does nothing, and only a tool moves the robot."


class Play:
    """An agent in a lane.

    Args:
      lane: with its episode begun.
      toolset: the benchmark's, the tool for programs included where the agent asked for it.
      agent: what decides.
      key: what seeds are folded from.
      transcript: gets everything.
    """

    def __init__(self, lane: Lane, toolset: Toolset, agent: Agent, key: str, transcript: Transcript) -> None:
        self._lane, self._toolset, self._agent, self._key = lane, toolset, agent, key
        self._transcript = transcript
        self._schemas = tuple(tool.schema() for tool in toolset.tools)
        assert lane.episode.instance is not None, "a lane that was begun"
        system = f"{toolset.brief}\n\nGoal: {lane.task.instruction_of(lane.episode.instance)}"
        self._talk = Conversation(system, toolset.history)
        self._account: Account = toolset.budget.open()
        self._tracker: Tracker | None = None
        if toolset.tracker is not None:
            self._tracker = toolset.tracker(lane.episode.instance)
        self._turn = 0
        transcript.began(system, self._schemas, toolset)

    def run(self) -> None:
        """Plays the lane's episode to its end, which the episode then holds.

        Raises:
          AgentFault: the agent cannot go on, or its reply is none; the episode has no end.
        """
        e = self._lane.episode
        with faults():
            carry = self._agent.init(self._lane.task, copy.deepcopy(self._schemas), seeds.policy_seed(self._key))
        self._look()
        self._observe()
        self._talk.deliver(self._account.told())
        while e.verdict is None:
            carry = self._take_turn(carry)
        self._transcript.ended(e, self._account.record(), self._lane.task.control_hz)

    def _look(self) -> Observation:
        """What is observed now, which the tracker hears of."""
        seen = self._lane.observe()
        if self._tracker is not None:
            self._tracker.saw(seen)
        return seen

    def _observe(self) -> None:
        """Takes a round: what may be read, and the pictures if the agent takes any."""
        seen = self._lane.observe()
        pictures = self._lane.pictures() if self._agent.spec.sees else {}
        state = self._toolset.state(seen)
        self._talk.observe(self._lane.episode.step, state, pictures)
        self._transcript.observed(self._lane.episode.step, state, pictures)

    def _take_turn(self, carry: Carry) -> Carry:
        """One reply and what comes of it; the new carry."""
        e = self._lane.episode
        self._turn += 1
        observation = self._lane.observe() if self._agent.spec.privileged else None
        seed = seeds.query_seed(self._key, self._turn - 1)
        # A copy: an agent may rewrite what it is given for its own model.
        turn = Turn(self._talk.messages, copy.deepcopy(self._schemas), self._turn, seed, observation)
        start = time.perf_counter()
        with faults():
            answer = self._agent.reply(carry, turn)
        waited = time.perf_counter() - start
        reply, carry = checked(answer)
        e.waited.append(waited)
        self._talk.reply(reply)
        self._transcript.replied(self._turn, e.step, reply, waited)
        if reply.ending:
            # Nothing of an answer that is not whole is carried out, and nothing follows from it.
            cut = reply.ending == "cut_off"
            e.finish(Verdict.VOID if cut else Verdict.TIMEOUT, CUT_OFF if cut else REFUSED)
            return carry
        self._carry_out(reply)
        self._charge("turn")
        if e.verdict is None:
            if not reply.calls and self._toolset.answer_ends:
                e.finish(Verdict.TIMEOUT, ANSWERED)
            elif self._account.stopped is not None:
                e.finish(Verdict.TIMEOUT, self._account.stopped)
            elif not reply.calls:
                self._talk.deliver(self._account.told(), AGAIN)
            else:
                self._observe()
                self._talk.deliver(self._account.told())
        return carry

    def _charge(self, kind: Any) -> None:
        self._account = self._account.charge(Spent(kind, self._turn, self._lane.episode.step))

    def _carry_out(self, reply: Reply) -> None:
        """All calls of a reply in turn, each answered; those after an end are not carried out."""
        e = self._lane.episode
        several = len(reply.calls) > 1 and self._toolset.one_call
        for call in reply.calls:
            before = e.step
            if several:
                bad = BadCall("calls", f"{len(reply.calls)} calls in one reply; one is wanted")
                feedback = self._refused(call, bad)
            elif e.verdict is not None or self._account.stopped is not None:
                feedback = self._refused(call, BadCall("refused", "the episode is over"))
            else:
                feedback = self._call(call)
            self._transcript.answered(self._turn, call, feedback, e.step - before)
            self._talk.answer(call.id, feedback)
            self._charge("call")

    def _call(self, call: ToolCall) -> dict[str, Any]:
        """Carries out one call; what its agent is answered."""
        e = self._lane.episode
        try:
            tool = self._toolset.tool(call.name)
            arguments = tool.read(call.arguments)
            found = tool.use(arguments, self._lane.observe())
            if isinstance(found, Recall):
                found = found.ask(self._tracker)
            if isinstance(found, Told):
                return self._tell(call, found)
            if isinstance(found, Stop):
                e.finish(Verdict.TIMEOUT, found.reason)
                return {"accepted": True, "steps": 0}
            return self._move(found)
        except BadCall as bad:
            return self._refused(call, bad)
        except BenchError:
            raise
        except Exception as error:  # a fault of the benchmark's: the episode is void, and its agent hears nothing of it
            e.finish(Verdict.VOID, f"tool {call.name[:40]} raised {type(error).__name__}: {error}")
            return {"accepted": False, "steps": 0, "error": "the call could not be carried out"}

    def _tell(self, call: ToolCall, found: Told) -> dict[str, Any]:
        if found.pictures and self._agent.spec.sees:
            self._talk.show(self._lane.episode.step, found.pictures)
            self._transcript.showed(self._turn, call, self._lane.episode.step, found.pictures)
        return {"accepted": True, "steps": 0, **found.data}

    def _refused(self, call: ToolCall, bad: BadCall) -> dict[str, Any]:
        self._transcript.refused(self._turn, call, bad)
        said = bad.told if self._toolset.rejection is None else self._toolset.rejection
        return {"accepted": False, "steps": 0, "error": said}

    def _move(self, found: Motion | Program) -> dict[str, Any]:
        """Executes a motion or a program until it is over, or the episode is."""
        e, begun = self._lane.episode, self._lane.episode.step
        feedback: dict[str, Any] = {"accepted": True}
        try:
            with contextlib.ExitStack() as held:
                if isinstance(found, Program):
                    # A process that is locked up; see there.
                    program = running(found, self._toolset.state, self._lane.width)
                    found = as_motion(found, held.enter_context(program))
                stopped, now = found.spent, self._lane.observe()
                while e.verdict is None and (done := e.step - begun) < found.steps:
                    action = found.action(now, done)
                    if isinstance(action, str):
                        stopped = action
                        break
                    self._lane.step(action, first=done == 0)
                    now = self._look()
        except BadCall as bad:  # by a program of the agent's own: what it did stays done
            stopped = "error"
            feedback["error"] = bad.told
            self._transcript.failed(bad)
        over = e.verdict is not None
        feedback |= {"steps": e.step - begun, "stopped": "terminated" if over else stopped}
        if isinstance(found, Motion) and found.residual is not None and not over:
            feedback |= found.residual(self._lane.observe())
        return feedback if self._tracker is None else {**feedback, **self._tracker.reply()}


def with_programs(toolset: Toolset, task: Task) -> Toolset:
    """The toolset with a tool more, by which an agent's own program decides every control step of a call.

    Raises:
      BenchError: a benchmark without such a thing.
    """
    if not toolset.program_steps:
        raise BenchError(
            f"{toolset.name} lets no program of an agent's control the robot; choose another agent or task"
        )
    tool = program_tool(toolset.program_steps, ACTION_DIMS[action_mode_for(NATIVE, task)], toolset.action_bounds)
    return dataclasses.replace(toolset, name=f"{toolset.name}+code", tools=(*toolset.tools, tool))
