"""How the facts of drinks, snacks, waste and belongings are said in a context: five ways for each frame."""

from __future__ import annotations

from collections.abc import Mapping

from evals.robot_agent_bench.contexts import Literal, Words

# Of what is asked for by its properties.
_PROPERTIES: dict[str, tuple[str, ...]] = {
    "plain": (
        "Please touch {something} that fits: {all}.",
        "{one} asks for {something}: {all}. Touch it.",
        "We need {something} for {one}. It must be so: {all}.",
        "Find {something} for our guest: {all}.",
        "Point out {something} by touching it: {all}.",
    ),
    "preference": (
        "{one} always wants this: {first}. Today {one} would like {something}: {rest}.",
        "From what we know of {one}: {first}. The request now: {rest}. Touch {something} for {one}.",
        "Household note on {one}: {first}. {one} now asks for {something}: {rest}.",
        "Remember about {one}: {first}. Wanted is {something}: {rest}.",
        "{one} told us before: {first}. For this evening also: {rest}. Touch {something} to match.",
    ),
    "revised": (
        "{one} first wanted this: {earlier}. {one} has changed plans and confirmed {something}: {all}.",
        "Earlier {one} asked for: {earlier}. That is off; confirmed is {something}: {all}.",
        "Forget what {one} said this morning: {earlier}. What counts is {something}: {all}.",
        "The first order was: {earlier}. It was cancelled. The confirmed order is {something}: {all}.",
        "{one} took back this wish: {earlier}. The latest wish is {something}: {all}.",
    ),
    "competing": (
        "{two} wants this later: {earlier}. Served now is {one}, who wants {something}: {all}.",
        "Two people ask. {two}: {earlier}. {one}: {all}. Now it is the turn of {one}; touch {something} for {one}.",
        "{two} has to wait: {earlier}. First comes {one} with {something}: {all}.",
        "For {two} it would be: {earlier}. But serve {one} now, with {something}: {all}.",
        "Not now, for {two}: {earlier}. Now, for {one}, {something}: {all}.",
    ),
}
# Of what is needed.
_NEEDS: dict[str, tuple[str, ...]] = {
    "plain": (
        "{one} says: {all}. Touch what helps.",
        "This is the trouble: {all}. Touch the one thing on the sofa that helps.",
        "Something on the sofa is needed, because: {all}. Touch it.",
        "Help {one} with one thing from the sofa: {all}.",
        "What {one} needs lies on the sofa: {all}. Touch it.",
    ),
    "revised": (
        "{one} said before: {earlier}. That is settled. Now: {all}. Touch what helps.",
        "The plan was called off for which this held: {earlier}. What stands: {all}. Touch what helps.",
        "Forget this: {earlier}. Instead: {all}. Touch the one thing on the sofa that helps.",
        "An hour ago: {earlier}. No more. By now: {all}. Touch what helps {one}.",
        "It was first like this: {earlier}. It has changed: {all}. Touch what helps.",
    ),
    "competing": (
        "{two} is next: {earlier}. But now it is about {one}: {all}. Touch what helps {one}.",
        "Two people ask. {two}: {earlier}. {one}: {all}. {one} is served now; touch what helps.",
        "For later, {two}: {earlier}. For now, {one}: {all}. Touch what helps now.",
        "{two} can wait: {earlier}. {one} cannot: {all}. Touch what helps {one}.",
        "Not yet, {two}: {earlier}. First {one}: {all}. Touch what helps {one}.",
    ),
}
_BINS: dict[str, tuple[str, ...]] = {
    "plain": (
        "Touch {something} of which this is true: {all}.",
        "On the table lies {something} about which one can say: {all}. Touch it.",
        "Find {something}, and touch it, for which it holds: {all}.",
        "Exactly one fits. Touch {something} that does: {all}.",
        "Touch one thing, {something} to which this applies: {all}.",
    ),
}


def _words(
    something: str, templates: Mapping[str, tuple[str, ...]], phrases: Mapping[tuple[str, str], tuple[str, str | None]]
) -> Words:
    """From (attribute, value) to the words for having it, and for not having it where that may be asked for."""
    said: dict[Literal, str] = {}
    for (attribute, value), (yes, no) in phrases.items():
        said[Literal(attribute, value)] = yes
        if no is not None:
            said[Literal(attribute, value, False)] = no
    return Words(said, something, templates)


DRINK = _words(
    "something to drink",
    _PROPERTIES,
    {
        ("taste", "cola"): ("a dark soda taste", "no dark soda taste"),
        ("sugar", "yes"): ("with sugar", "without sugar"),
        ("caffeine", "yes"): ("with caffeine", "without caffeine"),
        ("fizzy", "yes"): ("fizzy", "not fizzy"),
        ("fruity", "yes"): ("fruity", "not fruity"),
        ("taste", "none"): ("no taste of its own", "some taste of its own"),
    },
)
SNACK = _words(
    "something to eat",
    _PROPERTIES,
    {
        ("sweet", "yes"): ("sweet", "not sweet"),
        ("salty", "yes"): ("salty", "not salty"),
        ("smoky", "yes"): ("smoky", "not smoky"),
        ("creamy", "yes"): ("creamy", "not creamy"),
        ("texture", "crunchy"): ("crunchy", "not crunchy"),
        ("texture", "crumbly"): ("crumbly", None),
        ("texture", "smooth"): ("melting", None),
        ("with potato", "yes"): ("made of potatoes", "no potatoes in it"),
        ("with milk", "yes"): ("made with dairy", "nothing from a cow in it"),
        ("with wheat", "yes"): ("made of wheat", "no wheat in it"),
        ("with nuts", "yes"): ("made of kernels", "no kernels in it"),
        ("with rice", "yes"): ("made of grains from paddies", "no grains from paddies in it"),
    },
)
WASTE = _words(
    "the one piece of waste",
    _BINS,
    {
        ("bin", "recycling"): ("today's rules let it be recycled", "today's rules forbid recycling it"),
    },
)
BELONGING = _words(
    "the one thing on the sofa that helps",
    _NEEDS,
    {
        ("use", "switch channels"): ("the film on the screen is dull and there are others", None),
        ("use", "pay or show a card"): ("the shop wants to be paid", None),
        ("use", "keep glasses safe"): ("the spectacles must not get scratched on the way", None),
        ("use", "charge a phone"): ("the phone is nearly empty and there is no socket on the way", None),
        ("use", "keep the sun off the face"): ("the sun is low and shines into the eyes", None),
        ("use", "keep rain off the shoulders"): ("it pours and the coat must stay dry", None),
        ("use", "drink on the way"): ("there is nothing to drink on the long way", None),
        ("use", "write by hand"): ("notes must be taken with a pencil", None),
    },
)

# Today's rules for waste: what they say, and which materials are recycled where they are clean. Nothing dirty ever is.
SHEETS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Today's rules: clean packaging of cardboard, plastic and metal is recycled; paper, hygiene articles and whatever is"
        " greasy, oily, wet or used is not.",
        ("cardboard", "plastic", "metal"),
    ),
    (
        "Today's rules: clean packaging of cardboard and paper is recycled; plastic, metal, hygiene articles and whatever is"
        " greasy, oily, wet or used is not.",
        ("cardboard", "paper"),
    ),
)
