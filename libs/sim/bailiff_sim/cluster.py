"""Machines of a simulation, from a text such as `8x8xV100-16GB` or from a trace."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bailiff_core.records.facts import DeviceInfo, NodeJoined

GIB = 1 << 30
SHAPE = re.compile(r"(?P<nodes>[1-9]\d*)x(?P<gpus>[1-9]\d*)(x(?P<model>[A-Za-z][\w.]*)(-(?P<gb>[1-9]\d*)GB)?)?")
CPUS_PER_GPU, GIB_PER_GPU = 16, 128


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine; all its GPUs are of one model."""

    name: str
    gpus: int
    model: str = "gpu"
    memory_gib: int = 80
    cpu_milli: int = 0
    memory_bytes: int = 0
    labels: tuple[tuple[str, str], ...] = ()


def machines(text: str) -> list[Machine]:
    """`16x8`, `16x8xV100-16GB`, or several of these with commas. Raises `ValueError` with the expected format."""
    found: list[Machine] = []
    for part in text.split(","):
        shape = SHAPE.fullmatch(part.strip())
        if shape is None or int(shape["gpus"]) > 64:
            raise ValueError(
                f"{part.strip()!r} is not a cluster: expected MACHINESxGPUS or MACHINESxGPUSxMODEL, as in 16x8 or 16x8xH100-80GB "
                "(at most 64 GPUs per machine), several separated by commas"
            )
        for _ in range(int(shape["nodes"])):
            found.append(Machine(f"node-{len(found):04d}", int(shape["gpus"]), shape["model"] or "gpu", int(shape["gb"] or 80)))
    return found


def joined(cluster: Iterable[Machine]) -> list[NodeJoined]:
    """Returns a `NodeJoined` per machine, numbered in their order."""
    return [
        NodeJoined(
            node=machine.name,
            number=number,
            incarnation=f"{machine.name}-life-1",
            machine_id=f"machine-{machine.name}",
            boot_id=f"{machine.name}-boot-1",
            report_number=0,
            cpu_milli=machine.cpu_milli or 1000 * CPUS_PER_GPU * max(1, machine.gpus),
            memory_bytes=machine.memory_bytes or GIB_PER_GPU * GIB * max(1, machine.gpus),
            labels=dict(machine.labels),
            devices=tuple(
                DeviceInfo(id=f"{machine.name}-gpu-{at}", model=machine.model, memory_bytes=machine.memory_gib * GIB)
                for at in range(machine.gpus)
            ),
        )
        for number, machine in enumerate(cluster)
    ]
