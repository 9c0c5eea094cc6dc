"""Every duration that a request carries, at ten years: what bounds it is the policy's, or its sender waits alone."""

import typing
from collections.abc import Callable, Iterator

import pytest
from pydantic import BaseModel
from tests.kits.log_builder import DAY, MINUTE, SECOND, Story, policy

from bailiff_core.admission import PERMITTED, Context, Rejected, admit
from bailiff_core.lifecycle import snapshot_interval, stale_grace
from bailiff_core.model.document import TEN_YEARS
from bailiff_core.model.grace import grace_of, term_after
from bailiff_core.model.policy import DEFAULT_CLAIMS
from bailiff_core.queue.preemption_delay import may_preempt_from
from bailiff_core.records import facts
from bailiff_core.records.pool_requests import ApplyPolicy
from bailiff_core.records.request import RECORDS

LIMIT = 10 * MINUTE
"""What the policy grants where it says nothing."""


def pool(**protections: object) -> Story:
    claims = DEFAULT_CLAIMS.model_dump(mode="json")
    story = Story(policy(preemption={"scope": "pool"}, protections=protections, claims=claims))
    story.node("n1")
    return story


def _grace() -> None:
    story = pool()
    story.runs("job", gpus=8, grace=TEN_YEARS)
    assert grace_of(story.state, story.job("job")) == LIMIT


def _kill_after() -> None:
    story = pool()
    story.runs("job", gpus=8, grace=TEN_YEARS, kill_after=TEN_YEARS)
    story.cancel("job")
    eviction = story.job("job").eviction
    assert eviction is not None
    assert eviction.grace <= LIMIT
    assert 0 <= term_after(story.state, story.job("job"), eviction.grace) < eviction.grace


def _preemption_delay() -> None:
    story = pool(preemption_delay="1m")
    story.submit("asks", gpus=8, cls="interactive", preemption_delay=0)
    assert may_preempt_from(story.state, story.job("asks")) == story.time + MINUTE, "none is shorter than the policy's"
    story.submit("waits", gpus=8, cls="interactive", preemption_delay=TEN_YEARS)
    assert may_preempt_from(story.state, story.job("waits")) == story.time + TEN_YEARS, "the job itself waits"


def _stale_grace() -> None:
    story = pool()
    story.runs("gang", gpus=4, tasks=2, stale_grace=TEN_YEARS)
    assert stale_grace.grace(story.state, story.job("gang")) == LIMIT


def _run_time_limit() -> None:
    story = pool()
    story.runs("job", gpus=8, run_time_limit=TEN_YEARS)
    story.submit("urgent", gpus=8, cls="interactive")
    story.propose()
    assert story.job("job").phase == "evicting", "it keeps nobody from evicting the job"


def _restart_backoff() -> None:
    story = pool()
    story.runs("job", gpus=8, cls="interactive", restart_backoff=TEN_YEARS)
    story.ends("job", 1)
    story.submit("low", gpus=8, after=SECOND)
    assert story.job("low").phase == "starting", "nobody waits for it meanwhile"


def _checkpoint_every() -> None:
    story = pool()
    story.runs("never", gpus=1, checkpoint="snapshot", checkpoint_every=TEN_YEARS)
    story.runs("often", gpus=1, checkpoint="snapshot", checkpoint_every=1)
    never, often = (snapshot_interval.due(story.state, story.job(name)) for name in ("never", "often"))
    assert (never or 0) > story.time + TEN_YEARS - MINUTE, "the job itself waits"
    assert (often or 0) > story.time + 9 * MINUTE, "none is shorter than the policy's"


def _of_a_request(change: Callable[[Story], object]) -> Callable[[], None]:
    def bounded() -> None:
        story = pool()
        story.runs("job", gpus=8)
        change(story)
        eviction = story.job("job").eviction
        assert eviction is not None
        assert eviction.grace == grace_of(story.state, story.job("job")) < LIMIT

    return bounded


def _cancel(story: Story) -> None:
    story.cycle(facts.JobCancelled(request=story.request(), job="job", grace=TEN_YEARS))


def _evict(story: Story) -> None:
    story.cycle(facts.JobEvictionRequested(request=story.request(), job="job", grace=TEN_YEARS))


def _drain_deadline() -> None:
    _of_a_request(lambda story: story.drain("n1", "quick", deadline=TEN_YEARS))()
    story = pool()
    story.runs("job", gpus=8)
    story.drain("n1", "graceful", deadline=TEN_YEARS)
    story.wait(DAY)
    story.drain("n1", "fast")
    assert story.job("job").phase == "evicting", "a later drain replaces it"


def _reserved_duration() -> None:
    story = Story(policy(projects=[{"name": "demo"}]))
    story.node("n1")
    asked = {"reservation": "ever", "project": "demo", "gpus": 1, "begin": story.time, "duration": TEN_YEARS}
    refused = admit(Context(story.state, PERMITTED, story.request()), facts.ReserveGpus.model_validate(asked))
    assert isinstance(refused, Rejected)
    assert "reservations.max_duration" in refused.reason


def _maintenance() -> None:
    story = Story()
    story.node("n1")
    asked = {"node": "n1", "begin": story.time, "duration": TEN_YEARS}
    refused = admit(Context(story.state, PERMITTED, story.request()), facts.DrainNode.model_validate(asked))
    assert isinstance(refused, Rejected)
    assert "at most 30d" in refused.reason


BOUNDS = {
    "ReserveGpus.duration": _reserved_duration,
    "SubmitJob.demand.grace": _grace,
    "SubmitJob.demand.kill_after": _kill_after,
    "SubmitJob.demand.preemption_delay": _preemption_delay,
    "SubmitJob.demand.stale_grace": _stale_grace,
    "SubmitJob.demand.run_time_limit": _run_time_limit,
    "SubmitJob.demand.restart_backoff": _restart_backoff,
    "SubmitJob.demand.checkpoint_every": _checkpoint_every,
    "CancelJob.grace": _of_a_request(_cancel),
    "EvictJob.grace": _of_a_request(_evict),
    "DrainNode.deadline": _drain_deadline,
    "DrainNode.duration": _maintenance,
}


def _durations(model: type[BaseModel], path: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        for part, metadata in _parts(field.annotation, field.metadata):
            if any(getattr(each, "le", None) == TEN_YEARS for each in metadata):
                yield f"{path}.{name}"
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from _durations(part, f"{path}.{name}")


def _parts(annotation: object, metadata: list[object]) -> Iterator[tuple[object, list[object]]]:
    """The types in an annotation, with what is said of each."""
    inner = [*typing.get_args(annotation)] if typing.get_origin(annotation) is not typing.Literal else []
    if typing.get_origin(annotation) is typing.Annotated:
        said = [*metadata, *inner[1:], *(each for one in inner[1:] for each in getattr(one, "metadata", ()))]
        yield from _parts(inner[0], said)
    elif inner:
        for each in inner:
            yield from _parts(each, metadata)
    else:
        yield annotation, [*metadata, *(each for one in metadata for each in getattr(one, "metadata", ()))]


def test_each_of_them_is_here() -> None:
    """But those of the policy, which operators apply."""
    found = {path for body in RECORDS if body is not ApplyPolicy for path in _durations(body, body.__name__)}
    assert found == {*BOUNDS}


@pytest.mark.parametrize("path", BOUNDS)
def test_ten_years_of_it_bind_nobody_else(path: str) -> None:
    BOUNDS[path]()
