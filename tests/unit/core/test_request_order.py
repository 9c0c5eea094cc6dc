"""What is remembered of the order of requests is bounded, and finds what remembering everything finds."""

import random
from dataclasses import replace

import pytest
from tests.kits.log_builder import Story

from bailiff_core.admission import request_order
from bailiff_core.admission.request_order import RequestOrder
from bailiff_core.records import Record, decode

PARTITION = "bailiff.requests/0"


def some_record() -> Record:
    story = Story(pool="pool-a")
    story.node("n1", gpus=1)
    return decode(story.wires[-1])


SOME = some_record()


def requests(users: int, count: int, seed: int) -> list[tuple[int, str, int]]:
    """Offset, user and position after each of the requests, as a writer takes them: some ahead of their turn."""
    rng, waiting, taken, last = random.Random(seed), list[tuple[int, str]](), list[tuple[int, str, int]](), 0
    for offset in range(count):
        waiting.append((offset, f"user-{rng.randrange(users)}"))
        while len(waiting) > rng.randrange(20):
            user = rng.choice(waiting)[1]
            place = next(at for at, (_, name) in enumerate(waiting) if name == user)
            done = waiting.pop(place)
            last = waiting[0][0] if waiting else offset + 1
            taken.append((*done, last))
    return taken


def found(taken: list[tuple[int, str, int]], kept: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], int]:
    """The offsets of requests that were passed by, and the most lines that were remembered."""
    monkeypatch.setattr(request_order, "KEPT_LINES", kept)
    order, wrong, most = RequestOrder(_forget_at=kept), [], 0
    for offset, user, position in taken:
        record = replace(SOME, cause=f"{PARTITION}/{offset}", actor=user, inputs=((PARTITION, position),))
        twice = [order.passed_by(record, "key", user) for _ in range(2)]  # a request may have two records
        wrong += [offset for passed_by in twice if passed_by is not None]
        most = max(most, len(order._newest))
    return wrong, most


@pytest.mark.parametrize("seed", range(20))
def test_few_lines_are_remembered_and_every_request_that_was_passed_by_is_found(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, rng = requests(users=2_000, count=3_000, seed=seed), random.Random(seed)
    assert found(taken, 10**9, monkeypatch) == ([], len({user for _, user, _ in taken}))
    wrong, most = found(taken, 50, monkeypatch)
    assert (wrong, most < 200) == ([], True)
    late = rng.randrange(1, len(taken))
    earlier = rng.randrange(late)
    offset, user, _ = taken[earlier]
    moved = [*taken[:earlier], *taken[earlier + 1 : late + 1], (offset, user, taken[late][2]), *taken[late + 1 :]]
    everything, _ = found(moved, 10**9, monkeypatch)
    assert set(everything) <= set(found(moved, 50, monkeypatch)[0])
