"""Machines of real clusters of Alibaba: PAI 2020, openb 2023 and Lingjun 2023."""

from bailiff_sim.cluster import GIB, Machine

from .rows import Row, shipped, table

LINGJUN_GPUS = 8  # per host; not in the topology file


def pai() -> list[Machine]:
    """Machines of Alibaba PAI 2020 (NSDI '22) with GPUs; the file lists 1,897."""
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


def openb() -> list[Machine]:
    """The 1,213 machines with GPUs of openb 2023 (ATC '23)."""

    def machine(row: Row) -> Machine:
        cpu, memory = row.count("cpu_milli"), row.count("memory_mib") << 20
        return Machine(row.text("sn"), row.count("gpu"), row.text("model"), cpu_milli=cpu, memory_bytes=memory)

    columns = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
    return table(shipped("alibaba-openb-2023", "openb_node_list_gpu_node.csv"), columns, machine)


def lingjun() -> list[Machine]:
    """The 847 hosts of Lingjun (SIGCOMM '24), labelled with their switches: core, aggregation, top of rack."""

    def machine(row: Row) -> Machine:
        labels = tuple((level.lower(), row.text(level)) for level in ("DSW", "PSW", "ASW"))
        return Machine(f"host-{row.line - 1:04d}", LINGJUN_GPUS, labels=labels)

    return table(shipped("alibaba-lingjun-2023-topology", "topo.csv.gz"), ("ip", "DSW", "PSW", "ASW"), machine)
