"""Log time: what is due, and what a clock step shifts."""

from tests.kits.log_builder import HOUR, Story
from tests.kits.story_script import play, stories

from bailiff_core.decision_cycle import wake_at
from bailiff_core.records.facts import ClockStepped

test_clock_in_stories = stories("""
a clock step expires nothing
    node n1: 8 gpus; runs low: 8 gpus; submit high: interactive, 8 gpus; clock steps 1h; => nothing; selection.deadline = now + 5s
    propose; begin low; clock steps 1h; => nothing; high.reserved_until = now + 750s; low.eviction.started_at = now
    wait 270s; => EvictionStuck low

a clock step counts as no work lost
    node n1: 8 gpus; runs low: 8 gpus; +1m; submit high: interactive, 8 gpus; clock steps 1h; propose
    => PreemptionDecided victims.0.lost_gpu_ms=960000; clock steps 1h; yields low; => JobRequeued lost_gpu_ms=960000

a clock step moves restart backoffs
    node n1: 8 gpus; runs job: 8 gpus, max_failures 1; ends job code=1; clock steps 1h; => nothing; job.not_before = now + 2s
    +2s; tick; => JobPlaced job attempt=2

the nearest moment is due
    node n1; runs low: 8 gpus, max_failures 1; submit high: interactive, 8 gpus; wake = now + 5s
    propose; wake = now + 750s; begin low; wake = now + 270s; ends low code=1; wake = now + 2s

a clock step moves the next request
    node n1: 8 gpus; runs low: 8 gpus; submit high: interactive, 8 gpus; propose nothing; clock steps 1h; => nothing
    wake = now + 1s
""")


def test_nothing_is_due_in_a_quiet_pool(story):
    assert wake_at(Story().state) is None
    play("node n1; runs job: 8 gpus; submit waiting: 8 gpus", story=story)
    assert wake_at(story.state) is None


def test_a_clock_step_leaves_a_selection_without_a_deadline_as_it_is():
    story = play("node n1: 8 gpus; runs low: 8 gpus; submit high: interactive, 8 gpus")
    story.state.selection.deadline = None
    story.cycle(ClockStepped(jump=HOUR), after=HOUR)
    assert story.state.selection.deadline is None
