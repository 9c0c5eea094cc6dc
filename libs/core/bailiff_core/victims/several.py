"""Gangs of several kinds of task on large pools: each kind is answered from few nodes, the dearest first.

What is cheapest for one kind alone bounds the whole. Where that set makes room for all kinds it is the answer, and proven;
else the other kinds are answered on its result, and whoever could stay after all does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bailiff_core.model.policy import Verb
from bailiff_core.model.units import Unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, place_unit
from bailiff_core.placement.need import Need, needs_of_unit
from bailiff_core.placement.parts import has_rules
from bailiff_core.placement.rooms import slots_for
from bailiff_core.scene import Scene

from .candidates import Board, Chain, Field, Step
from .fit import PlaceFit
from .search import Found
from .shortlist import WORTH_IT, Shortlist, among_few
from .terms import Terms
from .tree import in_order, put_back_all

PLACEMENT_STEPS = 10_000


@dataclass(slots=True)
class _Kind:
    """The tasks of one kind, and who must leave for them alone: nobody where there is room."""

    unit: Unit
    steps: list[Step]
    field: Field | None = None


def kind_by_kind(
    scene: Scene, board: Board, unit: Unit, verb: Verb, terms: Terms, under_share: Mapping[str, bool], budget: Budget
) -> tuple[Field, Found] | None:
    """What was looked at and the set found, or that there is none; `None` where all candidates have to be looked at."""
    kinds = [Unit(unit.job, tuple(indices), unit.core) for indices in needs_of_unit(unit).values()]
    if len(scene.pool.active) < WORTH_IT or len(kinds) < 2 or has_rules(unit.job.demand):
        return None
    too_many = _too_many_together(scene, board, unit, verb, under_share)
    if too_many is not None:
        return too_many
    alone: list[_Kind] = []
    for kind in kinds:
        if not _lacks(scene, kind):
            alone.append(_Kind(kind, []))
            continue
        few = among_few(scene, board, kind, verb, terms, under_share, budget)
        if few is None:
            return None
        if few.steps is None:
            return few.field, Found(proven=True, why=few.why)
        alone.append(_Kind(kind, few.steps, few.field))
    alone.sort(key=lambda kind: -sum(step.weight for step in kind.steps))
    first = alone[0]
    if first.field is None:
        return None
    mark = scene.rooms.mark()
    try:
        steps, place = _one_after_the_other(scene, unit, verb, terms, under_share, budget, alone)
    finally:
        scene.rooms.rollback(mark)
    if place is None or terms.refuses([step.unit for step in steps]):
        return None
    return first.field, Found(steps, proven=steps is first.steps, bound=first.steps, place=place)


def _too_many_together(
    scene: Scene, board: Board, unit: Unit, verb: Verb, under_share: Mapping[str, bool]
) -> tuple[Field, Found] | None:
    """That the kinds cannot all stand even if all leave who may: counted in tasks of one of them.

    A task of another kind that may stand nowhere else takes the room of as many of these as its GPUs have theirs.
    """
    groups = board.groups(verb, unit.job)
    if groups is None:
        return None
    priorities = sorted({group[1] for group in groups.yielding} & scene.holdings.levels.keys())
    needs = {need: len(indices) for need, indices in needs_of_unit(unit).items()}
    for need in needs:
        if not need.gpus:
            continue
        asked = sum(count * (other.gpus // need.gpus) for other, count in needs.items() if _only_where(other, need))
        if asked == needs[need]:
            continue
        places = Shortlist(scene.holdings, scene.rooms, need, priorities).most_slots()
        if asked > places:
            tasks = " and ".join(f"{count} × ({other})" for other, count in needs.items())
            room = f"as much room as {asked} × ({need}); with all permitted victims gone there is room for {places} at most"
            return board.few(verb, unit.job, (), groups, under_share), Found(proven=True, why=f"needs {tasks}, {room}")
    return None


def _only_where(one: Need, other: Need) -> bool:
    """Whether every node and device that suits the one suits the other as well."""
    models = not other.models or (bool(one.models) and all(model in other.models for model in one.models))
    nodes = not other.nodes or (bool(one.nodes) and all(name in other.nodes for name in one.nodes))
    return models and nodes and all(label in one.labels for label in other.labels)


def _lacks(scene: Scene, kind: Unit) -> bool:
    """Whether tasks of this kind lack room, nobody else asking."""
    for need, indices in needs_of_unit(kind).items():
        wanted = len(indices)
        for node, devices in scene.rooms.suited(need):
            wanted -= slots_for(need, node, node.later, devices)
            if wanted <= 0:
                return False
    return True


def _one_after_the_other(
    scene: Scene,
    unit: Unit,
    verb: Verb,
    terms: Terms,
    under_share: Mapping[str, bool],
    budget: Budget,
    alone: list[_Kind],
) -> tuple[list[Step], GangPlace | None]:
    """An irreducible set and the unit's place; `scene` is left changed."""
    rooms = scene.rooms
    board = Board(scene)
    chains: dict[str, Chain] = {}

    def leave(steps: list[Step]) -> None:
        for step in steps:
            chain = chains.setdefault(step.job.id, [])
            step.before = chain[-1] if chain else None
            chain.append(step)
            rooms.evict(step.unit)
            board.taken(step.job, 1)

    first = alone[0].steps
    leave(first)
    evicted = rooms.mark()
    place = _placed(scene, unit, budget)
    rooms.rollback(evicted)
    if place is not None:
        return first, place
    more: list[Step] = []
    for kind in alone:
        if _placed(scene, kind.unit, budget) is not None:
            continue
        few = among_few(scene, board, kind.unit, verb, terms, under_share, budget)
        if few is None or few.steps is None:
            return [], None
        leave(few.steps)
        more += few.steps
        if _placed(scene, kind.unit, budget) is None:
            return [], None
    rooms.rollback(evicted)
    for step in more:
        rooms.evict(step.unit)
    everyone = [step for chain in chains.values() for step in chain]
    fit = PlaceFit(rooms, unit, budget)
    needed = put_back_all(fit, in_order(list(chains.values()), {step: step.weight for step in everyone}))
    return needed, fit.place


def _placed(scene: Scene, unit: Unit, budget: Budget) -> GangPlace | None:
    part = budget.part(PLACEMENT_STEPS)
    found = place_unit(scene.rooms, unit, part, promised=True)
    budget.join(part)
    return found if isinstance(found, GangPlace) else None
