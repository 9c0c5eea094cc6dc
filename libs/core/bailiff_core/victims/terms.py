"""What a verb asks of its asker, and of a set of victims as a whole (semantics §3)."""

from collections.abc import Iterable, Sequence

from bailiff_core.model.policy import Verb
from bailiff_core.model.units import Unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, NoFit
from bailiff_core.protections import Together
from bailiff_core.protections.no_borrowing import keeps_from_borrowing
from bailiff_core.protections.within_share import WithinShare
from bailiff_core.queue.gates import Reclaim, Shares, may_reclaim, over_limit, over_quota
from bailiff_core.queue.measure import by_bytes
from bailiff_core.queue.tree import NO_BOUNDS, called
from bailiff_core.queue.within_bounds import place_within_bounds
from bailiff_core.scene import Scene


def why_not_ask(scene: Scene, shares: Shares, unit: Unit, verb: Verb) -> str | None:
    """Why the unit may not have room made for it under this verb, whoever would leave."""
    rules = scene.pool.rules.preemption
    if verb not in rules.verbs:
        return f"the policy does not let it displace others by {verb}"
    if verb == "preempt" and not unit.job.may_preempt:
        return "its class does not let it displace others"
    if verb == "reclaim" and not scene.pool.rules.projects:
        return "there are no projects to reclaim from"
    if verb == "reclaim":
        return may_reclaim(scene, shares, unit)
    if verb == "consolidate":
        if not rules.most_moved:
            return "the policy does not let jobs be moved to make room"
        if not unit.job.preemptible:
            return "nobody is moved for a job that is not preemptible itself"
        return over_limit(scene, unit) or keeps_from_borrowing(scene, unit)
    return over_quota(scene, unit)


class Terms:
    """Tests sets of victims for one asker. Made before anything is evicted in `scene`.

    earlier: units that leave for earlier askers of the same batch.
    """

    def __init__(self, scene: Scene, shares: Shares, unit: Unit, verb: Verb, earlier: Sequence[Unit] = ()) -> None:
        self.scene = scene
        self.unit = unit
        self.verb = verb
        self.together = Together(scene.pool, verb, unit.job, earlier)
        self.reclaim = Reclaim(scene, shares, unit) if verb == "reclaim" else None
        self.within_share = WithinShare.of(scene, shares, unit, verb)
        self.limited = self.above() is not None
        self.by_place = by_bytes(unit.job) and self._has_bounds()  # and so what it takes depends on the devices it lands on
        self.bounded = self.limited or self.by_place  # somebody may have to leave for the sake of the asker's bounds alone
        self.by_set = self.reclaim is not None or self.together.on

    def forbids(self, leaving: Sequence[Unit], taken: Sequence[Unit] | None = None) -> str | None:
        """Why these may not all leave; a subset of what may leave may. taken: those without a new place (left out: all)."""
        if not self.by_set:
            return None
        told = self.together.forbids(leaving)
        if told is not None or self.reclaim is None:
            return told
        taken = leaving if taken is None else taken
        return None if self.reclaim.admits(taken) else self._loses_too_much(self.reclaim, taken)

    def allows(self, leaving: Sequence[Unit], taken: Sequence[Unit] | None = None) -> bool:
        """`forbids`, without the sentence."""
        if not self.by_set:
            return True
        if self.together.forbids(leaving) is not None:
            return False
        return self.reclaim is None or self.reclaim.admits(leaving if taken is None else taken)

    def objects(self, taken: Sequence[Unit]) -> str | None:
        """What speaks against taking a whole set that is not forbidden."""
        return None if self.reclaim is None else self.reclaim.unbalanced(taken)

    def _has_bounds(self) -> bool:
        """Whether any bound of its projects could keep the asker out."""
        branches, leaf = self.scene.usage.tree.branches, self.scene.usage.leaf_of(self.unit.job)
        limited = any(branches[name].limit != NO_BOUNDS for name in branches[leaf].path)
        firm = not self.unit.job.preemptible and bool(self.scene.pool.rules.projects)
        return limited or firm or self.within_share is not None

    def refuses(self, taken: Sequence[Unit]) -> bool:
        """Whether this set may not leave: it is too large, unfair as a whole, or too small for the asker's bounds."""
        if not self.allows(taken) or self.objects(taken) is not None:
            return True
        return self.limited and self.above_limit(taken) is not None

    def _loses_too_much(self, reclaim: Reclaim, taken: Iterable[Unit]) -> str:
        of_project: dict[str, list[Unit]] = {}
        for unit in taken:
            of_project.setdefault(reclaim.loser(unit.job), []).append(unit)
        names = [called(project) for project, units in of_project.items() if not reclaim.admits(units)]
        return f"{names[0]} would lose more than it has beyond its share and its quota"

    def above_limit(self, leaving: Iterable[Unit], place: GangPlace | None = None) -> str | None:
        """Why the asker would be above a limit or its share, or borrow too soon, even when these have left."""
        usage = self.scene.usage
        mark = usage.mark()
        for unit in leaving:
            usage.evict(unit)
        over = self.above(place)
        usage.rollback(mark)
        return over

    def above(self, place: GangPlace | None = None) -> str | None:
        """The same on the scene as it stands."""
        over = over_limit(self.scene, self.unit, place)
        if over is None and self.within_share is not None:
            over = self.within_share.forbids(place)
        return over if over is not None or self.verb == "reclaim" else keeps_from_borrowing(self.scene, self.unit)

    def place(self, budget: Budget) -> GangPlace | NoFit | str:
        """A promised place for the asker on the scene as it stands, where it keeps its bounds; its room is taken in the rooms."""
        return place_within_bounds(self.scene, self.unit, budget, promised=True, over=self._over)

    def _over(self, place: GangPlace) -> str | None:
        return self.above(place) or over_quota(self.scene, self.unit, place)
