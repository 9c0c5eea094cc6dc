"""Elastic jobs: no decision that grows one loses more than it wins, and one restarts to shrink once for a selection.

What is won and lost is reckoned here once more, from the pool as it was: whole GPUs, minutes and the policy's figures.
"""

from collections import Counter
from collections.abc import Iterator
from random import Random

from tests.kits.examples import share
from tests.property.elastic_pools import PAYBACKS, elastic_pool, planned, shrinking_pool

from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.proposal import VictimChoice
from bailiff_core.model.state import PoolState
from bailiff_core.plan.cycles import run_cycle
from bailiff_core.records.decisions import MigrationDecided, PreemptionDecided, PreemptionRefused, PreemptionRequested
from bailiff_core.records.payload import Payload

MINUTE = 60_000_000
GPU_MINUTE = 60_000  # GPU-ms
POOLS = 3_000


def restart_losses(state: PoolState) -> dict[str, int]:
    """What each running job that cannot change its size while it runs loses by a restart, in GPU-ms."""
    losses = {}
    for name, job in state.jobs.items():
        running = [task for task in job.tasks if task.state in ("starting", "running")]
        if job.demand.elastic != "restart" or not running or job.last_start is None:
            continue
        stopped = [*running, *(task for task in job.tasks if task.finished)]
        since = max(job.last_start, job.last_checkpoint or 0)
        minutes = min(60, (state.now - since) // MINUTE) + 1
        losses[name] = sum(job.group(task.index).gpu_milli for task in stopped) // 1000 * minutes * GPU_MINUTE
    return losses


class Answers:
    """The answers to the requests of a selection: nothing happens between the search and the decisions, so none is stale."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._last = 0

    def of(self, state: PoolState, seed: int) -> Iterator[Payload]:
        """What a cycle decides; each answer is as its search found the pool."""
        self._last = 0
        for _, made in run_cycle(state):
            if isinstance(made, PreemptionRequested):
                self._last = 0
            if isinstance(made, PreemptionDecided | PreemptionRefused):
                assert getattr(made, "reason", "") != "stale", (seed, made)
                decided = isinstance(made, PreemptionDecided)
                self.seen["decided before an earlier request"] += decided and made.request < self._last
                self.seen["allocated once others had left"] += not decided and made.reason == "not-needed"
                self._last = max(self._last, made.request)
            yield made


def test_no_decision_that_grows_a_job_loses_more_than_it_wins() -> None:
    seen: Counter[str] = Counter()
    answers = Answers()
    for seed in range(share(POOLS)):
        random = Random(seed)
        payback = random.choice(list(PAYBACKS))
        within = PAYBACKS[payback]
        state = planned(elastic_pool(random, payback)).state
        losses, before = restart_losses(state), {name: [task.index for task in job.tasks] for name, job in state.jobs.items()}
        for made in answers.of(state, seed):
            if isinstance(made, PreemptionDecided) and made.tasks:
                name, own, joins = made.preemptor.job, losses.get(made.preemptor.job, 0), numbers(made.tasks)
                assert (made.restart_lost_gpu_ms, bool(made.reason)) == (own, own > 0), (seed, made)
                moved = sum(choice.lost_gpu_ms for choice in made.victims) if made.action == "consolidate" else 0
            elif isinstance(made, MigrationDecided) and made.reason.startswith("it grows"):
                name, own, moved = made.job, made.lost_gpu_ms, 0
                joins = [index for place in made.placement for index in numbers(place.tasks) if index not in before[name]]
                assert own == losses[name], (seed, made)
            else:
                continue
            action = made.action if isinstance(made, PreemptionDecided) else "allocate"
            seen[f"{action}, {'restarts' if own else 'goes on'}{', moves' if moved else ''}"] += 1
            won = (
                None if within is None else state.jobs[name].group(joins[0]).gpu_milli // 1000 * len(joins) * within * GPU_MINUTE
            )
            assert won is None or won > own + moved or (not own and won >= moved), (seed, made, won, own, moved)
    wanted = ("consolidate, restarts, moves", "consolidate, goes on, moves", "preempt, restarts", "reclaim, restarts")
    assert all(seen[what] > 3 for what in (*wanted, "allocate, restarts")), seen


def test_a_job_restarts_at_most_once_for_a_selection_at_a_loss_that_is_named_once() -> None:
    seen: Counter[str] = Counter()
    answers = Answers()
    for seed in range(share(POOLS)):
        random = Random(seed)
        state = planned(shrinking_pool(random)).state
        losses = restart_losses(state)
        named: dict[str, list[VictimChoice]] = {}
        selection = 0
        for made in answers.of(state, seed):
            if isinstance(made, PreemptionRequested) and selection:
                break
            if isinstance(made, PreemptionDecided):
                selection = made.request
                for choice in made.victims:
                    if choice.job in losses and not choice.reserved and not choice.ends:
                        named.setdefault(choice.job, []).append(choice)
        for name, choices in named.items():
            if any(task.finished for task in state.jobs[name].tasks):
                continue  # it goes on with the others
            assert [choice.extends for choice in choices] == [False, *[True] * (len(choices) - 1)], (seed, choices)
            assert sum(choice.lost_gpu_ms for choice in choices) == losses[name], (seed, choices, losses[name])
            seen["one decision" if len(choices) == 1 else "whole" if not choices[-1].tasks else "part"] += 1
    assert all(seen[what] > 3 for what in ("one decision", "part", "whole")), seen
    assert min(answers.seen.values()) > 3, answers.seen
