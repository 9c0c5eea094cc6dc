"""Depth first over choices on rooms, within a budget."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeVar

from .budget import Budget
from .packing import Where
from .rooms import Rooms

NODES_PER_STEP = 16
Choice = TypeVar("Choice")
Taken = TypeVar("Taken")


def descend(
    rooms: Rooms,
    where: Where,
    budget: Budget,
    depth: int,
    choices: Callable[[Sequence[Taken]], Iterator[Choice] | None],
    take: Callable[[int, Choice], Taken],
) -> list[Taken] | Literal["impossible", "gave-up"]:
    """What was taken at each of `depth` levels. `rooms` stays as it was. Each choice costs steps by the size of the pool.

    choices: at the next level, given what was taken above it; `None`: nothing can come of it. take: one of that level,
    which changes `rooms`.
    """
    start = rooms.mark()
    effort = 1 + len(rooms.nodes if where.within is None else where.within) // NODES_PER_STEP
    taken: list[Taken] = []
    levels = [choices(taken)]
    marks = [start]
    try:
        while levels:
            rooms.rollback(marks[-1])
            del taken[len(levels) - 1 :]
            if not budget.spend(effort):
                return "gave-up"
            choice = next(levels[-1] or iter(()), None)
            if choice is None:
                levels.pop()
                marks.pop()
                continue
            taken.append(take(len(taken), choice))
            if len(taken) == depth:
                return list(taken)
            below = choices(taken)
            if below is not None:
                marks.append(rooms.mark())
                levels.append(below)
    finally:
        rooms.rollback(start)
    return "impossible"
