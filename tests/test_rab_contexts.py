"""Contexts of the selection tasks: each means one candidate, and what means another number is refused."""

from __future__ import annotations

import collections

import numpy as np
import pytest

from evals.robot_agent_bench import contexts, selection
from evals.robot_agent_bench.catalogue import BELONGINGS, DRINKS, SNACKS, by_name
from evals.robot_agent_bench.contexts import Literal
from evals.robot_agent_bench.instances import NoInstance
from evals.robot_agent_bench.wording import BELONGING, DRINK, SHEETS, SNACK
from mjx_bench.errors import BenchError

ITEMS = by_name(DRINKS)
WITH_SUGAR, FIZZY = Literal("sugar", "yes"), Literal("fizzy", "yes")


def drawn(kind: selection.Kind, number: int) -> list[tuple[list, contexts.Context]]:
    out, rng = [], np.random.default_rng(7)
    while len(out) < number:
        try:
            out.append(kind.draw(rng))
        except NoInstance:
            continue
    return out


@pytest.mark.parametrize("kind", selection.KINDS, ids=lambda kind: kind.name)
def test_every_context_means_one_candidate_and_reads_back(kind: selection.Kind):
    frames = collections.Counter()
    for visible, context in drawn(kind, 150):
        names = [item.name for item in visible]
        assert len(names) == len(set(names)) == kind.number
        assert context.answer in names
        assert context.near in names
        assert context.near != context.answer
        assert 1 <= len(context.requirement) <= 3
        assert contexts.fitting(context.requirement, visible) == [context.answer]
        assert selection.understand(kind, context.text, names) == context.answer
        for name in names:
            assert name.replace("_", " ") not in context.text.lower()
        if context.earlier:
            [other] = contexts.fitting(context.earlier, visible)
            assert other != context.answer
        frames[context.frame] += 1
    assert set(frames) <= set(contexts.FRAMES)
    assert len(frames) >= (1 if kind.name == "waste_selection" else 3)


def test_a_context_with_two_right_answers_is_refused():
    visible = [ITEMS[name] for name in ("cola", "diet_cola", "lemon_soda", "green_tea")]
    text = "Please touch something to drink that fits: with sugar, fizzy."
    with pytest.raises(BenchError, match=r"has 2 right answers \(cola, lemon_soda\)"):
        contexts.check(text, visible, DRINK)
    assert contexts.check(text, visible[:2], DRINK) == "cola"
    with pytest.raises(BenchError, match="has no right answer"):
        contexts.check("Please touch something to drink that fits: fruity.", visible[:2], DRINK)
    with pytest.raises(BenchError, match="means 'cola', and was written for 'diet_cola'"):
        contexts.check(text, visible[:2], DRINK, "diet_cola")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Bring me something.", "written like none of the templates"),
        ("Please touch something to drink that fits: blue.", "nothing is meant by 'blue'"),
        ("Please touch something to drink that fits: like a cola.", "names the candidate 'cola'"),
    ],
)
def test_a_context_that_cannot_be_read_is_refused(text: str, complaint: str):
    with pytest.raises(BenchError, match=complaint):
        contexts.check(text, [ITEMS["cola"], ITEMS["green_tea"]], DRINK)


def test_the_latest_and_the_confirmed_request_counts():
    visible = [ITEMS[name] for name in ("sparkling_water", "orange_juice", "cola")]
    first = contexts.check(
        "Jon first wanted this: without sugar. Jon has changed plans and confirmed something to drink: fruity, not fizzy.",
        visible, DRINK,
    )  # fmt: skip
    assert first == "orange_juice"
    assert contexts.read("Not now, for Mira: fizzy. Now, for Jon, something to drink: with sugar.", DRINK) == (
        WITH_SUGAR,
    )
    told = "Emma always wants this: with sugar. Today Emma would like something to drink: fizzy."
    assert contexts.read(told, DRINK) == (WITH_SUGAR, FIZZY)


def test_requirements_are_the_smallest_and_near_misses_miss_one_literal():
    visible = [ITEMS[name] for name in ("cola", "diet_cola", "lemon_soda", "green_tea")]
    found = contexts.requirements(ITEMS["cola"], visible, DRINK)
    assert {len(r) for r in found} == {2}
    assert contexts.near_misses((WITH_SUGAR, FIZZY), visible) == ["diet_cola"]
    twins = [ITEMS["orange_juice"], ITEMS["sport_drink"]]
    assert contexts.requirements(twins[0], twins, DRINK) == [], "nothing that may be said tells them apart"


def test_the_examples_of_the_sheet():
    snacks, belongings = by_name(SNACKS), by_name(BELONGINGS)
    crisps = [snacks["bbq_crisps"], snacks["sour_cream_crisps"], snacks["salted_nuts"]]
    told = "Lena always wants this: nothing from a cow in it. Today Lena would like something to eat: crunchy, "
    told += "made of potatoes."
    assert contexts.check(told, crisps, SNACK) == "bbq_crisps"
    sofa = [*belongings.values()]
    told = "Forget this: the film on the screen is dull and there are others. Instead: the phone is nearly empty and there is no socket on the way. Touch the one thing on the sofa that helps."  # noqa: E501
    assert contexts.check(told, sofa, BELONGING) == "power_bank"
    waste = selection.KINDS[2]
    names = ["dry_cardboard_box", "rinsed_plastic_bottle", "rinsed_can", "used_toothbrush"]
    told = f"{SHEETS[0][0]} Touch the one piece of waste of which this is true: today's rules forbid recycling it."
    assert selection.understand(waste, told, names) == "used_toothbrush"
    told = f"{SHEETS[1][0]} Touch the one piece of waste of which this is true: today's rules let it be recycled."
    assert selection.understand(waste, told, names) == "dry_cardboard_box", "today other rules hold"
