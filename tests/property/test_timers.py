"""The timers equal those computed from all jobs, after any history."""

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.log_builder import MINUTE, Story
from tests.kits.log_builder import policy as rules

from bailiff_core.decision_cycle import wake_at
from bailiff_core.lifecycle.timers import DUE, Timers, timers_of
from bailiff_core.model.state import Job
from bailiff_core.scheduling_snapshot.completion_order import CompletionOrder, completion_order

POLICY = rules(
    protections={
        "ageing": {"boost": 10, "waiting": "7m", "evictions": 1},
        "schedule_timeout": {"after": "5m"},
        "preemption_delay": "3m",
        "stale_gang": "2m",
    }
)
STEPS = st.sampled_from(
    ["submit", "submit-large", "start", "end", "fail", "evict", "wait", "policy", "lose", "back", "cancel", "propose"]
)


@examples(60)
@given(steps=st.lists(STEPS, max_size=25), data=st.data())
def test_the_timers_equal_those_computed_from_all_jobs(steps, data):
    story = Story(POLICY)
    story.node("n1")
    story.node("n2")
    for number, step in enumerate(steps):
        jobs = list(story.state.jobs)
        job = data.draw(st.sampled_from(jobs)) if jobs else None
        if step.startswith("submit"):
            gpus = 8 if step == "submit-large" else 2
            story.submit(
                f"j{number}", gpus=gpus, tasks=data.draw(st.integers(1, 2)), max_failures=5, preemption_delay=MINUTE * gpus
            )
        elif step == "wait":
            story.wait(data.draw(st.integers(1, 10)) * MINUTE)
        elif step == "policy":
            story.apply_policy(POLICY if number % 2 else rules())
        elif step == "lose":
            if story.state.nodes[1].state == "ready":
                story.lost("n2")
        elif step == "propose":
            if story.state.selection is not None:
                story.propose()
        elif step == "back":
            story.node("n2", boot=number)
        elif job is not None and step == "cancel":
            story.cancel(job)
        elif job is not None and story.job(job).phase in ("starting", "running"):
            if step == "start":
                story.started(job)
            elif story.job(job).phase == "running":
                story.ends(job, code={"end": 0, "fail": 1, "evict": 85}[step])
        kept, fresh = timers_of(story.state), Timers()
        fresh.refresh(story.state, ())
        assert kept.next(story.state.now) == fresh.next(story.state.now)
        assert completion_order(story.state) == CompletionOrder(story.state).keys
        waits = [moment for name in story.state.queue for moment in _again(story.job(name)) if moment > story.state.now]
        if waits:
            assert wake_at(story.state) <= min(waits)
        for rule in DUE:
            assert kept.due(story.state, rule) == fresh.due(story.state, rule)


def _again(job: Job) -> tuple[int, int]:
    """When a pending job is tried again, and may request preemption again."""
    return job.not_before, job.next_request_at
