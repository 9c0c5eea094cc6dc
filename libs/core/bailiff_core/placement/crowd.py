"""Places several units together, whatever they need and whoever must stand with whom: task by task over all choices.

A state that was found hopeless is not looked at again: what matters of it is which rooms look how, and where those who
must stand together have begun to.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bailiff_core.model.places import bits
from bailiff_core.model.units import Unit

from .budget import Budget
from .descent import descend
from .devices import device_choices, kind_of
from .domains import Key, key_of
from .gang import GangPlace, TaskPlace
from .need import Need, needs_of_unit
from .packing import Where
from .parts import Part, parts_of, topology_problem
from .rooms import NodeRoom, Rooms, slots_for
from .solve import hardest_first

Standing = tuple[NodeRoom, int]  # where a member stands, and a mask of its devices


@dataclass(frozen=True, slots=True)
class _Member:
    """One task of one of the units. bonds: numbers of the groups that it must stand together with."""

    unit: int
    index: int
    need: Need
    bonds: tuple[int, ...]


def place_crowd(rooms: Rooms, units: Sequence[Unit], budget: Budget) -> list[GangPlace] | Literal["impossible", "gave-up"]:
    """A promised place for each of the units; `rooms` stays as it was."""
    if any(topology_problem(unit.job.demand, rooms.policy) is not None for unit in units):
        return "impossible"
    mark = rooms.mark()
    crowd = _Crowd(rooms, units, budget)
    found = crowd.search()
    rooms.rollback(mark)
    if isinstance(found, str):
        return found
    places: list[list[TaskPlace]] = [[] for _ in units]
    for member, (node, mask) in zip(crowd.members, found, strict=True):
        places[member.unit].append(TaskPlace(member.index, node.number, mask))
    return [GangPlace(tuple(sorted(tasks, key=lambda task: task.index)), later=True) for tasks in places]


class _Crowd:
    """One search. fixed: by bond, the domain in which its members stand so far; its levels are in `levels`."""

    def __init__(self, rooms: Rooms, units: Sequence[Unit], budget: Budget) -> None:
        self.rooms = rooms
        self.budget = budget
        self.levels: list[tuple[str, ...]] = []
        self.fixed: list[Key | None] = []
        self.torn = False  # members that run already stand apart
        self.members: list[_Member] = []
        for number, unit in enumerate(units):
            bonds: dict[int, tuple[int, ...]] = {}
            self._bind(parts_of(unit, rooms.policy), (), bonds)
            for need, indices in needs_of_unit(unit).items():
                self.members += [_Member(number, index, need, bonds.get(index, ())) for index in indices]
        self.members.sort(key=lambda member: (not member.bonds, *hardest_first(member.need), member.unit, member.index))
        self.needs = list(dict.fromkeys(member.need for member in self.members))
        self.suited = {need: dict(rooms.suited(need)) for need in self.needs}
        self.nodes = list(dict.fromkeys(node for need in self.needs for node in self.suited[need]))
        self.still = {node: self._looks(node) for node in self.nodes}  # as long as nobody of the crowd stands there
        self.alike: dict[object, list[NodeRoom]] = {}
        for node in self.nodes:
            self.alike.setdefault(self.still[node], []).append(node)
        self.room = {need: {node: self._slots(need, node) for node in self.suited[need]} for need in self.needs}
        self.total = {need: sum(slots.values()) for need, slots in self.room.items()}
        self.left: list[dict[Need, int]] = [{}]  # by how many members are to come: what they need
        self.open: list[dict[int, None]] = [{}]  # ... and which bonds they have
        for member in reversed(self.members):
            self.left.append({**self.left[-1], member.need: self.left[-1].get(member.need, 0) + 1})
            self.open.append({**self.open[-1], **dict.fromkeys(member.bonds)})
        self.left.reverse()
        self.open.reverse()
        self.touched: dict[NodeRoom, int] = {}

    def _bind(self, part: Part, around: tuple[int, ...], bonds: dict[int, tuple[int, ...]]) -> None:
        rule = part.rule
        if rule is not None and rule.required is not None:
            levels = rule.levels[: rule.required + 1]
            here = dict.fromkeys(key_of(self.rooms.labels[node], levels) for node in part.standing if node in self.rooms.labels)
            self.torn = self.torn or len(here) > 1 or any(len(key) < len(levels) for key in here)
            around = (*around, len(self.levels))
            self.levels.append(levels)
            self.fixed.append(next(iter(here), None))
        for indices in part.needs.values():
            bonds.update((index, around) for index in indices)
        for inner in part.parts:
            self._bind(inner, around, bonds)

    def search(self) -> list[Standing] | Literal["impossible", "gave-up"]:
        """Node and devices of every member, in their order."""
        if self.torn:
            return "impossible"
        hopeless: dict[object, None] = {}

        def choices(stood: Sequence[Standing]) -> Iterator[Standing] | None:
            key = self._key(len(stood))
            if key in hopeless or not self._may_fit(len(stood)):
                return None
            return self._tried(self.members[len(stood)], key, hopeless)

        def take(level: int, choice: Standing) -> Standing:
            node, mask = choice
            self.rooms.take(node, self.members[level].need.amount(node.units, mask), later=True)
            return choice

        where = Where(within=self.nodes)
        return descend(self.rooms, where, self.budget, len(self.members), choices, take) if self.members else []

    def _tried(self, member: _Member, key: object, hopeless: dict[object, None]) -> Iterator[Standing]:
        """Each choice for the member, as long as it is tried in `fixed` and `touched`, too. If all fail, `key` is hopeless."""
        for node, mask in self._choices(member):
            before = [(bond, self.fixed[bond]) for bond in member.bonds]
            for bond in member.bonds:
                self.fixed[bond] = key_of(node.labels, self.levels[bond])
            self.touched[node] = self.touched.get(node, 0) + 1
            yield node, mask
            for bond, domain in before:
                self.fixed[bond] = domain
            self.touched[node] -= 1
            if not self.touched[node]:
                del self.touched[node]
        hopeless[key] = None

    def _choices(self, member: _Member) -> Iterator[Standing]:
        """Nodes and devices for the next member, one of each that make no difference: nodes that somebody stands on first."""
        suited = self.suited[member.need]
        seen: dict[object, None] = {}
        for node in list(self.touched):
            look = (self.still[node], self._looks(node))
            if look not in seen and node in suited and self._in_domain(member, node):
                seen[look] = None
                yield from self._on(member, node, suited[node])
        for alike in self.alike.values():
            fresh = next((node for node in alike if node not in self.touched), None)
            if fresh is not None and fresh in suited and self._in_domain(member, fresh):
                yield from self._on(member, fresh, suited[fresh])

    def _on(self, member: _Member, node: NodeRoom, devices: int) -> Iterator[Standing]:
        if self._slots(member.need, node):
            for mask in device_choices(member.need, node, devices, later=True):
                yield node, mask

    def _in_domain(self, member: _Member, node: NodeRoom) -> bool:
        for bond in member.bonds:
            key = key_of(node.labels, self.levels[bond])
            if len(key) < len(self.levels[bond]) or self.fixed[bond] not in (None, key):
                return False
        return True

    def _may_fit(self, at: int) -> bool:
        """Whether those to come find room, need by need, nobody else asking."""
        for need, count in self.left[at].items():
            room = self.room[need]
            gone = sum(room[node] - self._slots(need, node) for node in self.touched if node in room)
            if self.total[need] - gone < count:
                return False
        return True

    def _slots(self, need: Need, node: NodeRoom) -> int:
        return slots_for(need, node, node.later, self.suited[need][node])

    def _key(self, at: int) -> object:
        """Equal for states in which those to come have the same choices."""
        rooms = sorted(repr((self.still[node], self._looks(node))) for node in self.touched)
        return at, tuple(rooms), tuple((bond, self.fixed[bond]) for bond in self.open[at])

    def _looks(self, node: NodeRoom) -> object:
        """Equal for nodes between which nobody of the crowd can tell."""
        admits = tuple(node in self.suited[need] for need in self.needs)
        domains = tuple(key_of(node.labels, levels) for levels in dict.fromkeys(self.levels))
        kinds = tuple(sorted(kind_of(node, number, later=True) for number in bits(node.usable)))
        return admits, domains, node.later.cpu_milli, node.later.memory_bytes, node.later.slots, kinds
