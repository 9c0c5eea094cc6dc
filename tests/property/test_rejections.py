"""Who counts as whom where rejections are limited: nobody uses up the part of a sender who is proven by a signature."""

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.log_builder import Story

from bailiff_core.fold.log import MAX_REJECTED, MAX_SOURCES, is_proven, rejections_key
from bailiff_core.records.facts import InputRejected

MINUTE = 60_000_000
NAMES = st.sampled_from(["ada", "@ada", "?ada", "?@ada", "@", "?", "bailiff.requests"]) | st.text("@?a", min_size=1, max_size=4)


def rejected(source: str | None, sender: str | None, count: int = 1) -> InputRejected:
    about = {"topic": "bailiff.requests", "partition": 0, "offset": 0, "digest": "d" * 64, "code": "not-json", "reason": "no"}
    return InputRejected(**about, source=source, sender=sender, count=count)


@given(claimed=st.lists(st.tuples(NAMES, st.integers(1, 1000)), max_size=30), sender=NAMES)
def test_no_claim_counts_for_a_proven_sender(claimed: list[tuple[str, int]], sender: str) -> None:
    story = Story()
    for source, count in claimed:
        story.cycle(rejected(source, None, count))
    theirs = rejected("whatever", sender)
    assert rejections_key(story.state, theirs) not in story.state.rejections
    story.cycle(theirs)
    assert story.state.rejections[rejections_key(story.state, theirs)].count == 1
    assert [each.count for key, each in story.state.rejected.items() if is_proven(key.partition(" ")[2])] == [1]


@given(one=st.tuples(NAMES, NAMES | st.none()), other=st.tuples(NAMES, NAMES | st.none()))
def test_two_senders_have_one_key_only_where_they_are_the_same(
    one: tuple[str, str | None], other: tuple[str, str | None]
) -> None:
    keys = [rejections_key(Story().state, rejected(*each)) for each in (one, other)]
    same = one[1] == other[1] and (one[1] is not None or one[0] == other[0])
    assert (keys[0] == keys[1]) == same


def test_invented_sources_share_one_count_and_push_no_proven_sender_out_of_sight() -> None:
    story = Story()
    story.cycle(rejected("x", "ada"))
    for number in range(3 * MAX_SOURCES):
        story.cycle(rejected(f"invented-{number}", None))
    assert len(story.state.rejections) == MAX_SOURCES + 2
    assert story.state.rejections["?"].count == 2 * MAX_SOURCES
    assert len(story.state.rejected) == MAX_REJECTED + 1
    assert story.state.rejected["not-json @ada"].source == "ada"
    story.time += 2 * MINUTE
    story.cycle(rejected("later", None))
    assert list(story.state.rejections) in (["later"], ["?"])
