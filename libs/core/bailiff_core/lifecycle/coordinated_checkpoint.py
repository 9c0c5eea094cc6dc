"""The step at which all ranks of an evicted gang save a checkpoint."""

from bailiff_core.model.evictions import ActiveEviction

MARGIN = 2
ROUND_TRIPS = 2  # confirmation and agreement take one and a half; the published steps are half a round trip old
MIN_ROUND_TRIP = 100_000  # µs


def common_step(entry: ActiveEviction) -> tuple[int, bool] | None:
    """A step beyond every published one, and whether all ranks have confirmed it. `None` where no agreement is needed.

    The margin is the number of steps that the fastest rank makes while the ranks agree, estimated from the time until this
    eviction's notices were reported, and at least 2. A rank that is beyond that step confirms a later one, which then counts.
    """
    eviction, ranks = entry.eviction, [task for task in entry.tasks if task.attached]
    if entry.part or len(entry.tasks) < 2 or eviction.started_at is None or not ranks:
        return None
    if any(not task.noticed or task.state not in ("starting", "running") for task in entry.tasks):
        return None
    reported = max(task.stage_times.get("noticed", 0) for task in entry.tasks)
    trip = max(MIN_ROUND_TRIP, reported - eviction.started_at)
    step_rate_milli = max(task.notice_step_rate_milli for task in ranks)
    margin = max(MARGIN, -(-step_rate_milli * trip * ROUND_TRIPS // 1_000_000_000))
    first = max(task.notice_step or 0 for task in ranks) + margin
    step = max([first, *(task.confirmed_step for task in ranks if task.confirmed_step is not None)])
    return step, all(task.confirmed_step == step for task in ranks)
