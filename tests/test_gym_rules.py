"""Environments of tasks with rules over time: what a rollout records of an episode is what its environment says.

Recorded actions are given to the environments again, in lanes that end, begin anew and are reset at different steps.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from evals import envs, registry
from mjx_bench.cases import evaluation
from mjx_bench.policy import Policy
from mjx_bench.records import Record, load_run
from mjx_bench.schedule import RunSettings, run_pairs
from mjx_bench.single_env import TaskEnv
from mjx_bench.task import Task
from mjx_bench.vector_env import TaskVectorEnv
from policies.reference.oracle import Oracle
from policies.simple import Zero
from tests.test_gym import MODES, same
from tests.test_roboquest import GREEN_IN, RED_IN, Presser, starting

LANES, INSTANCES = 3, 4
HOVER, ROOM = registry.load_task("robotworld", 0), registry.load_task("roboquest", 0)


class Falling(Zero):
    """Stops all rotors."""

    def act(self, carries, obs, seeds):  # type: ignore[no-untyped-def]
        actions, carries = super().act(carries, obs, seeds)
        return actions - 1.0, carries


class Mixed:
    """Instances of the room of which each has more done than the one before: nothing, a block, both; then from the start."""

    def __len__(self) -> int:
        return INSTANCES

    def __getitem__(self, index: int) -> np.ndarray:
        at = ({}, {"red_block": RED_IN}, {"red_block": RED_IN, "green_block": GREEN_IN})[index % 3]
        return starting(**at).load_init_states()[index]


# A task, and the policies whose episodes are given again: all the ways in which the rules can end one.
CAST: dict[str, tuple[Task, tuple[Policy, ...]]] = {
    "hover": (HOVER, (Oracle(), Falling())),
    "room": (dataclasses.replace(ROOM, load_init_states=Mixed, horizon=140), (Presser(), Zero())),
}
ENDS = {
    "hover": {("success", "goal"), ("failure", "height(payload) < 0.2")},
    "room": {("success", "submit"), ("failure", "submit: goal not reached"), ("timeout", "horizon")},
}


@dataclasses.dataclass(frozen=True)
class Episode:
    """What a rollout recorded."""

    record: Record
    actions: np.ndarray


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, int, int], Episode]:
    """(task, instance, number of the policy) to what happened."""
    found = {}
    for name, (task, policies) in CAST.items():
        for k, policy in enumerate(policies):
            out = tmp_path_factory.mktemp(name) / "run"
            settings = RunSettings(policy=policy.spec.name, lanes=INSTANCES, query_interval=8, threads=1, backend="c")
            cases = evaluation([task], INSTANCES, 0)
            run_pairs(cases, settings, out, load_task=lambda case, task=task: task, policy=policy)
            run = load_run(out)
            for record in run.records:
                actions = np.asarray(run.array(record, "actions"))
                found[name, record.init_state_index, k] = Episode(record, actions)
    return found


@pytest.fixture
def made() -> Iterator[list[Any]]:
    """Environments to close."""
    made: list[Any] = []
    yield made
    for env in made:
        env.close()


def at_end(infos: Mapping[str, Any], mode: AutoresetMode) -> Mapping[str, Any]:
    """Where the infos of the environments that ended are."""
    return infos["final_info"] if mode is AutoresetMode.SAME_STEP else infos


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.value)
@pytest.mark.parametrize("name", CAST)
def test_an_environment_says_what_the_rollout_of_the_same_actions_recorded(
    name: str, mode: AutoresetMode, recorded: Mapping[tuple[str, int, int], Episode], made: list[Any]
):
    task, policies = CAST[name]
    vector = TaskVectorEnv(task, LANES, backend="c", autoreset_mode=mode, instances=range(INSTANCES))
    made.append(vector)
    _, infos = vector.reset(seed=0, options={"instance": np.arange(LANES)})
    begun = [0] * LANES  # episodes of each lane, which take the policies in turns
    taken = [0] * LANES  # their steps
    playing: list[Episode | None] = [None] * LANES
    ends: collections.Counter[tuple[str, str]] = collections.Counter()

    def begin(lane: int, infos: Mapping[str, Any]) -> None:
        playing[lane] = recorded[name, int(infos["instance"][lane]), (lane + begun[lane]) % len(policies)]
        begun[lane], taken[lane] = begun[lane] + 1, 0

    for lane in range(LANES):
        begin(lane, infos)
    for step in range(1200):
        over = [e is None for e in playing]
        actions = np.zeros((LANES, vector.action_space.shape[1]))
        for lane, e in enumerate(playing):
            if e is not None:
                actions[lane] = e.actions[taken[lane]]
        _, rewards, terminated, truncated, infos = vector.step(actions)
        for lane in range(LANES):
            e = playing[lane]
            if e is None:  # the step that begins the next episode, whatever the action was
                assert (rewards[lane], terminated[lane], truncated[lane], infos["steps"][lane]) == (0, False, False, 0)
                begin(lane, infos)
                continue
            taken[lane] += 1
            r = e.record
            if taken[lane] < r.end_step:
                assert (rewards[lane], terminated[lane], truncated[lane]) == (0.0, False, False)
                assert infos["steps"][lane] == taken[lane]
                continue
            last = at_end(infos, mode)
            ends[r.verdict, r.reason] += 1
            assert rewards[lane] == (r.verdict == "success")
            assert terminated[lane] == (r.verdict in ("success", "failure"))
            assert truncated[lane] == (r.verdict == "timeout")
            assert (last["verdict"][lane], last["reason"][lane]) == (r.verdict, r.reason)
            assert (last["steps"][lane], last["instance"][lane]) == (r.end_step, r.init_state_index)
            assert last["progress"][lane] == pytest.approx(r.progress, abs=1e-6)
            playing[lane] = None
            if mode is AutoresetMode.SAME_STEP:
                assert (infos["steps"][lane], infos["progress"][lane]) == (0, 0.0)
                begin(lane, infos)
        ended = np.array([e is None for e in playing]) & ~np.array(over)
        mask = np.zeros(LANES, bool)
        if mode is AutoresetMode.DISABLED and ended.any():
            mask |= ended
        if step in (40, 95, 300):
            mask[step % LANES] = True  # in the middle of an episode: its standing and its pushes are forgotten
        if mask.any():
            _, infos = vector.reset(options={"reset_mask": mask})
            for lane in np.flatnonzero(mask):
                begin(int(lane), infos)
    assert set(ends) == ENDS[name]
    assert sum(begun) >= 3 * LANES


@pytest.mark.parametrize("name", CAST)
def test_a_shaped_reward_adds_up_to_the_verdict_and_the_way(
    name: str, recorded: Mapping[tuple[str, int, int], Episode], made: list[Any]
):
    """Each lane's return is 1 for success and what the potential grew by since the first step."""
    task, policies = CAST[name]
    vector = TaskVectorEnv(task, LANES, backend="c", autoreset_mode="Disabled", reward="shaped", instances=range(4))
    made.append(vector)
    vector.reset(seed=0, options={"instance": np.arange(LANES)})
    played = [recorded[name, lane, lane % len(policies)] for lane in range(LANES)]
    first = last = np.zeros(0)
    returns, running = np.zeros(LANES), np.ones(LANES, bool)
    for step in range(min(len(e.actions) for e in played)):
        _, rewards, terminated, truncated, _ = vector.step(np.stack([e.actions[step] for e in played]))
        returns += rewards
        last = np.asarray(vector._potential(vector._physics.signals)).copy()  # type: ignore[misc]
        first = first if len(first) else last
        running = ~(terminated | truncated)
    assert not running.all()
    succeeded = np.array([e.record.verdict == "success" for e in played]) & ~running
    assert returns == pytest.approx(succeeded + last - first, abs=1e-9)


def test_after_submit_nothing_counts_any_more(made: list[Any], recorded: Mapping[tuple[str, int, int], Episode]):
    """A press on an unfinished tray ends the environment, which takes no further step; what it shows is the score then."""
    task, _ = CAST["room"]
    pressed = recorded["room", 1, 0]
    assert pressed.record.reason == "submit: goal not reached"
    env = TaskEnv(task, backend="c", instances=range(INSTANCES))
    made.append(env)
    env.reset(options={"instance": 1})
    rewards = []
    for action in pressed.actions:
        _, reward, terminated, _, info = env.step(action)
        rewards.append(reward)
    assert terminated
    assert not any(rewards)
    assert (info["verdict"], info["progress"], info["success"]) == ("failure", pytest.approx(0.5), False)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(pressed.actions[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "policy"), [("hover", 1), ("room", 0)])
def test_the_engine_jax_ends_them_alike(
    name: str, policy: int, recorded: Mapping[tuple[str, int, int], Episode], made: list[Any]
):
    """What `c` recorded, given to the other engine: a fall, and presses of which one finds everything done."""
    vector = TaskVectorEnv(CAST[name][0], LANES, backend="jax", autoreset_mode="SameStep", instances=range(INSTANCES))
    made.append(vector)
    vector.reset(seed=0, options={"instance": np.arange(LANES)})
    played = [recorded[name, lane, policy] for lane in range(LANES)]
    found: dict[int, Any] = {}
    for step in range(max(len(e.actions) for e in played) + 2):
        actions = np.stack([e.actions[min(step, len(e.actions) - 1)] for e in played])
        _, rewards, terminated, truncated, infos = vector.step(actions)
        for lane in np.flatnonzero(terminated | truncated):
            last = {key: infos["final_info"][key][lane] for key in ("verdict", "reason", "steps", "progress")}
            found.setdefault(int(lane), last | {"reward": rewards[lane]})
    for lane, e in enumerate(played):
        r, last = e.record, found[lane]
        assert (last["verdict"], last["reason"], last["reward"]) == (r.verdict, r.reason, r.verdict == "success")
        assert last["steps"] == pytest.approx(r.end_step, abs=2)
        assert last["progress"] == pytest.approx(r.progress, abs=1e-6)


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.value)
@pytest.mark.parametrize("name", CAST)
def test_lanes_are_single_environments(name: str, mode: AutoresetMode, made: list[Any]):
    """Bit for bit what Gymnasium's own vectorisation makes of them, infos included."""
    task = dataclasses.replace(CAST[name][0], horizon=4)
    options = {"backend": "c", "reward": "shaped", "instances": range(INSTANCES)}
    ours = TaskVectorEnv(task, LANES, autoreset_mode=mode, **options)
    oracle = SyncVectorEnv([lambda: TaskEnv(task, **options)] * LANES, autoreset_mode=mode)
    made += [ours, oracle]
    same(ours.reset(seed=5), oracle.reset(seed=5))
    ours.action_space.seed(1)
    for step in range(9):
        actions = ours.action_space.sample()
        got, want = ours.step(actions), oracle.step(actions)
        same(got, want)
        over = got[2] | got[3]
        if mode is AutoresetMode.DISABLED and over.any():
            same(*(env.reset(options={"reset_mask": over.copy()}) for env in (ours, oracle)))
        elif step == 1:
            mask = np.array([False, True, False])
            same(*(env.reset(seed=[1, 2, 3], options={"reset_mask": mask.copy()}) for env in (ours, oracle)))


@pytest.mark.parametrize(("suite", "name"), [("robotworld", HOVER.name), ("roboquest", ROOM.name)])
def test_gymnasiums_own_checks(suite: str, name: str, made: list[Any]):
    env = gymnasium.make(envs.env_id(suite, name))
    made.append(env)
    check_env(env.unwrapped)
    assert env.unwrapped.metadata["render_fps"] == {"robotworld": 62, "roboquest": 20}[suite]
    vector = gymnasium.make_vec(envs.env_id(suite, name), num_envs=2)
    made.append(vector)
    assert vector.single_action_space.shape == ((4,) if suite == "robotworld" else (7,))
