"""For a refusal: the nearest thing that would have worked, and the rule that forbade it."""

from bailiff_core.model.units import Unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import NoFit, place_unit
from bailiff_core.placement.need import Need
from bailiff_core.placement.rooms import NodeRoom
from bailiff_core.protections import RULES, already_leaving
from bailiff_core.scene import Scene
from bailiff_core.words import count_text, gpus_text

from .candidates import Field, Step
from .fit import Fit, PlaceFit, SlotFit, slot_need
from .objective import FREE
from .terms import Terms
from .tree import put_back_all

STEPS = 1_000
NAMED = 5
MOST_LOOKED_AT = 20_000


def what_it_would_take(scene: Scene, unit: Unit, field: Field, terms: Terms, *, after_others: bool = False) -> str:
    """A sentence. The scene is left changed. after_others: the scene has what was just decided for other askers."""
    told = _told(scene, unit, field, terms, after_others=after_others)
    return f"after what was just decided for others, {told}" if after_others else told


def _told(scene: Scene, unit: Unit, field: Field, terms: Terms, *, after_others: bool) -> str:
    for step in field.steps():
        scene.evict(step.unit)
    mark = scene.mark()
    found = place_unit(scene.rooms, unit, Budget(STEPS), promised=True)
    scene.rollback(mark)
    if not isinstance(found, NoFit):
        over = terms.above()
        if over is not None:
            return f"{over}, whoever leaves"
        everybody = [step.unit for step in field.steps()]
        forbidden = terms.forbids(everybody) or terms.objects(everybody) or "they may not all leave"
        return f"there would be room with all permitted victims gone ({count_text(len(field.chains), 'job')}), but {forbidden}"
    shielded = _shielded(field)
    for step in shielded:
        scene.rooms.evict(step.unit)
    if len(shielded) > MOST_LOOKED_AT:
        return f"{found.why}, with all permitted victims gone"
    simple = slot_need(unit)
    fit: Fit = SlotFit(scene.rooms, *simple) if simple else PlaceFit(scene.rooms, unit, Budget(STEPS))
    if not fit.fits():
        still = place_unit(scene.rooms, unit, Budget(STEPS), promised=True)
        everybody_else = "every job that stays" if after_others else "every job"
        return f"even if {everybody_else} left: {still.why if isinstance(still, NoFit) else found.why}"
    return f"{found.why}; with all permitted victims gone it would still need {_still_needed(field, fit, shielded)}"


def what_few_would_take(scene: Scene, field: Field, need: Need, wanted: int, nodes: dict[NodeRoom, int], places: int) -> str:
    """The same where all permitted victims of the pool leave room for no more than so many `places` of the `wanted`.

    field: of those on the `nodes` that lack least. The scene is left changed.
    """
    tasks = f"{count_text(wanted, 'task')} of {need}{' each' if wanted > 1 else ''}"
    told = (
        f"needs room for {tasks}, with all permitted victims gone there is {f'room for {places} at most' if places else 'none'}"
    )
    shielded = _shielded(field)
    for step in (*field.steps(), *shielded):
        scene.rooms.evict(step.unit)
    fit = SlotFit(scene.rooms, need, wanted, nodes)
    return f"{told}; it would still need {_still_needed(field, fit, shielded)}" if fit.fits() else told


def _still_needed(field: Field, fit: Fit, shielded: list[Step]) -> str:
    """Whose room, of those whom rules keep from leaving; all of them are evicted."""
    rule_of = {id(unit): rule for rule, units in field.excluded.items() for unit in units}
    needed = put_back_all(fit, [step for step in shielded if fit.uses(step)])
    says = {rule.name: rule.says for rule in RULES}
    rules: dict[str, str] = {}
    gpus = 0
    for step in sorted(needed, key=lambda step: (step.job.seq, step.job.id)):
        rules.setdefault(step.job.id, rule_of[id(step.unit)])
        gpus += sum(step.job.group(index).gpu_milli for index in step.unit.indices)
    named = [f"{name!r}, which {says[rules[name]]}" for name in list(rules)[:NAMED]]
    if len(rules) > NAMED:
        named.append(f"{len(rules) - NAMED} more such jobs")
    what = f"the room (with {gpus_text(gpus)})" if gpus >= 1000 else "the room"
    return f"{what} of {'; '.join(named)}"


def _shielded(field: Field) -> list[Step]:
    """What rules keep from leaving, the most valuable first; of one job the last to leave first."""
    steps: list[Step] = []
    before: dict[str, Step] = {}
    for rule, units in field.excluded.items():
        for unit in units if rule != already_leaving.NAME else ():
            job = unit.job
            step = Step(job, unit, before.get(job.id), FREE, 0, (-job.seq, job.id, len(steps)), unit.core)
            before[job.id] = step
            steps.append(step)
    depth = {step: at for at, step in enumerate(steps)}
    return sorted(steps, key=lambda step: (-step.job.priority, -step.job.gpus, step.job.seq, step.job.id, -depth[step]))
