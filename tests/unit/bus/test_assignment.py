"""Which replica owns each pool and which stands by, before and after replicas come and go."""

from hypothesis import given
from hypothesis import strategies as st

from bailiff_bus.assignment import Assigned, assign

NAMES = st.sets(st.sampled_from("abcdef"), min_size=1)
INFINITE = b'{"owned": [1e999], "standby": []}'
PARTITIONS = st.integers(0, 9).map(range)


def owners(found: dict[str, Assigned]) -> dict[int, str]:
    return {partition: name for name, assigned in found.items() for partition in assigned.owned}


def standbys(found: dict[str, Assigned]) -> dict[int, str]:
    return {partition: name for name, assigned in found.items() for partition in assigned.standby}


def joining(names: set[str], before: dict[str, Assigned]) -> dict[str, Assigned]:
    return {name: before.get(name, Assigned()) for name in names}


@given(PARTITIONS, st.lists(NAMES, min_size=1, max_size=5))
def test_each_partition_has_one_owner_and_one_other_standby_and_owners_are_balanced(
    partitions: range, changes: list[set[str]]
) -> None:
    found: dict[str, Assigned] = {}
    for names in changes:
        found = assign(partitions, joining(names, found))
        assert set(found) == names
        assert sorted(p for each in found.values() for p in each.owned) == list(partitions)
        assert sorted(p for each in found.values() for p in each.standby) == (list(partitions) if len(names) > 1 else [])
        assert not any(each.owned & each.standby for each in found.values())
        loads = [len(each.owned) for each in found.values()]
        assert max(loads) - min(loads) <= 1


@given(
    PARTITIONS,
    st.dictionaries(
        st.sampled_from("abc"),
        st.builds(Assigned, st.frozensets(st.integers(0, 12)), st.frozensets(st.integers(0, 12))),
        min_size=1,
    ),
)
def test_whatever_members_claim_each_partition_has_one_owner(partitions: range, claims: dict[str, Assigned]) -> None:
    found = assign(partitions, claims)
    assert sorted(p for each in found.values() for p in each.owned) == list(partitions)


def test_nothing_moves_while_the_members_stay() -> None:
    found = assign(range(5), joining({"a", "b", "c"}, {}))
    assert assign(range(5), found) == found


def test_an_owner_that_is_gone_is_followed_by_its_standby() -> None:
    before = assign(range(4), joining({"a", "b", "c", "d"}, {}))
    after = assign(range(4), joining({"a", "b", "c"}, before))
    (lost,) = before["d"].owned
    assert owners(after)[lost] == standbys(before)[lost]
    assert {p: name for p, name in owners(after).items() if p != lost} == {
        p: name for p, name in owners(before).items() if p != lost
    }


def test_one_member_alone_owns_all_and_a_second_takes_half() -> None:
    alone = assign(range(4), {"a": Assigned()})
    assert alone == {"a": Assigned(frozenset(range(4)))}
    both = assign(range(4), joining({"a", "b"}, alone))
    assert [len(each.owned) for each in both.values()] == [2, 2]
    assert both["a"].owned == both["b"].standby
    assert both["b"].owned == both["a"].standby


def test_what_a_member_says_that_speaks_another_protocol_counts_as_nothing() -> None:
    for data in (b"", b"{}", b"[1]", b'{"owned": 1, "standby": []}', b"\xff", INFINITE, b"[" * 100_000):
        assert Assigned.from_bytes(data) == Assigned()
    had = Assigned(frozenset({2}), frozenset({0, 1}))
    assert Assigned.from_bytes(had.to_bytes()) == had
