"""Who owns each partition of a group's topic, and who stands by to take it over: two readers of each, however many members."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class Assigned(NamedTuple):
    """Partitions of one member: those it owns, and those it follows so that it can take them over at once."""

    owned: frozenset[int] = frozenset()
    standby: frozenset[int] = frozenset()

    def to_bytes(self) -> bytes:
        """JSON for the group's protocol."""
        return json.dumps({"owned": sorted(self.owned), "standby": sorted(self.standby)}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Assigned":
        """What `to_bytes` wrote. Nothing, for a member that had nothing yet, speaks another protocol, or sent nonsense."""
        try:
            fields = json.loads(data)
            return cls(frozenset(map(int, fields["owned"])), frozenset(map(int, fields["standby"])))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return cls()


def assign(partitions: Collection[int], before: Mapping[str, Assigned]) -> dict[str, Assigned]:
    """One owner and, with two members or more, one standby for each partition.

    before: by member, what it had. An owner keeps what it has, and a standby takes over from an owner that is gone, as far as
    nobody then owns two partitions more than another. No member stands by for what it owns.
    """
    owners = _spread(
        partitions, before, {p: [*_having(p, before, "owned"), *_having(p, before, "standby")] for p in partitions}, {}
    )
    standbys: dict[int, str] = {}
    if len(before) > 1:
        wishes = {p: [*_having(p, before, "standby"), *_having(p, before, "owned")] for p in partitions}
        standbys = _spread(partitions, before, wishes, owners)
    return {
        name: Assigned(
            frozenset(p for p, owner in owners.items() if owner == name),
            frozenset(p for p, other in standbys.items() if other == name),
        )
        for name in before
    }


def _having(partition: int, before: Mapping[str, Assigned], what: str) -> list[str]:
    return sorted(name for name, had in before.items() if partition in getattr(had, what))


def _spread(
    partitions: Collection[int], members: Collection[str], wishes: Mapping[int, Sequence[str]], barred: Mapping[int, str]
) -> dict[int, str]:
    """A member for each partition: the first that wishes for it and has room, else the one with the fewest."""
    least, more = divmod(len(partitions), len(members))
    found, load = dict[int, str](), Counter(dict.fromkeys(members, 0))
    for room in (least, least + 1):
        for partition in sorted(partitions):
            for name in wishes[partition]:
                if partition in found or name == barred.get(partition) or load[name] >= room or (room > least and not more):
                    continue
                found[partition] = name
                load[name] += 1
                more -= room > least
    for partition in sorted(set(partitions) - set(found)):
        free = [name for name in members if name != barred.get(partition)]
        found[partition] = min(free, key=lambda name: (load[name], name))
        load[found[partition]] += 1
    return found
