"""Policies by name: the ones that look at nothing, replayed recordings, and a user's own module."""

from __future__ import annotations

import dataclasses
import textwrap

import numpy as np
import pytest

from mjx_bench.errors import BenchError
from mjx_bench.policy import Policy
from policies import registry
from tests import test_pairs
from tests.test_pairs import MIXED, arms, array, run


@pytest.mark.parametrize("name", registry.names())
def test_every_named_policy_keeps_the_contract(name):
    policy = registry.make(name)
    assert isinstance(policy, Policy)
    assert policy.spec.name == name
    assert policy.spec.horizon == 16


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scripted.reactiv", "did you mean scripted.reactive"),
        ("replay", "needs a results folder: replay:DIR"),
        ("seeing:", "needs another policy"),
        ("replay:nowhere", "nowhere: not a results folder"),
        ("no_such_module:make", "No module named 'no_such_module'"),
        ("policies.simple:zero", "did you mean Zero"),
        ("tests.test_policies:fails", "fails\\(\\) failed: RuntimeError: no weights"),
        ("tests.test_policies:nothing", "its `spec` is NoneType"),
        ("tests.test_policies:true", "its image_size is True, expected an integer"),
        ("tests.test_policies:twice", "expected each name once"),
        ("tests.test_policies:numbered", "its cameras are \\('agentview', 3\\), expected a tuple of names"),
    ],
)
def test_a_policy_that_cannot_be_made_is_refused_by_name(name, message):
    with pytest.raises(BenchError, match=message):
        registry.make(name)


def fails():
    raise RuntimeError("no weights")


def nothing():
    return object()


def with_spec(**changes):
    policy = registry.make("zero")
    policy.spec = dataclasses.replace(policy.spec, **changes)
    return policy


def true():
    return with_spec(image_size=True)


def twice():
    return with_spec(cameras=("agentview", "agentview"))


def numbered():
    return with_spec(cameras=("agentview", 3))


def test_a_policy_of_one_s_own_is_found_from_the_working_folder(tmp_path, monkeypatch):
    source = """
        import numpy as np
        from mjx_bench.policy import PolicySpec

        class Up:
            spec = PolicySpec("up", horizon=4)

            def init(self, task, seed):
                return None

            def act(self, carries, obs, seeds):
                actions = np.zeros((len(carries), 4, 7), np.float32)
                actions[:, :, 2] = 1.0
                return actions, carries
    """
    (tmp_path / "my_policy_for_this_test.py").write_text(textwrap.dedent(source))
    monkeypatch.chdir(tmp_path)
    policy = registry.make("my_policy_for_this_test:Up")
    actions, _ = policy.act([None, None], None, np.zeros(2, np.uint64))
    assert actions.shape == (2, 4, 7)


def test_replay_repeats_the_base_arms_to_the_bit_and_never_responds(tmp_path, monkeypatch):
    recorded = run(tmp_path / "recorded")
    replayed = run(tmp_path / "replayed", policy=registry.make(f"replay:{tmp_path / 'recorded'}"))
    for name in ("actions", "eef_pos", "target_pos"):
        for part in ("libero_object-i0-target_relocation-p", "libero_spatial-i0"):
            before, after = arms(recorded, part)[0], arms(replayed, part)[0]
            np.testing.assert_array_equal(array(recorded, before, name), array(replayed, after, name))
    base, dynamic = arms(replayed, "libero_object-i0-target_relocation-p")
    np.testing.assert_array_equal(array(replayed, base, "actions"), array(replayed, dynamic, "actions"))


def test_replay_of_another_manifest_is_refused_before_anything_runs(tmp_path):
    only = test_pairs.dataclasses.replace(MIXED, cases=MIXED.cases[:1])
    run(tmp_path / "recorded", manifest=only)
    policy = registry.make(f"replay:{tmp_path / 'recorded'}")
    with pytest.raises(BenchError, match="has no Base arm of a case of libero_"):
        run(tmp_path / "replayed", policy=policy)
    assert not (tmp_path / "replayed").exists()
