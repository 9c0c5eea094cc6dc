"""Requests are taken in turn by user: nobody waits for another's backlog, and nothing is lost or done twice."""

from collections import Counter
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from bailiff_admission import turns as turns_of_users
from bailiff_admission.input_positions import InputPositions
from bailiff_admission.turns import KNOWN, LATER_EVERY, MAX_USERS, QUANTUM, RANKS, SMALLEST, UNKNOWN, Turns, User

users = st.builds(User, st.sampled_from(RANKS), st.sampled_from(["ada", "bo", "cy", "dee"]))
sizes = st.integers(1, 3 * QUANTUM)
arrivals = st.lists(st.tuples(users, sizes), max_size=80)


@given(arrivals, st.integers(1, 9), st.integers(1, 20), st.integers(SMALLEST, 10 * QUANTUM), st.sampled_from([1, 2, MAX_USERS]))
def test_each_request_is_taken_or_shed_once_in_its_users_order(arriving, limit, max_waiting, max_bytes, max_users):
    with patch.object(turns_of_users, "MAX_USERS", max_users):
        _each_is_taken_or_shed_once(arriving, limit, max_waiting, max_bytes)


def _each_is_taken_or_shed_once(arriving, limit, max_waiting, max_bytes):
    turns, taken, shed = Turns(max_waiting, max_bytes), [], []
    for number, (user, size) in enumerate(arriving):
        shed += [request for _, request in turns.add(user, (number, user), size)]
        assert len(turns) <= len(RANKS) * max_waiting
        if number % 5 == 0:
            taken += turns.take(limit)
    while turns:
        taken += turns.take(limit)
    assert sorted(number for number, _ in taken + shed) == list(range(len(arriving)))
    for user in {user for user, _ in arriving}:
        own = [number for number, of in taken if of == user]
        assert own == sorted(own)


@given(st.lists(sizes, min_size=1, max_size=200), sizes, st.integers(1, 5), st.sampled_from([KNOWN, UNKNOWN]))
def test_a_request_waits_for_one_round_of_the_others_per_quantum(backlog, size, others, rank):
    turns = Turns()
    for other in range(others):
        for each in backlog:
            turns.add(User(rank, f"other-{other}"), ("other", other, each), each)
    turns.take(len(backlog) // 2)
    turns.add(User(rank, "ada"), "ada", size)
    before = turns.take(len(turns))
    before = before[: before.index("ada")]
    rounds = -(-max(size, SMALLEST) // QUANTUM)
    per_other = Counter()
    for _, other, each in before:
        per_other[other] += max(each, SMALLEST)
    # each round may carry over the rest of the one before, which is smaller than one request
    assert all(waited <= (rounds + 1) * QUANTUM + 3 * QUANTUM for waited in per_other.values())


@given(st.lists(st.sampled_from(RANKS), max_size=300), st.integers(1, 50))
def test_earlier_ranks_come_first_and_each_later_one_has_its_share_while_it_waits(arriving, limit):
    turns, waiting, passed = Turns(), Counter(), Counter()
    for number in range(0, len(arriving), limit):
        for rank in arriving[number : number + limit]:
            turns.add(User(rank, "somebody"), rank, 1)
            waiting[rank] += 1
        for _ in range(limit // 2 if number + limit < len(arriving) else len(turns)):
            (taken,) = turns.take(1)
            due = [rank for rank in RANKS if waiting[rank] and passed[rank] >= LATER_EVERY - 1]
            assert taken == min(waiting) or taken in due, "nobody comes before an earlier rank, but for its share"
            waiting = +(waiting - Counter([taken]))
            passed = Counter({rank: passed[rank] + 1 for rank in waiting if rank != taken})
            assert all(passed[rank] <= LATER_EVERY for rank in waiting if rank > min(waiting)), "each later rank has its share"


@given(st.lists(st.tuples(st.integers(0, 10_000), sizes), min_size=1, max_size=600))
def test_invented_names_do_not_make_more_than_so_many_queues(arriving):
    turns = Turns()
    for name, size in arriving:
        turns.add(User(UNKNOWN, f"source-{name}"), name, size)
    assert len(turns._ranks[UNKNOWN].users) <= MAX_USERS + 1
    assert len(turns.take(1_000)) == len(arriving)


def test_who_shares_a_turn_keeps_it_until_it_is_empty():
    turns = Turns()
    for number in range(MAX_USERS):
        turns.add(User(KNOWN, f"user-{number}"), "others", SMALLEST)
    turns.add(User(KNOWN, "ada"), "first", 2 * QUANTUM)
    assert turns.take(2) == ["others", "others"]  # two of the users are gone
    turns.add(User(KNOWN, "ada"), "second", SMALLEST)
    taken = turns.take(len(turns))
    assert taken.index("first") < taken.index("second")


def test_the_newest_requests_of_whoever_has_most_waiting_are_shed():
    turns = Turns(max_waiting=10)
    for number in range(9):
        assert turns.add(User(KNOWN, "flood"), f"flood-{number}", 1) == []
    assert turns.add(User(KNOWN, "ada"), "ada", 1) == []
    assert turns.add(User(KNOWN, "ada"), "ada-2", 1) == [(User(KNOWN, "flood"), "flood-8")]
    assert turns.add(User(KNOWN, "flood"), "flood-9", 1) == [(User(KNOWN, "flood"), "flood-9")]
    assert turns.add(User(UNKNOWN, "source"), "another rank", 1) == []


# --- positions


@given(st.data())
def test_whatever_is_cut_off_each_input_is_done_once(data):
    """Writers read and do inputs out of order, and end between any two records; each continues from the log alone."""
    wanted = data.draw(st.lists(st.booleans(), min_size=1, max_size=40))  # the others are of another pool
    done, log = [], {}
    for _ in range(4):
        positions, seq = InputPositions(log, 0), data.draw(st.integers(0, 20_000))
        waiting, at = [], positions["t/0"]
        for _ in range(data.draw(st.integers(0, 60))):
            step = data.draw(st.sampled_from(["read", "do", "do without a record"]))
            if step == "read" and at < len(wanted):
                if wanted[at] and positions.waits("t/0", at):
                    waiting.append(at)
                at += 1
                positions.read_to("t/0", at)
            elif waiting and step != "read":
                first = data.draw(st.integers(0, len(waiting) - 1))
                finished = waiting[first : first + data.draw(st.integers(1, 5))]
                del waiting[first : first + len(finished)]
                positions.done("t/0", finished[0], finished[-1])
                done += finished
                if step == "do":
                    _fold(log, positions.take_changes(seq))
                    assert log == positions.all()
        _fold(log, positions.take_changes(seq))  # what was done without a record is on the next one
        undone = [offset for offset in range(at) if wanted[offset] and offset not in done]
        assert [offset for offset in range(at) if wanted[offset] and not _is_done(log, offset)] == undone
        assert positions.ranges <= len(waiting)
    assert len(set(done)) == len(done)


def test_inputs_done_in_order_leave_no_ranges():
    positions, log = InputPositions({}, 0), {}
    for offset in range(5):
        positions.waits("t/0", offset)
        positions.done("t/0", offset, offset)
        changes = positions.take_changes(offset)
        _fold(log, changes)
        assert changes == (("t/0", offset + 1),)
    assert log == {"t/0": 5}


def test_a_topic_that_was_cut_short_is_read_again_from_its_beginning():
    positions = InputPositions({"t/0": 5, "t/0/7": 9}, 0)
    positions.begin("t/0", 2)
    assert positions.take_changes(1) == (("t/0", 2), ("t/0/7", 0))
    assert positions.waits("t/0", 7)


def _fold(log, changes):
    for name, at in changes:
        if at:
            log[name] = at
        else:
            log.pop(name, None)


def _is_done(log, offset):
    ranges = [(int(name.split("/")[2]), end) for name, end in log.items() if name.count("/") == 2]
    return offset < log.get("t/0", 0) or any(first <= offset < end for first, end in ranges)
