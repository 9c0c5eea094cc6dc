"""The log's clock, and the silence of nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.log_builder import NEW_YEAR, SECOND, Story, policy
from tests.unit.admission.kit import Watch

from bailiff_admission.clock import LogClock
from bailiff_admission.liveness import Liveness
from bailiff_core.records.facts import NodeReturned

TOLERANCE = 5 * SECOND


@pytest.fixture
def watch():
    return Watch()


# --- the clock


def test_it_begins_at_the_later_of_head_and_wall(watch):
    assert LogClock(watch.clock_and_ids, 0).now() == NEW_YEAR
    assert LogClock(watch.clock_and_ids, NEW_YEAR + 7).now() == NEW_YEAR + 7


def test_it_follows_the_boot_time_and_not_the_wall_clock(watch):
    clock = LogClock(watch.clock_and_ids, 0)
    watch.boot += 10 * SECOND
    assert clock.now() == NEW_YEAR + 10 * SECOND
    watch.wall -= 30 * SECOND
    assert clock.now() == NEW_YEAR + 10 * SECOND


def test_ahead_of_the_wall_clock_it_advances_at_half_pace_until_they_meet(watch):
    clock = LogClock(watch.clock_and_ids, NEW_YEAR + 10 * SECOND)
    watch.passes(10 * SECOND)
    assert clock.now() == NEW_YEAR + 15 * SECOND
    watch.passes(30 * SECOND)  # they meet after ten of them
    assert clock.now() == NEW_YEAR + 40 * SECOND
    watch.passes(SECOND)
    assert clock.now() == NEW_YEAR + 41 * SECOND


def test_a_jump_ahead_is_taken_over_once(watch):
    clock = LogClock(watch.clock_and_ids, 0)
    assert clock.step() == 0
    watch.passes(SECOND)
    watch.wall += 61 * SECOND
    assert clock.step() == 61 * SECOND
    assert clock.step() == 0
    assert clock.now() == NEW_YEAR + 62 * SECOND


def test_small_jumps_are_not_looked_at(watch):
    clock = LogClock(watch.clock_and_ids, 0)
    watch.wall += 60 * SECOND
    assert clock.step() == 0
    assert clock.now() == NEW_YEAR


def test_a_backward_jump_never_moves_the_log_clock_back(watch):
    clock = LogClock(watch.clock_and_ids, 0)
    watch.wall -= 3600 * SECOND
    assert clock.step() == -3600 * SECOND
    assert clock.now() == NEW_YEAR
    watch.passes(10 * SECOND)
    assert clock.now() == NEW_YEAR + 5 * SECOND


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(-(10**10), 10**10), st.booleans()), max_size=30))
def test_the_log_clock_is_monotonic(moves):
    watch = Watch()
    clock = LogClock(watch.clock_and_ids, NEW_YEAR + 5 * SECOND)
    last = clock.now()
    for passed, jump, look in moves:
        watch.boot += passed
        watch.wall = max(0, watch.wall + passed + jump)
        if look:
            clock.step()
        now = clock.now()
        assert last <= now
        last = now


@pytest.mark.parametrize(
    ("append", "apart"),
    [(0, None), (5 * SECOND, None), (5 * SECOND + 1, 5 * SECOND + 1), (-7 * SECOND, None), (-7 * SECOND - 1, -5 * SECOND - 1)],
)
def test_how_far_from_the_broker(watch, append, apart):
    clock = LogClock(watch.clock_and_ids, 0)
    sent = watch.boot
    watch.passes(2 * SECOND)  # the acknowledgement took so long: any moment in between is right
    base = NEW_YEAR + 2 * SECOND
    assert clock.differs_from(base + append, sent, TOLERANCE) == apart


@pytest.mark.parametrize(("append", "apart"), [(0, -3600 * SECOND), (3600 * SECOND, None), (3607 * SECOND, 7 * SECOND)])
def test_a_jump_is_compared_before_it_is_taken_over(watch, append, apart):
    clock = LogClock(watch.clock_and_ids, 0)
    watch.wall += 3600 * SECOND
    assert clock.jump() == 3600 * SECOND
    assert clock.differs_from(NEW_YEAR + append, watch.boot, TOLERANCE, clock.jump()) == apart
    assert clock.now() == NEW_YEAR
    assert clock.step() == 3600 * SECOND
    assert clock.jump() == 0
    assert clock.now() == NEW_YEAR + 3600 * SECOND


# --- silence


class Pool:
    """Nodes that report every second, except those that are silent; the writer looks every second, too."""

    def __init__(self, watch, nodes, rules=None):
        self.story = Story(rules or policy())
        for number in range(nodes):
            self.story.node(f"n{number}")
        self.watch = watch
        self.liveness = Liveness(watch.clock_and_ids)
        self.silent = set()
        self.recorded = []

    def second(self, at_end=True, looks=True):
        watch = self.watch
        watch.passes(SECOND)
        for node in self.story.state.nodes.values():
            if node.name not in self.silent:
                self.liveness.observe(self.story.state, node.name, node.incarnation, watch.wall)
        self.liveness.broker_time(watch.wall)
        if not looks:
            return []
        self.liveness.inputs_read(at_end)
        found = self.liveness.check(self.story.state)
        if found:
            self.story.cycle(*found)
        self.recorded += [(type(fact).__name__, getattr(fact, "node", None) or fact.nodes) for fact in found]
        return found

    def newly_silent(self):
        self.second()
        return [node.name for node, _ in self.liveness.newly_silent(self.story.state)]

    def seconds(self, many):
        del self.recorded[:]
        for _ in range(many):
            self.second()
        return self.recorded


def test_reporting_nodes_stay_reachable(watch):
    assert Pool(watch, 5).seconds(100) == []


def test_a_silent_node_is_unreachable_then_lost(watch):
    pool = Pool(watch, 10)
    pool.seconds(31)
    pool.silent = {"n3"}
    assert pool.seconds(30) == []
    assert pool.seconds(1) == [("NodeUnreachable", "n3")]
    assert pool.seconds(629) == []  # the lease and its margin, 660 s from the last word
    assert pool.seconds(1) == [("NodeLost", "n3")]
    assert pool.seconds(100) == []


def test_a_node_that_reports_again(watch):
    pool = Pool(watch, 10)
    pool.seconds(31)
    pool.silent = {"n3"}
    assert pool.seconds(31) == [("NodeUnreachable", "n3")]
    pool.silent = set()
    assert pool.seconds(5) == [("NodeReachable", "n3")]


def test_a_report_of_another_incarnation_does_not_count_for_a_node(watch):
    pool = Pool(watch, 10)
    pool.seconds(31)
    pool.silent = {"n3"}
    for _ in range(31):
        pool.second()
        pool.liveness.observe(pool.story.state, "n3", "another-life", watch.wall)
    assert pool.recorded == [("NodeUnreachable", "n3")]


def test_the_silence_of_a_node_without_reports_counts_from_the_start_of_the_watch(watch):
    pool = Pool(watch, 10)
    pool.silent = {"n3"}
    assert pool.seconds(31)[-1:] == [("NodeUnreachable", "n3")]


def test_a_pause_of_the_writer_restarts_the_watch(watch):
    pool = Pool(watch, 10)
    pool.seconds(31)
    pool.silent = {"n3"}
    pool.seconds(25)
    for _ in range(4):
        pool.second(looks=False)  # it did not look for four seconds
    assert pool.seconds(30) == []
    assert pool.seconds(1) == [("NodeUnreachable", "n3")]


def test_a_writer_that_lags_declares_no_node_silent(watch):
    pool = Pool(watch, 10)
    pool.silent = {"n3"}
    for _ in range(100):
        pool.second(at_end=False)
    assert pool.recorded == []


def test_a_silence_of_a_minute_is_named_once_until_the_node_reports_again(watch):
    pool = Pool(watch, 10)
    pool.seconds(61)
    pool.silent = {"n3"}
    assert [pool.newly_silent() for _ in range(60)] == [[]] * 60
    assert pool.newly_silent() == ["n3"]
    assert [pool.newly_silent() for _ in range(700)] == [[]] * 700  # it is lost meanwhile
    assert [labels for _, labels, _ in pool.liveness.samples(pool.story.state)] == [("n3",)]
    pool.silent = set()
    pool.story.node("n3", boot=2)
    assert pool.newly_silent() == []
    assert list(pool.liveness.samples(pool.story.state)) == []
    pool.silent = {"n3"}
    assert [name for _ in range(62) for name in pool.newly_silent()] == ["n3"]


def test_a_drained_and_empty_node_may_be_switched_off(watch):
    pool = Pool(watch, 10)
    pool.story.drain("n3")
    pool.seconds(61)
    pool.silent = {"n3"}
    assert [pool.newly_silent() for _ in range(120)] == [[]] * 120


def test_after_an_outage_no_silence_is_named_before_a_minute_was_watched(watch):
    pool = Pool(watch, 10)
    pool.seconds(61)
    watch.passes(3600 * SECOND)
    pool.silent = {"n3"}
    assert [pool.newly_silent() for _ in range(60)] == [[]] * 60
    assert list(pool.liveness.samples(pool.story.state)) == []


def test_an_outage_makes_no_node_lost(watch):
    """Nothing is appended and nothing read for an hour; then all of them speak again."""
    pool = Pool(watch, 10)
    pool.seconds(60)
    watch.passes(3600 * SECOND)
    pool.silent = {f"n{number}" for number in range(10)}
    assert pool.seconds(10) == []
    pool.silent = set()
    assert pool.seconds(120) == []


def test_many_silent_nodes_at_once_are_not_lost(watch):
    pool = Pool(watch, 10)
    pool.seconds(31)
    pool.silent = {"n1", "n2", "n3"}
    assert pool.seconds(31) == [("NodesSilent", ("n1", "n2", "n3"))]
    assert pool.seconds(2000) == []
    assert pool.story.state.nodes[1].state == "unreachable"


def test_a_fifth_of_the_pool_is_not_too_many(watch):
    pool = Pool(watch, 10)
    pool.seconds(31)
    pool.silent = {"n1", "n2"}
    assert pool.seconds(31) == [("NodeUnreachable", "n1"), ("NodeUnreachable", "n2")]


def test_one_machine_of_two_is_no_outage(watch):
    pool = Pool(watch, 2)
    pool.seconds(31)
    pool.silent = {"n1"}
    assert pool.seconds(31) == [("NodeUnreachable", "n1")]


def test_silent_nodes_that_report_and_fall_silent_again(watch):
    pool = Pool(watch, 10)
    pool.seconds(31)
    pool.silent = {"n1", "n2", "n3"}
    pool.seconds(31)
    pool.silent = set()
    assert pool.seconds(5) == [("NodeReachable", f"n{number}") for number in (1, 2, 3)]
    pool.silent = {"n1", "n2", "n3"}
    assert pool.seconds(31) == [("NodesSilent", ("n1", "n2", "n3"))]
    pool.silent = set()
    pool.seconds(5)
    pool.silent = {"n1"}
    assert pool.seconds(1000) == [("NodeUnreachable", "n1"), ("NodeLost", "n1")]


def test_one_more_silent_node_is_added(watch):
    pool = Pool(watch, 10)
    pool.seconds(31)
    pool.silent = {"n1", "n2", "n3"}
    pool.seconds(31)
    pool.silent |= {"n4"}
    assert pool.seconds(31) == [("NodesSilent", ("n1", "n2", "n3", "n4"))]


def test_lost_nodes_do_not_count_as_silent_ones(watch):
    pool = Pool(watch, 5)
    pool.story.lost("n0")
    pool.silent = {"n0", "n1"}
    assert pool.seconds(31) == [("NodeUnreachable", "n1")]


def test_an_operator_says_that_the_silence_is_real(watch):
    pool = Pool(watch, 10)
    pool.seconds(31)
    pool.silent = {"n1", "n2", "n3"}
    pool.seconds(1000)
    pool.story.cycle(NodeReturned(request=pool.story.request(), node="n2"))
    assert pool.seconds(5) == [("NodeLost", "n2")]
    assert pool.story.state.silent_nodes == ["n1", "n3"]
    pool.story.cycle(NodeReturned(request=pool.story.request()))
    assert pool.seconds(5) == [("NodeLost", "n1"), ("NodeLost", "n3")]
    pool.silent = set()
    for name in ("n1", "n2", "n3"):
        pool.story.node(name)
    pool.seconds(5)
    pool.silent = {"n1", "n2", "n3"}
    assert pool.seconds(31)[-1:] == [("NodesSilent", ("n1", "n2", "n3"))]  # a new silence is in doubt again
