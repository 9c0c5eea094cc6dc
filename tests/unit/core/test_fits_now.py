"""Before eviction notices are sent: whether the reserved gang fits without its evictions by now."""

from tests.kits.story_script import play

from bailiff_core.actions.fits_now import fits_without_evictions
from bailiff_core.scheduling_snapshot import current_snapshot


def fits(story) -> bool:
    cluster = current_snapshot(story.state).cluster
    return fits_without_evictions(cluster, story.state, story.job("high"))


def reserved(story, tasks=1, gpus=8):
    """`high` has a reservation on n1, where `low` is being evicted and has had no notice yet."""
    story.node("n1")
    story.runs("low", gpus=8)
    story.submit("high", gpus=gpus, tasks=tasks, cls="interactive")
    story.propose()
    assert story.job("high").phase == "reserved"


def test_it_does_not_fit_while_its_victim_is_all_there_is(story):
    reserved(story)
    assert not fits(story)


def test_it_does_not_fit_where_only_a_part_of_it_does(story):
    reserved(story, tasks=2, gpus=4)
    story.node("n2", gpus=4)
    assert not fits(story)


def test_it_fits_once_another_node_has_room(story):
    reserved(story)
    story.node("n2")
    assert fits(story)


def test_what_it_has_reserved_counts_as_its_own():
    story = play("node n1; runs low: 4 gpus; submit high: interactive, 2 x 4 gpus; propose; high is reserved")
    assert not fits(story)
    story.node("n2", gpus=4)
    assert fits(story), "one task on what n1 has left, which is reserved for it, and one on n2"


def test_it_does_not_fit_where_another_job_is_only_leaving(story):
    reserved(story)
    play("node n2; runs other: 8 gpus; evict other; other is evicting", story=story)
    assert not fits(story), "its placement there would be a reservation, too"


def test_asking_changes_nothing(story):
    reserved(story)
    story.node("n2")
    cluster = current_snapshot(story.state).cluster
    before = [(node.unallocated, node.future) for node in cluster.nodes.values()]
    assert fits(story)
    assert [(node.unallocated, node.future) for node in cluster.nodes.values()] == before
