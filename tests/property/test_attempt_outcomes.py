"""Over random histories: what ended an attempt decides what it counts, read from the facts without the engine's own rule."""

from collections import Counter
from random import Random
from types import ModuleType

import pytest
from hypothesis import given
from tests.kits.examples import examples, share
from tests.kits.log_builder import Story
from tests.property import crowded_worlds, rich_worlds
from tests.property.random_stories import Chance, Step, steps
from tests.property.rich_stories import Rich

from bailiff_core.fold import apply
from bailiff_core.fold.eviction_causes import GANG_FAILURE, INVOLUNTARY, VOLUNTARY
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, decisions, decode, facts

NOTICES = ("noticed", "term_sent", "kill_sent")
Attempt = tuple[str, int]


class Exits:
    """Follows one log: who had a notice, who ended without one, and what the state then counts."""

    def __init__(self) -> None:
        self.told: dict[Attempt, set[int]] = {}
        self.by_itself: dict[Attempt, list[int]] = {}
        self.seen: Counter[str] = Counter()
        self.state = PoolState()

    def follow(self, story: Story) -> None:
        """All records of the story."""
        for wire in story.wires:
            record = decode(wire)
            self._before(record)
            counted = self._counted(record)
            apply(self.state, record)
            self._after(record, counted)

    def _before(self, record: Record) -> None:
        match record.data:
            case facts.EvictionStageReached() as stage if stage.stage in NOTICES:
                task = self.state.jobs[stage.job].task(stage.task)
                if task is not None and task.state in ("starting", "running"):
                    self.told.setdefault((stage.job, stage.attempt), set()).add(stage.task)
            case facts.TaskEvictionCancelled() as back:
                self.told.get((back.job, back.attempt), set()).discard(back.task)
            case facts.TaskExited() as end if end.exit_code != 0 and not end.unobserved:
                if end.task in self.told.get((end.job, end.attempt), ()):
                    self.seen["told, and a code"] += 1
                else:
                    self.by_itself.setdefault((end.job, end.attempt), []).append(end.exit_code)
            case decisions.JobEnded() as ended if ended.outcome == "failed" and "exit" in ended.reason:
                self._is_its_own(ended.job, ended.attempt, record)
            case decisions.JobRequeued() as requeued if requeued.outcome in ("failed", "yielded"):
                self._is_its_own(requeued.job, requeued.attempt, record)

    def _is_its_own(self, job: str, attempt: int, record: Record) -> None:
        self.seen["its own"] += 1
        assert self.by_itself.get((job, attempt)), f"no task of it ended by itself, without a notice: {record}"

    def _counted(self, record: Record) -> tuple[int, ...]:
        job = self.state.jobs.get(getattr(record.data, "job", ""))
        return (job.failures, job.losses, job.yields, job.evictions, len(job.eviction_times)) if job is not None else ()

    def _after(self, record: Record, before: tuple[int, ...]) -> None:
        """One of the counters rises, by one, and only with the end of an attempt."""
        after = self._counted(record)
        rises = tuple(now - then for then, now in zip(before, after, strict=True)) if before and after else ()
        if isinstance(record.data, decisions.JobEnded) and record.data.outcome in ("failed", "evicted"):
            reasons = ("ended with exit code", "was lost", "with 85 without an eviction notice")
            told = tuple(reason in record.data.reason for reason in reasons)
            assert rises == (*told, record.data.outcome == "evicted", False), record
            return
        if not isinstance(record.data, decisions.JobRequeued):
            assert not any(rises), record
            return
        outcome, cause = record.data.outcome, record.data.cause
        preempted = outcome.startswith("preempted")
        evicted = preempted and cause not in VOLUNTARY
        capped = preempted and cause in (*INVOLUNTARY, GANG_FAILURE) and len(self.state.jobs[record.data.job].eviction_times) < 64
        lost = outcome == "lost" and record.data.rule != "never-started"
        assert rises == (outcome == "failed", lost, outcome == "yielded", evicted, capped), record
        assert preempted or cause not in INVOLUNTARY, record


@pytest.mark.parametrize("worlds", [rich_worlds, crowded_worlds])
def test_no_attempt_fails_that_had_its_notice_in_rich_histories(worlds: ModuleType) -> None:
    seen: Counter[str] = Counter()
    for seed in range(share(60)):
        exits = Exits()
        rich = Rich(Random(seed), lambda _: None, worlds)
        rich.play(60)
        exits.follow(rich.story)
        seen += exits.seen
    assert seen["told, and a code"] > 0, seen
    assert seen["its own"] > 0, seen


@pytest.mark.parametrize("shared", [False, True])
@examples(150)
@given(steps(60))
def test_no_attempt_fails_that_had_its_notice_in_random_histories(shared: bool, cycles: list[list[Step]]) -> None:
    chance = Chance(lambda _: None, shared=shared)
    chance.play(cycles)
    Exits().follow(chance.story)
