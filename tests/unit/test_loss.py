"""One preemption: every surface shows the same two figures, work lost and restart cost, and none adds them."""

import pytest
from tests.kits.log_builder import MINUTE, SECOND, Story
from tests.unit.rollup.kit import Counter

from bailiff.client.live_plan import predict
from bailiff.dataset.tables import Tables
from bailiff.render.events import events_of
from bailiff.render.record_text.lines import lines
from bailiff.render.serializers.victims import affected_by
from bailiff_console.live.view_cache import ViewCache
from bailiff_core.explain import explain_job
from bailiff_core.fold import apply
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.state import Drain, PoolState
from bailiff_core.records import Record, decode
from bailiff_core.records.decisions import JobRequeued, PreemptionDecided
from bailiff_log.accounting_rows import Accounting

GPUS, RAN = 8, 10 * 60_000  # the job's GPUs; how long it has run, ms
WORK, RESTART = GPUS * RAN, GPUS * 60_000
TEXT = "1.3 GPU-h of work and 8.0 GPU-min to restart (assumed)"
URGENT = JobDemand(job="urgent", tasks=(TaskGroup(gpu_milli=8000),), priority_class="inference")


@pytest.fixture(scope="module")
def story() -> Story:
    """train-1 has run for ten minutes on all GPUs when urgent preempts it, and is gone in the same second."""
    story = Story()
    story.node("n1", gpus=GPUS)
    story.submit("train-1", gpus=GPUS, cls="train")
    story.started("train-1", after=2 * SECOND)
    story.time += 10 * MINUTE
    return story


@pytest.fixture(scope="module")
def foreseen(story: Story) -> tuple[dict, list[str], list]:
    """The plan and the drain, before it happens."""
    answer, sentences = predict(story.state, URGENT, story.time)
    story.state.now = story.time
    return answer, sentences, affected_by(story.state, story.state.nodes[0], Drain(0, "quick", "", None))


@pytest.fixture(scope="module")
def records(story: Story, foreseen: object) -> list[Record]:
    story.submit("urgent", gpus=GPUS, cls="inference", after=0)
    story.propose(after=0)
    story.yields("train-1", after=0)
    return [decode(wire) for wire in story.wires]


def test_what_is_foreseen(foreseen: tuple[dict, list[str], list]) -> None:
    answer, sentences, drained = foreseen
    (victim,) = answer["decision"]["victims"]
    assert (victim["work_lost_gpu_ms"], victim["restart_gpu_ms"]) == (WORK, RESTART)
    assert any(TEXT in sentence for sentence in sentences)
    assert [(row["work_lost_gpu_ms"], row["restart_gpu_ms"]) for row in drained] == [(WORK, RESTART)]


def test_what_is_shown_and_counted_afterwards(story: Story, records: list[Record]) -> None:
    state, tables, accounting, cache = PoolState(), Tables(0), Accounting(), ViewCache()
    decided, requeued, event = "", "", ""
    for record in records:
        apply(state, record)
        tables.note(record, state)
        accounting.at(state, record, stored=False)
        cache.take(record, state)
        if isinstance(record.data, PreemptionDecided):
            decided = str(lines(record, state)[0])
            event = next(row["reason"] for row in events_of(record, state) if row["job"] == "train-1")
        if isinstance(record.data, JobRequeued):
            requeued = str(lines(record, state)[0])
    assert TEXT in decided
    assert TEXT in requeued
    assert TEXT in event, "what notifications say, too"
    explained = [each.text for section in explain_job(state, state.jobs["train-1"], records) for each in section.sentences]
    assert len([text for text in explained if TEXT in text]) == 2, "when it was selected, and when it was requeued"
    (lost,) = accounting.lost.begun
    assert lost.values[-2:] == (WORK, RESTART), "accounting, the overview, attempts and evictions are sums of these rows"
    assert cache.tallies[""].work_lost_gpu_ms == WORK
    (row,) = (row for row in tables.rows["jobs"] if row["job"] == "train-1")
    (eviction,) = tables.rows["evictions"]
    assert (row["work_lost_gpu_ms"], row["restart_gpu_ms"]) == (WORK, RESTART)
    assert (eviction["work_lost_gpu_ms"], eviction["restart_gpu_ms"]) == (WORK, RESTART)
    rolled_up = Counter().feed(story.wires)
    assert (rolled_up.of("lost"), rolled_up.of("restart")) == ({("preemption",): WORK}, {("preemption",): RESTART})


def test_once_a_member_has_finished_only_what_is_evicted_loses() -> None:
    story = Story()
    story.node("n1", gpus=3)
    story.runs("wide", TaskGroup(count=3, gpu_milli=1000), min_tasks=1, elastic="restart")
    story.ends("wide", task=0)
    story.runs("filler", gpus=1, cls="interactive")
    story.time += 10 * MINUTE
    one = JobDemand(job="one", tasks=(TaskGroup(gpu_milli=1000),), priority_class="inference")
    answer, _ = predict(story.state, one, story.time)
    (victim,) = answer["decision"]["victims"]
    assert (victim["job"], victim["restart_gpu_ms"]) == ("wide", 60_000)
    assert victim["work_lost_gpu_ms"] == pytest.approx(RAN, abs=10_000)
