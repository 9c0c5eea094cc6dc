"""The pool as trials see it: rooms of nodes and use of projects, on which to evict, to place, and to take all of it back.

The scene is kept in `pool.scene` and brought up to date with what the fold changed; it is never rebuilt while it stands.
"""

from bailiff_core.lifecycle.agenda import agenda_of
from bailiff_core.model.pool import Pool, Room
from bailiff_core.model.units import Unit
from bailiff_core.placement.alike import Alike
from bailiff_core.placement.gang import GangPlace
from bailiff_core.placement.holdings import Holdings
from bailiff_core.placement.rooms import Rooms
from bailiff_core.queue.endings import Endings
from bailiff_core.queue.usage import Usage

Mark = tuple[int, int]
CHANGES_KEPT = 10_000


class Scene:
    """Rooms and use together."""

    def __init__(self, pool: Pool, rooms: Rooms, usage: Usage) -> None:
        self.pool = pool
        self.rooms = rooms
        self.usage = usage
        self.policy = pool.policy
        self._alike: Alike | None = None
        self._not_alike: dict[str, None] = {}  # jobs that changed since anybody asked who are alike
        self._holdings: Holdings | None = None
        self._not_held: dict[str, None] = {}  # ... and since for the holdings
        self._endings: Endings | None = None
        self.version = 0  # of what it shows: the fold has changed something since the one before
        self.kept: tuple[object, dict[int, Room], int | None] | None = None  # what Backfill found last, and for what
        self._jobs_since: dict[str, None] = {}  # ... and since for the endings
        self._nodes_since: dict[int, None] = {}

    @property
    def alike(self) -> Alike:
        """Who holds room, by groups, as the pool is. Brought up to date when asked for."""
        if self._alike is None:
            self._alike = Alike(self.pool)
        elif self._not_alike:
            self._alike.refresh(self.pool, self._not_alike)
        self._not_alike.clear()
        return self._alike

    @property
    def holdings(self) -> Holdings:
        """Who stands where, as the pool is: trials do not show in it. Brought up to date when asked for."""
        if self._holdings is None:
            self._holdings = Holdings.of_pool(self.pool)
        elif self._not_held:
            self._holdings.refresh(self.pool, self._not_held)
        self._not_held.clear()
        return self._holdings

    @property
    def endings(self) -> Endings:
        """When who is taken to end, of the pool as it is, while no trial stands. Brought up to date when asked for."""
        if self._endings is None:
            self._endings = Endings(self.pool, self.rooms)
        else:
            self._endings.refresh(self._jobs_since, self._nodes_since)
        self._jobs_since.clear()
        self._nodes_since.clear()
        return self._endings

    def refresh(self) -> None:
        """Take what the fold changed as it is now, and take back every trial."""
        pool = self.pool
        self.version += 1
        self.rooms.refresh(pool, pool.stale_nodes)
        self.usage.refresh(pool, pool.stale_jobs)
        if self._alike is not None:
            self._not_alike.update(pool.stale_jobs)
        if self._holdings is not None:
            self._not_held.update(pool.stale_jobs)
            if not self._holdings.has_room_for(pool.nodes[number] for number in pool.stale_nodes):
                self._holdings = None
        if self._endings is not None:
            self._jobs_since.update(pool.stale_jobs)
            self._nodes_since.update(pool.stale_nodes)
            if not self._endings.has_place_for(pool.nodes[number] for number in pool.stale_nodes):
                self._endings = None
        self.policy = pool.policy
        if len(self._not_alike) > CHANGES_KEPT:  # nobody asks for a long time
            _ = self.alike
        if len(self._not_held) > CHANGES_KEPT:
            _ = self.holdings
        pool.stale_nodes.clear()
        pool.stale_jobs.clear()

    def mark(self) -> Mark:
        """A point to come back to."""
        return self.rooms.mark(), self.usage.mark()

    def rollback(self, mark: Mark) -> None:
        """Undo everything since `mark`."""
        self.rooms.rollback(mark[0])
        self.usage.rollback(mark[1])

    def evict(self, unit: Unit) -> None:
        """As if the unit were told to leave: its room comes later, its project no longer uses it."""
        self.rooms.evict(unit)
        self.usage.evict(unit)

    def put_back(self, unit: Unit) -> None:
        """The opposite of `evict`."""
        self.rooms.put_back(unit)
        self.usage.put_back(unit)

    def place(self, unit: Unit, place: GangPlace) -> None:
        """The unit stands there from now on."""
        self.rooms.place(unit, place)
        self.usage.place(unit, place)


def make_ready(pool: Pool) -> None:
    """Build what decisions keep up to date, once a log has been read: the first of them is not to wait for it."""
    if pool.policy is not None:
        scene = scene_of(pool)
        _ = scene.alike, scene.holdings, agenda_of(pool)


def scene_of(pool: Pool) -> Scene:
    """The pool's scene, up to date. Trials on it stand while nothing in the pool has changed."""
    scene = pool.scene
    if scene is None:
        scene = pool.scene = Scene(pool, Rooms.of(pool), Usage.of(pool))
        pool.stale_nodes.clear()
        pool.stale_jobs.clear()
    assert isinstance(scene, Scene)
    if not pool.stale_nodes and not pool.stale_jobs and scene.policy is pool.policy:
        return scene
    scene.refresh()
    return scene
