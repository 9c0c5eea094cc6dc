"""Reference implementation of fair shares: literally from the semantics, slow, with fractions, for one resource of one family."""

from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

Number = int | Fraction


@dataclass
class Member:
    """A child project, in one resource. `age`: smaller is older. `None`: no bound."""

    age: int
    requested: Number
    quota: int | None = 0
    limit: int | None = None
    weight: int = 1
    priority: int = 0
    share: Fraction = field(default_factory=Fraction)
    lost: Fraction = field(default_factory=Fraction)

    @property
    def requestable(self) -> Number:
        return self.requested if self.limit is None else min(self.requested, self.limit)

    @property
    def lacks(self) -> Number:
        return self.requestable - self.share


def divide(total: Number, members: list[Member], one: int) -> None:
    """one: shares are rounded down to multiples of it."""
    for member in members:
        quota = total if member.quota is None else member.quota
        member.share = Fraction(min(quota, member.requestable))
    rest = max(Fraction(0), total - sum(member.share for member in members))
    priorities = sorted({member.priority for member in members}, reverse=True)
    for priority in priorities:
        while True:
            unsatisfied = [member for member in members if member.priority == priority and member.lacks > 0 and member.weight > 0]
            weights = sum(member.weight for member in unsatisfied)
            at_start, satisfied = rest, False
            for member in unsatisfied:
                offer = at_start * Fraction(member.weight, weights)
                give = Fraction(floor(offer / one) * one)
                member.lost = offer - give
                if member.lacks <= offer:
                    give, satisfied, member.lost = Fraction(member.lacks), True, Fraction(0)
                member.share += give
                rest -= give
            if not satisfied:
                break
    for priority in priorities:
        floored = [member for member in members if member.priority == priority and member.lost > 0]
        for member in sorted(floored, key=lambda member: (-member.lost, member.age)):
            give = min(Fraction(one), rest)
            member.share += give
            rest -= give
