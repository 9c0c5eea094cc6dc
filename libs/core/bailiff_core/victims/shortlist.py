"""The search on large pools: a few nodes are looked at, and the others are shown to hold nothing cheaper.

For every node there is a least price of each number of slots: GPUs of the lowest classes first, and of each class those
whose work began last. The nodes that may be cheapest are searched exactly. What they offer is enough where, for every
number of slots, as many of them as slots are wanted offer it at no more than the least price of any node left out: a
set that used one of those could use one of these instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bailiff_core.model.policy import PreemptionRules, Verb
from bailiff_core.model.units import Unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.holdings import Holdings, Ints, Level
from bailiff_core.placement.need import Need
from bailiff_core.placement.rooms import NodeRoom, Rooms, slots_for
from bailiff_core.placement.tally import tally_of
from bailiff_core.scene import Scene

from .candidates import Board, Field, Step
from .fit import slot_need
from .nearest import what_few_would_take
from .objective import Price, Scale
from .slots import Option, Slots
from .terms import Terms

WORTH_IT = 200  # with fewer jobs that hold room, all of them are looked at
FIRST_LOOK = 8
MOST_GAINS = 16
LARGEST = 1 << 62

SOME = 1 << 7  # more than the jobs or tasks with GPUs that one node loses at once
YOUTH = 40  # bits of a record's position

Suited = dict[NodeRoom, int]
Flags = NDArray[np.bool_]
Least = tuple[int, int, int]  # weight, how few jobs, and the youngest that might be taken


class _Column:
    """One class: what belongs to so many GPUs of a node is at its `first` + these."""

    def __init__(self, level: Level, rows: Ints, now: int, rules: PreemptionRules) -> None:
        width = level.least.shape[1]
        self.gpus: Ints = level.gpus[rows]
        self.least, self.jobs, self.tasks = level.least.reshape(-1), level.jobs_for.reshape(-1), level.tasks_for.reshape(-1)
        self.first: Ints = rows * width
        lost = np.zeros((len(level.gpus), width), np.int64)
        held = np.subtract(now, level.since, out=lost[:, 1:])
        np.clip(held, 0, rules.max_counted_loss, out=held)
        held += rules.restart_cost
        held //= 1_000  # rounded down per GPU, so never more than what a job's loss rounds to
        self.lost: Ints = np.cumsum(lost, axis=1, out=lost).reshape(-1)


@dataclass(slots=True)
class Rates:
    """Least prices of so many slots more on each node: GPUs by class, then work lost, as one number (`LARGEST`: impossible).

    taken: how many GPUs of each class. whole: nodes whose jobs go whole or not at all. breaks: those that may be left broken.
    """

    prices: Ints
    unit: int
    shift: int
    taken: list[tuple[_Column, Ints]]
    whole: Flags
    breaks: Flags
    age: Ints

    def tails(self, places: Ints) -> Ints:
        """What follows after the price on these nodes: how few jobs and tasks, left how broken, the youngest first."""
        jobs, tasks = (np.zeros(len(places), np.int64) for _ in range(2))
        for column, part in self.taken:
            at = column.first[places] + part[places]
            jobs += column.jobs.take(at)
            tasks += column.tasks.take(at)
        jobs *= self.whole[places]
        broken = jobs * self.breaks[places]  # each job that leaves others behind leaves it broken
        tails: Ints = ((((jobs * SOME) + tasks) * SOME + broken) << YOUTH) + self.age[places]
        return tails


class Shortlist:
    """Nodes on which tasks of one need may stand, for an asker to whom only these priorities yield."""

    def __init__(self, holdings: Holdings, rooms: Rooms, need: Need, priorities: list[int]) -> None:
        self.need = need
        self.priorities = priorities
        tally = tally_of(rooms, need)
        self.suited, self.rows, self.free, self.place_of = tally.suited, tally.rows, tally.free, tally.place_of
        self.slots: Ints = np.zeros(len(self.rows), np.int64)
        for at in np.flatnonzero(self.free >= need.gpus).tolist():
            node, devices = self.suited[at]
            self.slots[at] = slots_for(need, node, node.later, devices)
        self._all_gpus = holdings.all_gpus[self.rows]
        self._levels = [holdings.levels[priority] for priority in priorities]
        self._largest = np.zeros(len(self.rows), np.int64)
        for level in self._levels:
            self._largest = np.maximum(self._largest, level.largest[self.rows])
        self._nothing = sum((level.for_nothing[self.rows] for level in self._levels), np.zeros(len(self.rows), np.int64))
        self._widest = max(int((self.free + self._nothing).max(initial=0)), holdings.widest)
        self._devices = tally.devices
        going = sum((level.gpus[self.rows] for level in self._levels), self.free + self._nothing)
        self._attainable = np.minimum(going, self._devices)

    def most_gains(self, short: int) -> int:
        """The most slots that one node may gain, as far as that matters."""
        return min(short, self._widest // self.need.gpus)

    def most_slots(self) -> int:
        """More than so many slots there are not, whoever of these priorities leaves."""
        return int((self._attainable // self.need.gpus).sum())

    def nearest(self, wanted: int) -> Suited:
        """Nodes with so many slots in all that lack the fewest GPUs for them when all of these priorities have left."""
        gpus = self.need.gpus
        costs, places = [], []
        for slot in range(1, int(self._devices.max(initial=0)) // gpus + 1):
            able = np.flatnonzero(self._devices >= slot * gpus)
            costs.append(np.clip(slot * gpus - self._attainable[able], 0, gpus))
            places.append(able)
        if not places:
            return {}
        order = np.argsort(np.concatenate(costs), kind="stable")[:wanted]
        return dict(self.suited[at] for at in sorted(dict.fromkeys(np.concatenate(places)[order].tolist())))

    def rates(self, most: int, now: int, rules: PreemptionRules) -> list[Rates] | None:
        """The least prices of 1, 2, ... `most` slots more. `None`: there are too many classes."""
        columns = [_Column(level, self.rows, now, rules) for level in self._levels]
        shrinks = np.zeros(len(self.rows), bool)
        youngest = np.zeros(len(self.rows), np.int64)
        for level in self._levels:
            shrinks |= level.shrinks[self.rows] > 0
            youngest = np.maximum(youngest, level.youngest[self.rows])
        age = (1 << YOUTH) - 1 - np.minimum(youngest, (1 << YOUTH) - 1)
        breaks: Flags = self._all_gpus > self._largest
        found = []
        for gained in range(1, most + 1):
            rates = self._rates(gained, columns, ~shrinks, breaks, age)
            if rates is None:
                return None
            found.append(rates)
        return found

    def _rates(self, gained: int, columns: list[_Column], whole: Flags, breaks: Flags, age: Ints) -> Rates | None:
        missing = np.maximum(0, (self.slots + gained) * self.need.gpus - self.free - self._nothing)
        count = len(self.rows)
        lost = np.zeros(count, np.int64)
        taken: list[tuple[_Column, Ints]] = []
        below = sum((column.gpus for column in columns), np.zeros(count, np.int64))
        impossible = below < missing
        for column in reversed(columns):
            below = below - column.gpus  # the highest class gives as little as those below it leave to it
            part = column.least.take(column.first + np.minimum(np.maximum(missing - below, 0), column.gpus))
            taken.append((column, part))
            if part.any():
                missing = np.maximum(0, missing - part)
                lost += column.lost.take(column.first + part)
        most, shift = int(lost.max(initial=0)), 0
        while (self._widest + 1) ** len(taken) * ((most >> shift) + 1) >= LARGEST:
            shift += 1
            if not most >> shift:
                return None
        prices = np.zeros(count, np.int64)
        for _, part in taken:  # the highest class counts most
            prices = prices * (self._widest + 1) + part
        unit = (most >> shift) + 1
        prices = np.where(impossible, LARGEST, prices * unit + (lost >> shift))
        return Rates(prices, unit, shift, taken, whole, breaks, age)

    def first(self, size: int, rates: list[Rates]) -> Suited:
        """The `size` nodes that may be cheapest for each number of slots."""
        chosen: dict[int, None] = {}
        for rate in rates:
            places = np.arange(len(rate.prices))
            if size < len(places):
                worst = np.partition(rate.prices, size)[size]
                places = np.flatnonzero(rate.prices <= worst)
                places = places[np.lexsort((rate.tails(places), rate.prices[places]))[:size]]
            chosen.update(dict.fromkeys(places[rate.prices[places] < LARGEST].tolist()))
        return dict(self.suited[at] for at in sorted(chosen))

    def left_out(self, chosen: Suited, rate: Rates, scale: Scale) -> Least | None:
        """The least that is paid on a node that was not chosen; `None` where none of them can gain the slots."""
        others = np.ones(len(self.rows), bool)
        others[[self.place_of[node.number] for node in chosen]] = False
        prices = np.where(others, rate.prices, LARGEST)
        price = int(prices.min(initial=LARGEST))
        if price >= LARGEST:
            return None
        tail, youth = divmod(int(rate.tails(np.flatnonzero(prices == price)).min()), 1 << YOUTH)
        tail, broken = divmod(tail, SOME)
        jobs, tasks = divmod(tail, SOME)
        classes, lost = divmod(price, rate.unit)
        exact = Price(lost_gpu_ms=lost << rate.shift, jobs=jobs, tasks=tasks, broken_nodes=broken)
        least = exact if not rate.shift else Price(lost_gpu_ms=lost << rate.shift)
        weight = scale.weight(self.priorities[0], least)
        for priority in self.priorities:
            classes, gpus = divmod(classes, self._widest + 1)
            weight += scale.weight(priority, Price(gpu_milli=1000 * gpus))
        return weight, jobs, -((1 << YOUTH) - 1 - youth)


@dataclass(slots=True)
class FewFound:
    """What was looked at, the cheapest set, and the next best that was found. why: no set is enough, and what would be."""

    field: Field
    steps: list[Step] | None
    runner_up: list[Step]
    why: str = ""


def among_few(
    scene: Scene, board: Board, unit: Unit, verb: Verb, terms: Terms, under_share: Mapping[str, bool], budget: Budget
) -> FewFound | None:
    """The cheapest set, or that there is none, proven; `None` where all candidates have to be looked at."""
    simple = slot_need(unit)
    if len(scene.pool.active) < WORTH_IT or simple is None or not simple[0].gpus:
        return None
    groups = board.groups(verb, unit.job)
    if groups is None:
        return None
    need, wanted = simple
    priorities = sorted({group[1] for group in groups.yielding} & scene.holdings.levels.keys())
    shortlist = Shortlist(scene.holdings, scene.rooms, need, priorities)
    places = shortlist.most_slots()
    if places < wanted:
        close = shortlist.nearest(wanted)
        names = [name for node in close for name in scene.holdings.on.get(node.number, ())]
        field = board.few(verb, unit.job, names, groups, under_share)
        return FewFound(field, None, [], what_few_would_take(scene, field, need, wanted, close, places))
    if not priorities or not board.few_suffice(verb, unit.job):
        return None
    short = wanted - int(shortlist.slots.sum())
    if short <= 0:  # not room is what it lacks
        return None
    gains = shortlist.most_gains(short)
    if not 0 < gains <= MOST_GAINS:
        return None
    rates = shortlist.rates(gains, scene.pool.now, scene.pool.rules.preemption)
    if rates is None:
        return None
    size = FIRST_LOOK + short
    while True:
        chosen = shortlist.first(size, rates)
        if short > 1:
            _close(scene.holdings, shortlist, chosen)
        names = [name for node in chosen for name in scene.holdings.on.get(node.number, ())]
        field = board.few(verb, unit.job, names, groups, under_share)
        slots = Slots(scene.rooms, need, field, single=short == 1, suited=chosen)
        part = budget.part(budget.left // 2)
        steps, certain = slots.cheapest(short, part)
        budget.join(part)
        if not certain:
            return None
        if steps is not None and _nothing_cheaper(shortlist, chosen, slots, rates, short, board.scale, budget):
            break
        if size >= len(shortlist.suited):
            return None
        size *= 2
    if terms.refuses([step.unit for step in steps]):
        return None
    return FewFound(field, steps, _next_best(slots, steps, short, terms, budget))


def _close(holdings: Holdings, shortlist: Shortlist, chosen: Suited) -> None:
    """Add the nodes that share a job with one of these: together they are parts of the pool."""
    waiting = [node.number for node in chosen]
    while waiting:
        for name in holdings.on.get(waiting.pop(), ()):
            for number in holdings.of[name].nodes:
                place = shortlist.place_of.get(number)
                if place is not None and shortlist.suited[place][0] not in chosen:
                    node, devices = shortlist.suited[place]
                    chosen[node] = devices
                    waiting.append(number)


def _nothing_cheaper(
    shortlist: Shortlist, chosen: Suited, slots: Slots, rates: list[Rates], short: int, scale: Scale, budget: Budget
) -> bool:
    """Whether `short` parts offer each number of slots at no more than any node left out."""
    for gained, rate in enumerate(rates, start=1):
        least = shortlist.left_out(chosen, rate, scale)
        if least is None:
            continue
        enough = 0
        for part in slots.parts:
            offer = next((option for option in slots.options(part, budget) or () if option.gain >= gained), None)
            if offer is not None and _as_good(offer, least):
                enough += 1
        if enough < short:
            return False
    return True


def _as_good(offer: Option, least: Least) -> bool:
    weight, steps, young = offer.key
    return weight < least[0] or (weight == least[0] and steps <= least[1] and young[0][0] <= least[2])


def _next_best(slots: Slots, steps: list[Step], short: int, terms: Terms, budget: Budget) -> list[Step]:
    heaviest = max(steps, key=lambda step: (step.weight, step.young))
    part = budget.part(budget.left // 4)
    other, _ = slots.cheapest(short, part, without=heaviest)
    budget.join(part)
    if other is None:
        return []
    return [] if terms.refuses([step.unit for step in other]) else other
