"""Shrinks a failing plan: removes all that is not needed for the same kind of violation (delta debugging)."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

from .faults import Event
from .plan import Plan
from .work import Post
from .world import Outcome, run

LONGEST_S = 240.0

Item = TypeVar("Item")
Fails = Callable[[Plan], bool]


def run_short(what: int | Plan, longest_s: float = LONGEST_S) -> Outcome:
    """The run of this seed or plan; where it fails, of the shortest plan found that fails in the same way."""
    outcome = run(what)
    return outcome if outcome.violation is None else shrink(outcome, longest_s)


def kind_of(violation: str) -> str:
    """The violation without names and numbers."""
    kind_text = re.sub(r"#\d+ \S+: |\(/\S+", "", violation)
    return re.sub(r"\d+(/\d+)?", "", re.split(r"[\[({'\"]", kind_text)[0]).strip()


def shrink(outcome: Outcome, longest_s: float = LONGEST_S) -> Outcome:
    """The run of the shortest plan that fails in the same way; the best one found within `longest_s` seconds."""
    assert outcome.violation is not None, "only a failed run can be shrunk"
    kind, until = kind_of(outcome.violation), time.monotonic() + longest_s
    best = outcome

    def fails(plan: Plan) -> bool:
        nonlocal best
        if time.monotonic() > until:
            return False
        tried = run(plan)
        if tried.violation is None or kind_of(tried.violation) != kind:
            return False
        best = tried
        return True

    size = None
    while size != (size := _size(best.plan)):
        _shorter(lambda: best.plan, fails)
    return best


def fewest(items: Sequence[Item], still_fails: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """A minimal subset that still fails: no single item can be removed. Tries larger parts first."""
    left, part = list(items), len(items)
    while part >= 1:
        at = 0
        while at < len(left):
            without = left[:at] + left[at + part :]
            if still_fails(without):
                left = without
            else:
                at += part
        part //= 2
    return left


def _shorter(plan: Callable[[], Plan], fails: Fails) -> None:
    """Try every kind of part once. `plan` is the shortest so far."""
    if plan().bad or plan().slow:
        fails(replace(plan(), bad=0, slow=0))
    fewest(plan().events, lambda events: fails(replace(plan(), events=tuple(events))))
    fewest(plan().lies, lambda lies: fails(replace(plan(), lies=tuple(lies))))
    fewest(plan().undecidable, lambda left: fails(replace(plan(), undecidable=tuple(left))))
    for parts in (_by_job(plan().posts), [[post] for post in plan().posts]):
        fewest(parts, lambda left: fails(replace(plan(), posts=_in_time(left))))
    fewest(plan().nodes, lambda nodes: bool(nodes) and fails(_about(replace(plan(), nodes=tuple(nodes)))))
    surplus = [name for name in plan().replicas if not name.endswith("-0")]
    first = [name for name in plan().replicas if name.endswith("-0")]
    fewest(surplus, lambda left: fails(_about(replace(plan(), replicas=(*first, *left)))))


def _size(plan: Plan) -> tuple[int, ...]:
    parts = (plan.events, plan.lies, plan.undecidable, plan.posts, plan.nodes, plan.replicas)
    return (plan.bad, plan.slow, *map(len, parts))


def _by_job(posts: Sequence[Post]) -> list[list[Post]]:
    ordered = sorted(posts, key=lambda post: post.about)
    return [list(group) for _, group in groupby(ordered, key=lambda post: post.about)]


def _in_time(groups: Sequence[Sequence[Post]]) -> tuple[Post, ...]:
    return tuple(sorted((post for group in groups for post in group), key=lambda post: post.at))


def _about(plan: Plan) -> Plan:
    """The plan without faults of removed replicas and nodes."""
    there = {*plan.replicas, *(node.name for node in plan.nodes), "all"}

    def counts(event: Event) -> bool:
        return event.target.removeprefix("agent-") in there

    return replace(plan, events=tuple(event for event in plan.events if counts(event)))
