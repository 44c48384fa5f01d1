"""Runs of RoboQuest's tasks for tests, and states of them that are set by hand."""

from __future__ import annotations

from collections.abc import Iterable

import mujoco

from evals.roboquest import instances as making
from evals.roboquest.instances import QuestRecipe
from mjx_bench.checkers import Judge
from mjx_bench.engines import engine_of
from mjx_bench.predicates import compile_goal, goal_index
from mjx_bench.rollout import Rollout
from mjx_bench.signals import Signals
from mjx_bench.task import Task
from mjx_bench.types import Verdict
from policies.registry import make


def outcomes(task: Task, policy: str, instances: Iterable[int], backend: str = "c") -> list[tuple[Verdict, float]]:
    """Verdict and progress of each instance, one after another, with 8 actions of each chunk."""
    physics = engine_of(task, backend, 1, task.action_modes[0], interval=8, threads=1, tile=1)
    test = compile_goal(task.goal, task.scene, physics.index)[1]
    found = []
    for index in instances:
        rollout = Rollout(
            task, physics, make(policy), 8, 16, test, goal_index(task.atoms, task.scene), lambda lane, e: None
        )
        physics.load(0, task.load_init_states()[index], task.load_reset(0), task.fields_of(index))
        episode = rollout.begin(f"{task.name} {index}")
        while episode.verdict is None:
            rollout.tick({0: episode})
        found.append((episode.verdict, float(episode.standing.progress)))
    physics.close()
    return found


class Stage:
    """One instance, judged from states that are set by hand."""

    def __init__(self, task: Task, recipe: QuestRecipe, index: int) -> None:
        self.task, self.scene = task, task.scene
        self.index = goal_index(task.atoms, self.scene)
        self.judge = Judge(task.goal, task.rules, self.scene, self.index)
        drawn = making.draw(recipe, index)
        self.placed = {p.thing.name: p for p in drawn.placed}
        self.model = making.build(recipe, drawn).compile()
        self.data = mujoco.MjData(self.model)
        self.data.qpos[:] = making.initial_state(self.model, drawn.placed, drawn.start)[1 : 1 + self.model.nq]

    def seen(self) -> Signals:
        """Signals of the state: where entities and regions are; nothing touches or moves."""
        mujoco.mj_forward(self.model, self.data)
        s, d, m = Signals.zeros(1, self.index), self.data, self.model
        for i, name in enumerate(self.index.entities):
            s.entity_pos[0, i] = d.xpos[m.body(self.scene.entities[name].body).id]
        for i, name in enumerate(self.index.regions):
            s.region_pos[0, i] = d.site_xpos[m.site(name).id]
            s.region_mat[0, i] = d.site_xmat[m.site(name).id].reshape(3, 3)
        return s
