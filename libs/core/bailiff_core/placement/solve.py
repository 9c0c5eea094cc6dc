"""Finds places for tasks of one or several needs, or says why there are none."""

from dataclasses import dataclass
from typing import Literal

from .budget import Budget
from .devices import find_devices
from .need import Need
from .packing import Chunk, Where, fill
from .rooms import Rooms
from .search import find_packing
from .why import why_not


@dataclass(frozen=True, slots=True)
class NoFit:
    """`impossible` is proven; `gave-up`: the steps ran out before an answer was found."""

    kind: Literal["impossible", "gave-up"]
    why: str


def pack(
    rooms: Rooms, wanted: dict[Need, int], where: Where, budget: Budget, *, later: bool, explain: bool = True
) -> list[Chunk] | NoFit:
    """Places for so many tasks of each need. `rooms` stays as it was. Only with `explain` a refusal says why.

    One need: filling nodes in order is exact, because the tasks are interchangeable and a task more on a node costs
    none elsewhere. Several needs: the same greedily, hardest first, and where that fails a search over all packings
    within the budget.
    """
    order = sorted(wanted, key=hardest_first) if len(wanted) > 1 else list(wanted)
    mark = rooms.mark()
    chunks: list[Chunk] = []
    for need in order:
        placed = fill(rooms, need, wanted[need], where, later=later)
        if placed is None:
            break
        chunks += placed
    else:
        rooms.rollback(mark)
        return chunks
    rooms.rollback(mark)
    if len(wanted) == 1 and not explain:
        return NoFit("impossible", "")
    why = why_not(rooms, wanted, where, later=later)
    if why is not None:
        return NoFit("impossible", why)
    ordered = [(need, wanted[need]) for need in order]
    packing = find_packing(rooms, ordered, where, budget, later=later)
    if packing == "depends-on-devices":
        packing = find_devices(rooms, ordered, where, budget, later=later)
    if isinstance(packing, list):
        return packing
    tasks = " and ".join(f"{count} × ({need})" for need, count in wanted.items())
    if packing == "impossible":
        return NoFit("impossible", f"each kind of task fits by itself, but {tasks} do not fit together")
    return NoFit("gave-up", f"found no place for {tasks} together within the search steps")


def hardest_first(need: Need) -> tuple[int, bool, int, int, int, int]:
    """Sorts needs for placing one after the other."""
    # A need that accepts fewer models first: one that accepts all of them takes what is left over.
    # Whole devices before shares, which may open one more device where all shared ones are full.
    share = need.share_milli or need.share_bytes
    return (len(need.models) or 1 << 30, need.shared, -need.devices, -share, -need.cpu_milli, -need.memory_bytes)
