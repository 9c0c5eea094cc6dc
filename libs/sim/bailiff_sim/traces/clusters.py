"""Machines of real clusters: Alibaba PAI 2020 and Lingjun 2023."""

from bailiff_sim.cluster import GIB, Machine

from .files import shipped
from .rows import Row, table

LINGJUN_GPUS = 8  # its hosts have eight each; the topology file does not say so


def pai() -> list[Machine]:
    """Those of its 1,897 machines that have GPUs (NSDI '22)."""
    number = 0

    def machine(row: Row) -> Machine | None:
        nonlocal number
        if not row.count("cap_gpu"):
            return None
        number += 1
        cpu, memory = 1000 * row.count("cap_cpu"), GIB * row.count("cap_mem")
        return Machine(f"pai-{number:04d}", row.count("cap_gpu"), row.text("gpu_type"), cpu_milli=cpu, memory_bytes=memory)

    columns = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")
    return table(shipped("alibaba-pai-2020-machines", "pai_machine_spec.csv.gz"), columns, machine)


def lingjun() -> list[Machine]:
    """Its 847 hosts (SIGCOMM '24), labelled with their switches: core, aggregation, top of the rack."""

    def machine(row: Row) -> Machine:
        labels = tuple((level.lower(), row.text(level)) for level in ("DSW", "PSW", "ASW"))
        return Machine(f"host-{row.line - 1:04d}", LINGJUN_GPUS, labels=labels)

    return table(shipped("alibaba-lingjun-2023-topology", "topo.csv.gz"), ("ip", "DSW", "PSW", "ASW"), machine)
