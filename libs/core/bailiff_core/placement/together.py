"""Places a unit whose members must, or had better, stand in one topology domain (semantics §1 "Topology")."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from .budget import Budget
from .descent import NODES_PER_STEP
from .domains import Domain, asked_for, domains_within
from .need import Need, Needs
from .packing import Chunk, Where, capacity
from .parts import Part
from .rooms import Rooms
from .solve import NoFit, pack

Dealt = list[tuple[Needs, list[Chunk]]]  # part by part: who is to stand on these chunks


class Together:
    """One search: depth first over the domains of all parts, each part inside the domain of the one around it."""

    def __init__(self, rooms: Rooms, root: Part, budget: Budget, *, spread: bool) -> None:
        self._rooms, self._root, self._budget, self._spread = rooms, root, budget, spread
        self._out_of_steps = False
        self._proves = True

    def place(self, *, promised: bool) -> Dealt | NoFit:
        """Places for all tasks, or why there are none. `rooms` stays as it was.

        What is only preferred is no reason to wait, so then all levels are tried on room now before any on room later.
        """
        prefers = any(rule.preferred is not None for rule in self._root.rules())
        rounds: tuple[tuple[bool, ...], ...] = ((False,), (True,)) if prefers else ((False, True),)
        for laters in ((True,),) if promised else rounds:
            mark = self._rooms.mark()
            found = next(self._solutions(self._root, Where(spread=self._spread), laters), None)
            self._rooms.rollback(mark)
            if found is not None:
                return found
        return self._why_not()

    def _solutions(self, part: Part, around: Where, laters: tuple[bool, ...]) -> Iterator[Dealt]:
        """All ways tried to place the part, one after the other; the room of the one at hand is taken."""
        for where in self._ranges(part, around):
            mark = self._rooms.mark()
            yield from self._inside(part, where, 0, [], laters)
            self._rooms.rollback(mark)
            if self._out_of_steps:
                return

    def _inside(self, part: Part, where: Where, at: int, placed: Dealt, laters: tuple[bool, ...]) -> Iterator[Dealt]:
        if at < len(part.parts):
            for smaller in self._solutions(part.parts[at], where, laters):
                yield from self._inside(part, where, at + 1, placed + smaller, laters)
            return
        wanted = {need: len(indices) for need, indices in part.needs.items()}
        effort = 1 + len(self._rooms.nodes if where.within is None else where.within) // NODES_PER_STEP
        for later in laters if wanted else ():
            if not self._budget.spend(effort):
                self._out_of_steps = True
                self._proves = False
                return
            found = pack(self._rooms, wanted, where, self._budget, later=later, explain=False)
            if isinstance(found, NoFit):
                self._proves = self._proves and found.kind == "impossible"
                continue
            for chunk in found:
                for mask in chunk.masks:
                    self._rooms.take(chunk.node, chunk.need.amount(chunk.node.units, mask), later=chunk.later)
            yield [*placed, (part.needs, found)]
            return
        if not wanted:
            yield placed

    def _ranges(self, part: Part, around: Where) -> Iterator[Where]:
        """Where the part may stand, best first: finer levels before coarser ones, of several domains the one left fullest."""
        rule = part.rule
        if rule is None:
            yield around
            return
        coarsest = -1 if rule.required is None else rule.required
        finest = rule.preferred if rule.preferred is not None else coarsest
        asked = asked_for(part.wanted(), self._rooms)
        for level in range(finest, coarsest - 1, -1):
            if level < 0:
                yield around
                return
            ranked = []
            for domain in domains_within(self._rooms, rule, level, around.within, part.standing):
                fullness = domain.fullness(asked)
                if fullness is not None:
                    ranked.append((-fullness, domain.key, domain.nodes))
            for _, key, nodes in sorted(ranked, key=lambda entry: entry[:2]):
                labels = tuple(zip(rule.levels, key, strict=False))
                yield replace(around, within=nodes, labels=around.labels + labels)

    def _why_not(self) -> NoFit:
        """Why nothing was found; a proof where there is one, be it of some of the parts alone."""
        proof = self._proves and self._exhaustive()
        if not proof:
            for part in [] if _is_chain(self._root) else _less_asked(self._root):
                why = Together(self._rooms, part, self._budget, spread=self._spread).place(promised=True)
                if isinstance(why, NoFit) and why.kind == "impossible":
                    return why
        kind: Literal["impossible", "gave-up"] = "impossible" if proof else "gave-up"
        return NoFit(kind, _sentence(self._rooms, self._root, kind, spread=self._spread))

    def _exhaustive(self) -> bool:
        """Whether a search that found nothing and had steps left was a proof.

        It was where there was nothing but domains to choose, and where how one part is packed leaves the others the
        same room: equal tasks, and domains that are the same or apart.
        """
        levels = dict.fromkeys((rule.levels, rule.required, rule.preferred) for rule in self._root.rules())
        return _is_chain(self._root) or (len(self._root.wanted()) == 1 and len(levels) == 1)


def _is_chain(part: Part) -> bool:
    """Whether all tasks are in the innermost of the parts, each of which holds just the next."""
    return not part.parts or (not part.needs and len(part.parts) == 1 and _is_chain(part.parts[0]))


def _less_asked(root: Part) -> Iterator[Part]:
    """The unit without the rules of its smaller parts, and each of these as if the others were not."""
    yield replace(root, needs=root.wanted(), parts=())
    for part in root.parts:
        yield replace(root, needs={}, parts=(replace(part, needs=part.wanted(), parts=()),))


def _sentence(rooms: Rooms, root: Part, kind: str, *, spread: bool) -> str:
    wanted = {need: len(indices) for need, indices in root.wanted().items()}
    plain = pack(rooms, wanted, Where(spread=spread), Budget(0), later=True)
    if isinstance(plain, NoFit) and plain.kind == "impossible":
        return plain.why
    tasks = " and ".join(f"{count} × ({need})" for need, count in wanted.items())
    if kind == "gave-up":
        return f"found no place for {tasks} that keeps the rules of topology within the search steps"
    part = root
    while part.parts and _is_chain(root):
        part = part.parts[0]
    rule = part.rule
    if rule is None or rule.required is None or not _is_chain(root):
        return f"{tasks}: each part finds a topology domain by itself, but not all of them together"
    level = rule.levels[rule.required]
    whose = f" of sub-group {part.name!r}" if part.name else ""
    text = f"needs {tasks}{whose} together in one {level} of the topology {rule.topology!r}"
    if not domains_within(rooms, rule, rule.required, None, ()):
        return f"{text}: no node has the labels {', '.join(rule.levels[: rule.required + 1])}"
    domains = domains_within(rooms, rule, rule.required, None, part.standing)
    if part.standing and not domains:
        return f"{text}: the members that run already stand in none, or in several"
    if part.standing:
        text += ", where members of it run already"
    return f"{text}: {_roomiest(rooms, domains, next(iter(wanted)), spread=spread)}"


def _roomiest(rooms: Rooms, domains: list[Domain], need: Need, *, spread: bool) -> str:
    found = [(-capacity(rooms, need, Where(domain.nodes, spread=spread), later=True), domain.key) for domain in domains]
    most, key = min(found)
    return f"the roomiest of {len(found)}, {'/'.join(key)}, has room for {-most} of {need}"
