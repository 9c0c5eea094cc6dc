"""Requests in worlds whose answers are proven in batches."""

from random import Random

from tests.kits.builders import Sketch, group
from tests.property.victim_worlds import random_world, world_of_equals, world_of_moves

from bailiff_core.model.state import Job

WORLDS = (random_world, world_of_equals, world_of_moves)


def requests(random: Random, sketch: Sketch, first: Job) -> list[Job]:
    """The world's preemptor and one or two more, of any project."""
    state = sketch.state
    preemption = state.policy.preemption
    rules = preemption.model_copy(update={"max_migrations": random.choice((0, 1, None))})
    unbudgeted = state.policy.protections.model_copy(update={"budgets": ()})
    state.policy = state.policy.model_copy(update={"preemption": rules, "protections": unbudgeted})
    found = [first]
    projects = [job.project for job in state.jobs.values()]
    for name in ("second", "third")[: random.choice((1, 1, 2))]:
        asked = group(random.choice((1, 1, 2)), gpus=random.choice((1, 1, 2)))
        job = sketch.job(name, asked, priority=random.choice((50, 75)), preemptible=random.random() < 0.8)
        job.project = random.choice(projects)
        found.append(job)
    state.indices.snapshot = None
    return found
