"""Preemption delay, and schedule timeout of pending gangs."""

from tests.kits.log_builder import MINUTE
from tests.kits.log_builder import policy as rules
from tests.kits.story_script import play, stories

from bailiff_core.queue.preemption_delay import may_preempt_from

test_delay_and_timeout_in_stories = stories("""
preemption delay does not bind allocate
    rules {protections: {preemption_delay: 5m}}; node n1; submit a: 8 gpus; => JobPlaced a

a gang placed at the deadline has not timed out
    rules {protections: {schedule_timeout: {after: 5m, action: fail}}}; submit gang: 8 gpus; +5m; node n1; => only JobPlaced

the end of a delay is a wake up time
    rules {protections: {preemption_delay: 5m}}; submit a: 8 gpus; submit other: build, 8 gpus, preemption_delay 1m
    wake = now + 1m; cancel other; wake = now + 5m; wait 5m; wake = none

a schedule timeout is recorded once
    rules {protections: {schedule_timeout: {after: 5m, action: report}}}; submit gang: 2 x 8 gpus; wait 299999999us; => nothing
    wait 1us; => only ScheduleTimedOut; => ScheduleTimedOut gang waited=5m action=report reason~GPU; gang is pending; wait 1h
    => nothing

a schedule timeout may let others pass
    rules {protections: {schedule_timeout: {after: 5m, action: pass}}}; submit gang: 2 x 8 gpus; wait 5m
    => only ScheduleTimedOut; => ScheduleTimedOut gang waited=5m action=pass; gang is pending

a schedule timeout may end the job
    rules {protections: {schedule_timeout: {after: 5m, action: fail}}}; submit gang: 2 x 8 gpus; wait 5m
    => only ScheduleTimedOut JobEnded; => JobEnded gang outcome=failed reason~schedule-timeout; gang is failed

each wait has its own timeout
    rules {protections: {schedule_timeout: {after: 5m}}}; submit gang: 8 gpus, max_failures 1; wait 5m; node n1; started gang
    ends gang code=1; silent n1; wait 5m; decided ScheduleTimedOut: gang gang

without the rule a gang is pending for ever
    submit gang: 8 gpus; wait 10h; => nothing
""")


def test_preemption_delay_counts_from_submit_and_a_job_may_override_it(tell):
    story = tell(rules(protections={"preemption_delay": "5m"}))
    story.submit("a", gpus=8)
    story.submit("b", gpus=8, preemption_delay=MINUTE)
    story.submit("c", gpus=8, preemption_delay=0)
    times = [may_preempt_from(story.state, story.job(name)) - story.time for name in "abc"]
    assert times == [5 * MINUTE, MINUTE, 0]


def test_preemption_delay_counts_anew_from_an_eviction_but_not_from_a_failure(tell):
    story = play("rules {protections: {preemption_delay: 5m}}; node n1; runs job: 8 gpus, max_failures 3; +1m; ends job code=1")
    assert may_preempt_from(story.state, story.job("job")) == story.time - MINUTE + 5 * MINUTE
    play("wait 2s; started job; submit first: inference, 8 gpus, preemption_delay 0; propose; +1m; yields job", story=story)
    assert may_preempt_from(story.state, story.job("job")) == story.time + 5 * MINUTE
