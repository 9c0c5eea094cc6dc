"""A project gains nothing by splitting in two: with its quota and its weight as one, it has as much after full passes."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.snapshots import snapshot
from tests.property.small_worlds import Fields

from bailiff_core.plan import Planning
from bailiff_core.plan.build import append_facts, submission
from bailiff_core.plan.snapshot_validation import validate_snapshot

MINUTE = 60_000_000
ONE, HALVES = "p", ("p1", "p2")


def worlds(random: Random) -> tuple[Fields, Fields]:
    """The same pool and jobs, with `p` as one project, and as two with half of its quota and weight each."""
    weight, quota = random.choice((1, 2)), random.choice((0, 0, 1, 2))
    rivals = [
        {"name": name, "quota": {"gpus": random.choice((0, 1, 2, 4))}, "over_quota_weight": random.choice((1, 2, 4))}
        for name in "qr"[: random.choice((1, 2))]
    ]
    rivals = [{**each, "created": random.choice((1, 9))} for each in rivals]
    nodes = [{"name": f"n{at}", "gpus": random.choice((2, 3, 4, 8))} for at in range(random.choice((1, 2)))]
    jobs, split = [], []
    for at in range(random.randint(4, 20)):
        project = random.choice((ONE, ONE, *(each["name"] for each in rivals)))
        job = {"name": f"j{at:02}", "gpus": 1, "project": project, "submitted": f"{100 - at}m ago", "preemptible": True}
        jobs.append(job)
        split.append({**job, "project": random.choice(HALVES)} if project == ONE else job)
    rules = {"nodes": nodes, "policy": {"backfill": "greedy", "preemption": {"actions": ["allocate", "reclaim"]}}}
    one = {"name": ONE, "quota": {"gpus": 2 * quota}, "over_quota_weight": 2 * weight, "created": 5}
    two = [{"name": name, "quota": {"gpus": quota}, "over_quota_weight": weight, "created": 5} for name in HALVES]
    return {**rules, "projects": [one, *rivals], "jobs": jobs}, {**rules, "projects": [*two, *rivals], "jobs": split}


def held(document: Fields) -> int:
    """GPUs that `p`, or its halves, have once nothing changes any more. Its jobs come in two waves."""
    jobs = document["jobs"]
    planning = Planning(snapshot({**document, "jobs": []}))
    for wave in (jobs[::2], jobs[1::2]):
        for entry in validate_snapshot(snapshot({**document, "jobs": wave})).jobs:
            append_facts(planning.state, submission(entry))
            planning.names[entry.doc.name] = [f"{entry.doc.name}-0"]
        for _ in range(6):
            planning.round(("allocate", "reclaim"))
            planning.advance(MINUTE)
    return sum(len(job.tasks) for job in planning.state.active_jobs() if job.project in (ONE, *HALVES))


def check(seed: int) -> int:
    """Returns the difference. Rounding to whole GPUs may give each half one more; who got none has the next turn."""
    one, two = map(held, worlds(Random(seed)))
    assert one >= two - len(HALVES), (seed, one, two)
    return one - two


@examples(60)
@given(st.integers(0, 2**32))
def test_as_one_a_project_has_no_less_than_in_two(seed: int) -> None:
    check(seed)


def test_on_average_it_has_more() -> None:
    """So what rounding gives is no way to gain: over many pools joining is worth it."""
    assert sum(check(seed) for seed in range(60)) >= 0
