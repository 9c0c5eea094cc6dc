"""The exact search for equal tasks: what each more slot costs, part by part of the pool, and the cheapest mix.

A part is a set of nodes tied together by candidates that stand on several of them. Inside a part every sensible set of
victims is tried, once, and kept for later askers with the same need; over the parts the cheapest mix is put together
slot by slot, as one fills a knapsack. Where one slot more suffices, one node gains it, and every node is a part.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, nsmallest
from itertools import groupby

from bailiff_core.model.pool import Room
from bailiff_core.model.room import more
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.need import Need
from bailiff_core.placement.rooms import NodeRoom, Rooms, slots_for

from .candidates import Chain, Field, Step

MIXES_PER_STEP = 50
SETS_PER_STEP = 16
SETS_PER_PART = 3_000


Key = tuple[int, int, tuple[tuple[int, str, int], ...]]  # weight, how many steps, who they are: the youngest first


@dataclass(slots=True)
class Option:
    """Evicting these steps of one part gains so many slots. `key` sorts the cheapest first, ties included."""

    gain: int
    key: Key
    steps: tuple[Step, ...]


@dataclass(slots=True)
class Part:
    """Nodes that can be looked at by themselves. options: by rising gain and cost; `None`: too many sets to try."""

    nodes: list[NodeRoom]
    names: dict[str, None] = field(default_factory=dict)
    slots: int = 0
    options: list[Option] | None = None
    known: bool = False


@dataclass(slots=True)
class _Rung:
    """Steps that go together: what that frees of which nodes, by their place in the part."""

    steps: tuple[Step, ...]
    weight: int
    frees: list[tuple[int, Room]]
    nodes: list[int]


class Slots:
    """What evicting costs for tasks of one need. `single`: every node is a part of its own. suited: only these nodes."""

    def __init__(
        self, rooms: Rooms, need: Need, candidates: Field, *, single: bool, suited: dict[NodeRoom, int] | None = None
    ) -> None:
        self.rooms = rooms
        self.need = need
        self.candidates = candidates
        self.single = single
        self.suited = dict(rooms.suited(need)) if suited is None else suited
        self.parts = self._parts()
        self._part_of = {node.number: at for at, part in enumerate(self.parts) for node in part.nodes}
        self._queue: list[tuple[Key, int, int, bool]] = []  # for one slot: the cheapest part first, by its bound or for certain
        self._version = [0] * len(self.parts)
        for at, part in enumerate(self.parts):
            part.slots = sum(self._count(node) for node in part.nodes)
            if single:
                self._enqueue(at)
        self.free = sum(part.slots for part in self.parts)

    def touch(self, nodes: Iterable[int]) -> None:
        """These nodes changed for good."""
        for at in dict.fromkeys(self._part_of[number] for number in nodes if number in self._part_of):
            part = self.parts[at]
            part.known = False
            before, part.slots = part.slots, sum(self._count(node) for node in part.nodes)
            self.free += part.slots - before
            if self.single:
                self._enqueue(at)

    def cheapest(self, short: int, budget: Budget, without: Step | None = None) -> tuple[list[Step] | None, bool]:
        """The cheapest set that gains `short` slots, or `None`; and whether that is certain. `without`: this step stays."""
        if self.single and short == 1:
            return self._one_more(budget, without)
        found: list[list[Option]] = []
        gains = 0
        for part in self.parts:
            if without is not None and without.job.id in part.names:
                options = self._search(part, budget, without)
            else:
                options = part.options if part.known else self.options(part, budget)
            if options is None:
                return None, False
            if options:
                found.append(options)
                gains += options[-1].gain
        return (None, True) if gains < short else _mix(found, short, budget)

    def _one_more(self, budget: Budget, without: Step | None) -> tuple[list[Step] | None, bool]:
        """One slot more: the cheapest of all nodes, of which only those are searched that may be it."""
        best: Option | None = None
        aside: list[tuple[Key, int, int, bool]] = []
        while self._queue and (best is None or self._queue[0][0] < best.key):
            key, at, version, sure = heappop(self._queue)
            part = self.parts[at]
            if version != self._version[at]:
                continue
            if not sure:
                options = self.options(part, budget)
                if options is None:
                    heappush(self._queue, (key, at, version, sure))
                    for entry in aside:
                        heappush(self._queue, entry)
                    return None, False
                if options:
                    heappush(self._queue, (options[0].key, at, version, True))
                continue
            aside.append((key, at, version, sure))
            if without is None or without.job.id not in part.names:
                best = part.options[0] if part.options else None
                break
            options = self._search(part, budget, without)
            if options is None:
                best = None
                break
            if options and (best is None or options[0].key < best.key):
                best = options[0]
        for entry in aside:
            heappush(self._queue, entry)
        return (None if best is None else list(best.steps)), True

    def _enqueue(self, at: int) -> None:
        self._version[at] += 1
        bound = self._bound(self.parts[at])
        if bound is not None:
            heappush(self._queue, ((bound, 0, ()), at, self._version[at], False))

    def _bound(self, part: Part) -> int | None:
        """Less than this weight gains no slot on the node; `None`: nothing does."""
        weights: list[int] = []
        most = 1
        for name in part.names:
            for step in self.candidates.chains.get(name, ()):
                weights.append(step.weight)
                for node, room in self.rooms.standing(step.unit):
                    if node is part.nodes[0]:
                        most = max(most, room.devices.bit_count() + len(room.shares))
        if not weights:
            return None
        if not self.need.gpus:
            return min(weights)
        node = part.nodes[0]
        lacking = self.need.gpus * (part.slots + 1) - (node.later.devices & self.suited[node]).bit_count()
        weights.sort()
        return sum(weights[: max(1, -(-lacking // most))])

    def options(self, part: Part, budget: Budget) -> list[Option] | None:
        """The part's options, found once."""
        if not part.known:
            part.options, part.known = self._search(part, budget, None), True
        return part.options

    def _count(self, node: NodeRoom) -> int:
        return slots_for(self.need, node, node.later, self.suited[node])

    def _parts(self) -> list[Part]:
        """Candidates that share a node that matters, directly or through others, belong together."""
        root: dict[int, int] = {node.number: node.number for node in self.suited}

        def find(number: int) -> int:
            while root[number] != number:
                root[number] = number = root[root[number]]
            return number

        stands_on: dict[str, list[int]] = {}
        for name, chain in self.candidates.chains.items():
            here: dict[int, None] = {}
            for step in chain:
                for node, _ in self.rooms.standing(step.unit):
                    if node in self.suited:
                        here[node.number] = None
            numbers = stands_on[name] = list(here)
            if not self.single:
                for number in numbers[1:]:
                    root[find(number)] = find(numbers[0])
        parts: dict[int, Part] = {}
        for node in self.suited:
            parts.setdefault(find(node.number), Part([])).nodes.append(node)
        for name, numbers in stands_on.items():
            for number in numbers:
                parts[find(number)].names[name] = None
        return list(parts.values())

    def _search(self, part: Part, budget: Budget, without: Step | None) -> list[Option] | None:
        """What evicting sets of the part's steps gains, without those that another set beats; `None`: too many to try."""
        nodes, place = part.nodes, {node: at for at, node in enumerate(part.nodes)}
        ladders = [[self._rung(steps, place) for steps in ladder] for ladder in self._ladders(part, place, without)]
        if not ladders:
            return []
        free = [node.later for node in nodes]  # of each node, as those leave who are chosen
        counts = [self._count(node) for node in nodes]

        def leave(rung: _Rung) -> int:
            for at, amount in rung.frees:
                free[at] = more(free[at], amount, nodes[at].units, nodes[at].usable)
            gained = 0
            for at in rung.nodes:
                before, counts[at] = counts[at], slots_for(self.need, nodes[at], free[at], self.suited[nodes[at]])
                gained += counts[at] - before
            return gained

        most = -1
        if len(ladders) > 1:
            before = free[:], counts[:]
            most = sum(leave(rung) for ladder in ladders for rung in ladder)
            if not most:
                return []
            free[:], counts[:] = before
        tries: list[Option] = []
        limit: list[int | None] = [None]  # the lightest weight at which the most is gained
        allowed = min(SETS_PER_PART, budget.left * SETS_PER_STEP)

        def walk(at: int, gain: int, weight: int, chosen: tuple[Step, ...]) -> bool:
            for number in range(at, len(ladders)):
                before = free[:], counts[:]
                gained, heavier, gone = gain, weight, chosen
                for rung in ladders[number]:
                    heavier += rung.weight
                    if limit[0] is not None and heavier > limit[0]:
                        break
                    gained += leave(rung)
                    gone = (*gone, *rung.steps)
                    tries.append(Option(gained, (heavier, len(gone), ()), gone))
                    if len(tries) > allowed:
                        return False
                    if gained == most:
                        limit[0] = heavier if limit[0] is None else min(limit[0], heavier)
                        break
                    if not walk(number + 1, gained, heavier, gone):
                        return False
                free[:], counts[:] = before
            return True

        if not walk(0, 0, 0, ()) or not budget.spend(len(tries) // SETS_PER_STEP):
            return None
        return _best_of(tries)

    def _rung(self, steps: tuple[Step, ...], place: dict[NodeRoom, int]) -> "_Rung":
        standing = [self.rooms.standing(step.unit) for step in steps]
        frees = [(place[node], amount) for each in standing for node, amount in each if node in place]
        return _Rung(steps, sum([step.weight for step in steps]), frees, list(dict.fromkeys([at for at, _ in frees])))

    def _ladders(self, part: Part, here: Container[NodeRoom], without: Step | None) -> list[list[tuple[Step, ...]]]:
        """Steps that can only sensibly go in one order: a job's own, and of jobs that free the same room the cheapest first."""
        alike: dict[object, list[Step]] = {}
        ladders: list[list[tuple[Step, ...]]] = []
        for name in part.names:
            chain = self.candidates.chains.get(name)
            if chain is None:
                continue
            if len(chain) == 1:
                if chain[0] is not without:
                    alike.setdefault(self._footprint(chain[0], here), []).append(chain[0])
                continue
            rungs = self._rungs(chain, here, without)
            if rungs:
                ladders.append(rungs)
        for same in alike.values():
            same.sort(key=lambda step: (step.weight, step.young))
            ladders.append([(step,) for step in same])
        return ladders

    def _rungs(self, chain: Chain, here: Container[NodeRoom], without: Step | None) -> list[tuple[Step, ...]]:
        rungs: list[tuple[Step, ...]] = []
        waiting: list[Step] = []
        for step in chain:
            if step is without:
                break
            waiting.append(step)
            if any(node in here for node, _ in self.rooms.standing(step.unit)):
                rungs.append(tuple(waiting))
                waiting = []
        return rungs

    def _footprint(self, step: Step, here: Container[NodeRoom]) -> object:
        """Where and how much room its eviction frees, as far as it matters to the need."""
        print_ = []
        for node, room in self.rooms.standing(step.unit):
            if node in here:
                devices = (room.devices & self.suited[node]).bit_count()
                shares = tuple(sorted(room.shares.items()))
                print_.append((node.number, devices, room.cpu_milli, room.memory_bytes, room.slots, shares))
        return tuple(sorted(print_))


Kept = dict[tuple[int, Need, bool], Slots]


def slots_of(kept: Kept, rooms: Rooms, need: Need, candidates: Field, wanted: int) -> tuple[Slots, int]:
    """What is known about the need, and how many slots are lacking for so many tasks. `kept` is filled as one asks."""
    known = kept.get((id(candidates), need, True)) or kept.get((id(candidates), need, False))
    if known is not None:
        short = wanted - known.free
    else:
        short = wanted - sum(slots_for(need, node, node.later, suited) for node, suited in rooms.suited(need))
    key = (id(candidates), need, short == 1)
    if key not in kept:
        kept[key] = Slots(rooms, need, candidates, single=short == 1)
    return kept[key], short


def _best_of(tries: list[Option]) -> list[Option]:
    """Those that no other set beats: cheaper and as good."""
    found: list[Option] = []
    most = 0
    tries.sort(key=_cost)
    for _, same in groupby(tries, key=_cost):
        better = [option for option in same if option.gain > most]
        for option in better:
            option.key = (*option.key[:2], tuple(sorted([step.young for step in option.steps])))
        better.sort(key=lambda option: option.key)
        for option in better:
            if option.gain > most:
                found.append(option)
                most = option.gain
    return found


def _cost(option: Option) -> Key:
    """While it is tried, without who its steps are."""
    return option.key


def _mix(parts: list[list[Option]], short: int, budget: Budget) -> tuple[list[Step] | None, bool]:
    parts = _that_matter(parts, short)
    if sum(options[-1].gain for options in parts) == short:
        return [step for options in parts for step in options[-1].steps], True
    if all(len(options) == 1 and options[0].gain == 1 for options in parts):
        singles = sorted((options[0] for options in parts), key=lambda option: option.key)
        return [step for option in singles[:short] for step in option.steps], True
    marginals = _marginals(parts)
    if marginals is not None:
        marginals.sort(key=lambda entry: entry[0])
        return [step for _, steps in marginals[:short] for step in steps], True
    return _knapsack(parts, short, budget)


def _that_matter(parts: list[list[Option]], short: int) -> list[list[Option]]:
    """At most `short` parts are used. For each gain, a part beaten by so many others is not one of them."""
    if len(parts) <= short:
        return parts
    most = min(short, max(options[-1].gain for options in parts))
    able: list[list[tuple[Key, int]]] = [[] for _ in range(most)]
    for at, options in enumerate(parts):
        enough = 0  # for so many slots the options before are
        for option in options:
            for gain in range(enough, min(option.gain, most)):
                able[gain].append((option.key, at))
            enough = option.gain
    kept = {at: None for some in able for _, at in nsmallest(short, some)}
    return [parts[at] for at in sorted(kept)]


def _marginals(parts: list[list[Option]]) -> list[tuple[Key, tuple[Step, ...]]] | None:
    """Slots one by one, where each costs a part at least as much as the one before: then the cheapest are the best mix."""
    found = []
    for options in parts:
        before: tuple[Step, ...] = ()
        last = None
        for number, option in enumerate(options, start=1):
            if option.gain != number or option.steps[: len(before)] != before:
                return None
            steps = option.steps[len(before) :]
            key = (sum(step.weight for step in steps), len(steps), tuple(sorted(step.young for step in steps)))
            if last is not None and key < last:
                return None
            found.append((key, steps))
            before, last = option.steps, key
    return found


def _knapsack(parts: list[list[Option]], short: int, budget: Budget) -> tuple[list[Step] | None, bool]:
    """Best mix by slots gained, part after part. One step is so many mixes compared."""
    weights = sharpened([step for options in parts for option in options for step in option.steps])
    best: list[tuple[int, object] | None] = [(0, None)] + [None] * short
    for options in parts:
        if not budget.spend(1 + len(options) * short // MIXES_PER_STEP):
            return None, False
        before = list(best)
        for option in options:
            weight = sum(weights[step] for step in option.steps)
            for gained in range(1, short + 1):
                base = before[gained - option.gain] if gained > option.gain else before[0]
                if base is None:
                    break  # more slots are never easier
                known = best[gained]
                if known is None or base[0] + weight < known[0]:
                    best[gained] = (base[0] + weight, (base[1], option))
    found = best[short]
    if found is None:
        return None, True
    steps: list[Step] = []
    link = found[1]
    while link is not None:
        link, option = link  # type: ignore[misc]
        steps += option.steps
    return steps, True


def sharpened(steps: Sequence[Step]) -> dict[Step, int]:
    """Weights that no two sets of these steps have in common: equal ones differ by who is younger."""
    order = sorted(dict.fromkeys(steps), key=lambda step: step.young, reverse=True)  # the oldest first
    size = len(order)
    # Of sets of equal size the sum is least for the youngest members, and fewer are always less.
    return {step: (step.weight * (size + 1) << size) + (1 << size) - (1 << rank) for rank, step in enumerate(order)}
