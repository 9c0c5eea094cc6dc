"""Keys in the state: the root key, revoked keys, and the way of a node from its first message to its enrolment."""

from tests.kits.log_builder import SECOND, Story, digest

from bailiff_core.fold.keys import MAX_WAITING_NODES, log_keys
from bailiff_core.fold.registry import FOLDS
from bailiff_core.model.certificate import Certificate, RootKeyChange
from bailiff_core.model.state import EnrolledNode, PoolState, WaitingNode
from bailiff_core.records import LogKeys, facts

ROOT, NEXT, WRITER = "1" * 42 + "A", "2" * 42 + "A", "3" * 42 + "A"
DAY = 86_400 * SECOND
CHANGE = RootKeyChange(identity="0" * 64, key=NEXT, signature="5" * 85 + "A")


def request(name: str) -> facts.RequestId:
    return facts.RequestId(source="/bailiff/ops", id=name, digest=digest(name))


def key(number: int) -> str:
    return f"{number:042x}A"


def enrolled(story: Story, node: str, number: int) -> None:
    story.cycle(facts.NodeEnrolled(node=node, key=key(number), encryption_key=key(number + 1), by="certificate"))


def test_a_log_without_root_key_has_no_keys(story):
    assert log_keys(story.state) is None
    story.state.root_key, story.state.writer_key, story.state.writer_until = ROOT, WRITER, "2027-01-01T00:00:00Z"
    assert log_keys(story.state) == LogKeys(ROOT, WRITER, "2027-01-01T00:00:00Z", ())
    story.state.root_key, story.state.writer_key, story.state.writer_until = "", "", ""


def test_a_revoked_key_is_remembered_and_its_node_is_not_enrolled_any_more(story):
    enrolled(story, "n1", 10)
    enrolled(story, "n2", 20)
    story.cycle(facts.KeyRevoked(key=key(10), request=request("revoke-n1")))
    assert story.state.enrolled == {"n2": EnrolledNode(key(20), key(21))}
    story.cycle(facts.KeyRevoked(key=key(30), request=request("revoke-30")))
    assert list(story.state.revoked_keys) == [key(10), key(30)]
    story.cycle(facts.KeyRevoked(key=key(10), request=request("again")))
    assert list(story.state.revoked_keys) == [key(30), key(10)], "the newest is last"
    assert [seen.digest for seen in story.state.requests.values()] == [digest("revoke-n1"), digest("revoke-30"), digest("again")]


def test_a_changed_root_key_replaces_the_one_before_and_the_change_is_kept(story):
    story.cycle(facts.RootKeyChanged(change=CHANGE, request=request("first-change")))
    again = CHANGE.model_copy(update={"key": ROOT})
    story.cycle(facts.RootKeyChanged(change=again, request=request("change")))
    assert (story.state.root_key, story.state.root_key_changes) == (ROOT, [CHANGE, again])
    assert [seen.digest for seen in story.state.requests.values()] == [digest("first-change"), digest("change")]


def permitted(story: Story, node: str, *, until: int) -> None:
    story.cycle(facts.EnrolmentPermitted(request=request(f"permit-{node}-{until}"), node=node, key=key(1), expires=until))


def test_permits_last_until_they_expire_and_the_newest_of_a_name_counts(story):
    now = story.time
    permitted(story, "n1", until=now + SECOND)
    permitted(story, "n2", until=now + SECOND - 1)
    permitted(story, "n3", until=now + 5 * SECOND)
    permitted(story, "n3", until=now + 9 * SECOND)
    assert list(story.state.permits) == ["n1", "n2", "n3"]
    assert story.state.permits["n3"].expires == now + 9 * SECOND
    story.cycle(facts.ClockAdvanced(), after=SECOND)
    permitted(story, "n4", until=now + 9 * SECOND)
    assert list(story.state.permits) == ["n1", "n3", "n4"], "n1 is valid to the end of its last microsecond"
    assert story.state.permits["n4"].seq == story.state.last_fact
    assert len(story.state.requests) == 5


def test_nodes_that_wait_are_shown_newest_last_and_only_so_many_of_them(story):
    for number in range(MAX_WAITING_NODES):
        story.cycle(facts.NodeWaiting(node=f"n{number}", key=key(number)))
    assert len(story.state.waiting_nodes) == MAX_WAITING_NODES
    story.cycle(facts.NodeWaiting(node="n0", key=key(7)))
    assert list(story.state.waiting_nodes)[-2:] == [f"n{MAX_WAITING_NODES - 1}", "n0"]
    assert story.state.waiting_nodes["n0"] == WaitingNode(key(7), story.state.now)
    story.cycle(facts.NodeWaiting(node="one-more", key=key(8)))
    assert len(story.state.waiting_nodes) == MAX_WAITING_NODES == 100
    assert "n1" not in story.state.waiting_nodes, "the oldest is dropped"
    assert "n2" in story.state.waiting_nodes


def test_an_enrolled_node_does_not_wait_and_its_permit_is_used_up_if_it_was_needed(story):
    permitted(story, "n1", until=story.time + SECOND)
    permitted(story, "n2", until=story.time + SECOND)
    story.cycle(facts.NodeWaiting(node="n1", key=key(1)))
    story.cycle(facts.NodeWaiting(node="n3", key=key(3)))
    enrolled(story, "n2", 20)
    assert list(story.state.permits) == ["n1", "n2"], "its certificate was enough"
    seq = story.state.permits["n1"].seq
    story.cycle(facts.NodeEnrolled(node="n1", key=key(1), encryption_key=key(2), by="operator", permitted_by=seq))
    assert list(story.state.permits) == ["n2"]
    assert list(story.state.waiting_nodes) == ["n3"]
    assert story.state.enrolled["n1"] == EnrolledNode(key(1), key(2))


def test_in_a_log_without_root_key_the_certificate_of_a_writer_means_nothing():
    certificate = Certificate(key=WRITER, role="admission", name="w", not_before=0, expires=SECOND, signature="5" * 85 + "A")
    started = facts.WriterStarted(writer="w", release="0", digest="0", logic=1, state_schema=1, certificate=certificate)
    state = PoolState(pool="test")
    FOLDS[facts.WriterStarted](state, started)
    assert (state.writer_key, state.writer_until) == ("", "")
    state.root_key = ROOT
    FOLDS[facts.WriterStarted](state, started)
    assert (state.writer_key, state.writer_until) == (WRITER, "1970-01-01T00:00:01.000000Z")


def test_a_limit_of_devices_stays_with_the_name_until_an_operator_states_another(story):
    """Through enrolments by permit and by certificate, a revocation, permits that state none, and expired ones."""

    def permit(most: int | None, *, until: int = DAY) -> None:
        name = facts.RequestId(source="/bailiff/ops", id=f"permit-{story.state.seq}", digest=digest("x"))
        story.cycle(
            facts.EnrolmentPermitted(request=name, node="n1", key=key(1), expires=story.state.now + until, max_devices=most)
        )

    def enrol(number: int, by: int | None = None) -> None:
        how = "operator" if by is not None else "certificate"
        story.cycle(facts.NodeEnrolled(node="n1", key=key(number), encryption_key=key(2), by=how, permitted_by=by))

    state = story.state
    permit(4)
    assert state.device_limit("n1") == 4, "it counts at once"
    enrol(10, state.permits["n1"].seq)
    story.cycle(facts.KeyRevoked(key=key(10), request=request("revoke-10")))
    assert state.device_limit("n1") == 4
    permit_of("n2", story, until=-SECOND)
    enrol(11)
    assert (state.device_limit("n1"), state.device_limit("n2")) == (4, None)
    permit(None)
    enrol(12, state.permits["n1"].seq)
    assert state.device_limit("n1") == 4, "an operator who states no limit changes none"
    permit(8)
    assert state.device_limit("n1") == 8
    story.cycle(facts.KeyRevoked(key=key(12), request=request("revoke-12")))
    permit(8, until=-SECOND)
    permit_of("n3", story, until=SECOND)
    assert state.device_limit("n1") == 8, "an expired permit bounds the name as well"
    assert [name for name, each in state.permits.items() if each.expires >= state.now] == ["n3"]
    permit(64)
    assert state.device_limit("n1") == 64


def permit_of(node: str, story: Story, *, until: int) -> None:
    permitted(story, node, until=story.state.now + until)


def test_of_names_that_no_node_has_the_newest_limits_are_kept(monkeypatch):
    monkeypatch.setattr("bailiff_core.fold.keys.MAX_LIMITS", 3)
    state = PoolState(now=DAY, root_key=ROOT)

    def fold(fact: facts.EnrolmentPermitted | facts.NodeEnrolled | facts.KeyRevoked) -> None:
        state.seq += 1
        FOLDS[type(fact)](state, fact)

    def permit(node: str, until: int) -> None:
        about = {"node": node, "key": key(1), "expires": state.now + until, "max_devices": 4}
        fold(facts.EnrolmentPermitted(request=request(f"permit-{node}-{state.seq}"), **about))

    permit("open", DAY)
    fold(facts.NodeEnrolled(node="joined", key=key(10), encryption_key=key(11), by="certificate"))
    permit("joined", -SECOND)
    for number in range(6):
        permit(f"n{number}", -SECOND)
    permit("n3", -SECOND)
    assert list(state.permits) == ["open", "n4", "n5", "n3"]
    assert state.device_limit("joined") == 4, "what a node has is not among them"
    fold(facts.KeyRevoked(key=key(10), request=request("revoke-10")))
    assert list(state.permits) == ["open", "n5", "n3", "joined"]
