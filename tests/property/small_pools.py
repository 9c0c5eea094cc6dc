"""Small random pools, and results by exhaustive search, without the code under test."""

from itertools import combinations
from random import Random

from tests.kits.builders import HOUR, MINUTE, Sketch, group

from bailiff_core.model.state import Job, PoolState


def random_pool(random: Random, shuffled: int | None = None) -> tuple[Sketch, Job]:
    """Up to three nodes, up to nine jobs on them, and a preemptor. shuffled: same pool, other dict order."""
    sketch = Sketch()
    busy = random.random() < 0.7  # a full pool, and a preemptor that may preempt much of it
    mixed = random.random() < 0.25
    for number in range(random.randint(1, 3)):
        sketch.node(
            f"n{number}",
            gpus=random.choice((0, 2, 3, 4)),
            cpu=random.randint(2, 6),
            slots=random.choice((3, 1000)),
            labels={"zone": random.choice("ab")},
            models=("h100", "a100") if mixed else ("h100",),
        )
    for number in range(30 if busy else random.randint(0, 7)):
        if len(sketch.state.jobs) < 9:
            place_at_random(random, sketch, f"j{number}")
    groups = [random_group(random, 2 if busy else 3) for _ in range(random.choice((1, 1, 2)))]
    preemptor = sketch.job("preemptor", *groups, priority=75 if busy else 50)
    if shuffled is not None:
        for field in ("nodes", "jobs", "active", "node_numbers"):
            items = list(getattr(sketch.state, field).items())
            Random(shuffled).shuffle(items)
            setattr(sketch.state, field, dict(items))
    return sketch, preemptor


def tight_pool(random: Random) -> tuple[Sketch, Job]:
    """Two to four empty nodes and a gang of two or three kinds of task that needs nearly all of them."""
    sketch = Sketch()
    gpus = [random.randint(2, 7) for _ in range(random.randint(2, 4))]
    for number, count in enumerate(random.choice((gpus, sorted(gpus), [max(gpus)] * len(gpus)))):
        sketch.node(f"n{number}", gpus=count, cpu=random.choice((4, 8)))
    left = sum(len(node.devices) for node in sketch.state.nodes.values()) - random.randint(0, 1)
    groups = []
    while left > 0 and len(groups) < 3:
        size = random.randint(2, 5)
        count = random.randint(1, max(1, left // size))
        groups.append(group(count, gpus=size, cpu=random.choice((0, 0, 1, 2))))
        left -= size * count
    return sketch, sketch.job("preemptor", *groups)


def random_group(random: Random, most: int = 3):
    """A task group that often fits somewhere."""
    rest = {}
    if random.random() < 0.15:
        rest["node_labels"] = {"zone": random.choice("ab")}
    if random.random() < 0.15:
        rest["gpu_models"] = (random.choice(("h100", "a100")),)
    if random.random() < 0.05:
        rest["nodes"] = ("n0", "n2")
    return group(random.randint(1, most), gpus=random.choice((0, 1, 1, 2, 2, 3)), cpu=random.choice((0, 0, 1, 2)), **rest)


def place_at_random(random: Random, sketch: Sketch, name: str) -> None:
    """Place a job of one to three tasks somewhere, unless it does not fit."""
    groups = [group(random.choice((1, 1, 2, 3)), gpus=random.choice((0, 1, 1, 2)), cpu=random.choice((0, 1)))]
    state = sketch.state
    phase = random.choice(("running", "running", "running", "starting", "reserved", "evicting"))
    taken: dict[int, int] = {}
    tasks: dict[int, int] = {}
    places = []
    for need in groups * 1:
        for _ in range(need.count):
            node = random.choice(list(state.nodes.values()))
            busy = node.allocated.devices | node.reserved.devices | taken.get(node.number, 0)
            free = [number for number in range(len(node.devices)) if not busy >> number & 1]
            used = tasks.get(node.number, 0)
            cpu = node.allocated.cpu_milli + node.reserved.cpu_milli + (used + 1) * need.cpu_milli
            slots = node.allocated.slots + node.reserved.slots + used + 1
            gpus = need.gpu_milli // 1000
            if len(free) < gpus or cpu > node.capacity.cpu_milli or slots > node.capacity.slots:
                return
            chosen = random.sample(free, gpus)
            taken[node.number] = taken.get(node.number, 0) | sum(1 << number for number in chosen)
            tasks[node.number] = used + 1
            places.append((node.name, chosen))
    job = sketch.job(name, *groups, priority=random.choice((25, 50, 50, 50, 75)), preemptible=random.random() < 0.85)
    sketch.at(job, *places, phase=phase, age=random.choice((MINUTE, HOUR, HOUR, 2 * HOUR)))


def may_go(preemptor: Job, job: Job) -> bool:
    """Whether the preemptor may preempt the job, literally from semantics §3."""
    return job.phase in ("reserved", "starting", "running") and job.preemptible and job.priority < preemptor.priority


def fits(state: PoolState, preemptor: Job, gone: frozenset[str], now: bool = False) -> bool:
    """Whether the gang fits without the jobs in `gone`: tries every assignment of nodes and devices."""
    free = {}
    for node in state.nodes.values():
        free[node.number] = [set(range(len(node.devices))), node.capacity.cpu_milli, node.capacity.slots]
    for job in state.jobs.values():
        if job.id in gone or (job.phase == "evicting" and not now):
            continue
        for task, need in zip(job.tasks, job.groups(), strict=False):
            room = free[task.node]
            room[0] -= {number for number in range(64) if task.devices >> number & 1}
            room[1] -= need.cpu_milli
            room[2] -= 1
    tasks = preemptor.groups()

    def place(index: int, first: int = 0) -> bool:
        if index == len(tasks):
            return True
        need = tasks[index]
        seen = []
        if index and need != tasks[index - 1]:
            first = 0  # equal tasks are placed in node order
        for node in sorted(state.nodes.values(), key=lambda node: node.number)[first:]:
            room = free[node.number]
            if any(node.labels.get(key) != value for key, value in need.node_labels.items()):
                continue
            if need.nodes and node.name not in need.nodes:
                continue
            if room[2] < 1 or (need.cpu_milli and room[1] < need.cpu_milli):
                continue
            useful = [n for n in sorted(room[0]) if not need.gpu_models or node.devices[n].model in need.gpu_models]
            for chosen in combinations(useful, need.gpu_milli // 1000):
                look = (node.number, sorted(node.devices[n].model for n in chosen))
                if look in seen:
                    continue
                seen.append(look)
                room[0] -= set(chosen)
                room[1] -= need.cpu_milli
                room[2] -= 1
                done = place(index + 1, node.number)
                room[0] |= set(chosen)
                room[1] += need.cpu_milli
                room[2] += 1
                if done:
                    return True
        return False

    return place(0)


def counted(job: Job) -> int:
    """Thousandths of GPUs; of tasks without GPUs, 16 CPUs are one, and no task is free."""
    return sum(need.gpu_milli or max(1, -(-need.cpu_milli // 16)) for need in job.groups())


def cost(state: PoolState, victims: list[Job]) -> tuple:
    """The objective of DESIGN §5 for one set, literally."""
    running = [job for job in victims if job.phase != "reserved"]
    by_class = tuple(sum(counted(job) for job in running if job.priority == value) for value in (75, 50, 25))
    lost = 0
    for job in running:
        lost += counted(job) * (min(state.now - job.last_start, HOUR) + MINUTE) // 1_000_000
    broken = 0
    for node in state.nodes.values():  # each once, however many victims it has
        released = any(task.devices and task.node == node.number for job in running for task in job.tasks)
        stay = any(
            task.devices and task.node == node.number
            for other in state.jobs.values()
            if other not in victims and other.phase != "evicting"
            for task in other.tasks
        )
        broken += released and stay
    youngest_first = tuple(sorted(-job.seq for job in victims))
    return (
        *(by_class, lost, len(running), sum(job.size for job in running), len(victims) - len(running), broken, youngest_first),
        tuple(sorted(job.id for job in victims)),
    )


def best_set(state: PoolState, preemptor: Job) -> list[Job] | None:
    """The best of all sets of permitted victims, or `None` if none frees enough."""
    candidates = [job for job in state.jobs.values() if may_go(preemptor, job)]
    best = None
    for size in range(len(candidates) + 1):
        for chosen in combinations(candidates, size):
            if best is not None and cost(state, list(chosen)) >= best[0]:
                continue
            if fits(state, preemptor, frozenset(job.id for job in chosen)):
                best = (cost(state, list(chosen)), list(chosen))
    return None if best is None else best[1]
