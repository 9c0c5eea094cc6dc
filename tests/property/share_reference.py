"""Reference implementation of fair shares: literally from the semantics, slow, with fractions, for one resource of one family."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

Number = int | Fraction


@dataclass
class Member:
    """A child project, in one resource.

    Attributes:
        age: Smaller is older.
        quota: None: no bound.
        limit: None: no bound.
        step: In which steps it can use a share.
        owed: What rounding of earlier turns owes it.
        used: What it used beyond its quota on average, twice.
        in_force: Its quota in force, once divided; None: no bound.
    """

    age: int
    requested: Number
    quota: int | None = 0
    limit: int | None = None
    weight: int = 1
    priority: int = 0
    step: Number = 1
    owed: int = 0
    used: int = 0
    share: Fraction = field(default_factory=Fraction)
    in_force: Number | None = None

    @property
    def requestable(self) -> Number:
        return self.requested if self.limit is None else min(self.requested, self.limit)

    @property
    def claimed(self) -> Number:
        return self.requestable if self.quota is None else min(self.quota, self.requestable)


def divide(total: Number, members: list[Member]) -> None:
    for member in members:
        member.in_force = member.quota
        member.share = Fraction(min(member.claimed, total))
    bounded = [member for member in members if member.quota is not None]
    if sum(member.claimed for member in bounded) > total:
        for member in bounded:
            member.share = Fraction(0)
        fill(total, [bounded], lambda member: member.quota or 0, lambda member: member.claimed, past=False)
        for member in bounded:
            if member.share < member.claimed:
                member.in_force = member.share
        return
    claimed = sum(member.share for member in members)
    priorities = sorted({member.priority for member in members}, reverse=True)
    ranks = [[member for member in members if member.priority == priority] for priority in priorities]
    past = any(member.used for member in members)
    fill(total - claimed, ranks, lambda member: member.weight, lambda member: member.requestable, past=past)


def fill(
    rest: Number,
    ranks: Sequence[list[Member]],
    weight: Callable[[Member], Number],
    wanted: Callable[[Member], Number],
    *,
    past: bool,
) -> None:
    short = []
    start = {member.age: member.share for rank in ranks for member in rank}
    for rank in ranks:
        lost: list[tuple[Fraction, int, Member]] = []
        while True:
            unsatisfied = [member for member in rank if member.share < wanted(member) and weight(member) > 0]
            if not unsatisfied or rest <= 0:
                break
            satisfied, lost = False, []
            had = {each.age: each.used + each.share - start[each.age] if past else Fraction(0) for each in unsatisfied}
            by_use = sorted(unsatisfied, key=lambda each: had[each.age] / Fraction(weight(each)))
            firsts = [by_use[: count + 1] for count in range(len(by_use))]  # of these the level is right that gives least
            level = min(Fraction(rest + sum(had[each.age] for each in some)) / sum(map(weight, some)) for some in firsts)
            for member in unsatisfied:
                offered = member.share + max(Fraction(0), level * weight(member) - had[member.age])
                share = max(member.share, Fraction(floor(offered / member.step) * member.step))
                if wanted(member) <= offered:
                    share, satisfied = Fraction(wanted(member)), True
                elif share < offered:
                    lost.append((share - offered - member.owed, member.age, member))
                rest -= share - member.share
                member.share = share
            if not satisfied:
                break
        returned: dict[int, Fraction] = {}
        common = Fraction(0)
        none_left = [member for *_, member in lost if member.step - member.share > rest]
        for common in sorted({Fraction(member.step) for member in none_left}, reverse=True):
            needed = min(member.step - member.share for member in none_left if member.step == common)
            returned = {}
            least = {each.age: max(start[each.age], Fraction(floor(each.share / common) * common)) for each in unsatisfied}
            for member in sorted(unsatisfied, key=lambda each: (least[each.age] - each.share, each.age)):
                if rest + sum(returned.values()) < needed and member.share > least[member.age]:
                    returned[member.age] = member.share - least[member.age]
            if rest + sum(returned.values()) >= needed:
                break
            returned = {}
        losses = {member.age: entry for entry, _, member in lost}
        for member in unsatisfied:
            if member.age in returned:
                losses[member.age] = losses.get(member.age, -Fraction(member.owed)) - returned[member.age]
                member.share, rest = member.share - returned[member.age], rest + returned[member.age]
        due = [member for member in rank if member.age in losses]
        for member in due if past else ():
            part = Fraction(sum(each.used for each in due) * weight(member)) / sum(map(weight, due))
            losses[member.age] -= 5 * floor(part - member.used)
        again = []
        for member in sorted([each for each in rank if each.age in losses], key=lambda each: (losses[each.age], each.age)):
            size = common if member.age in returned else member.step
            step = (floor(member.share / size) + 1) * size - member.share
            if step > rest:
                short.append(member)
                again += [member] if member.age in returned else []
                continue
            given = min(step, wanted(member) - member.share)
            member.share, rest = member.share + given, rest - given
        for member in sorted(again, key=lambda each: (-returned[each.age], each.age)):
            reached = floor((member.share + min(rest, returned[member.age])) / member.step) * member.step
            given = max(Fraction(0), reached - member.share)
            member.share, rest = member.share + given, rest - given
    for member in short:
        given = min(rest, wanted(member) - member.share)
        member.share, rest = member.share + given, rest - given
