"""Projects with random shares, limits and usage."""

from random import Random

from tests.kits.pools import project

from bailiff_core.model.policy import Project

RESOURCES = range(3)
ENDLESS = 10**30


def random_projects(rng: Random) -> list[Project]:
    found: list[Project] = []
    for number in range(rng.randrange(9)):
        above = rng.choice([None, *[entry.name for entry in found]])
        quota = {"gpus": rng.choice([-1, 0, 0, 1, 2, 4]), "cpus": rng.choice([-1, -1, 0, 3])}
        limit = {"gpus": rng.choice([-1, -1, 0, 3]), "cpus": rng.choice([-1, -1, -1, 2])}
        rest = {"priority": rng.choice([0, 0, 1]), "created": rng.randrange(2)}
        found.append(project(f"p{number}", above, quota=quota, limit=limit, weight=rng.choice([0, 1, 2]), **rest))
    return found
