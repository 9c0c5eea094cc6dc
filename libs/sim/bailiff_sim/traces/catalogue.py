"""Catalogue of bundled traces and of supported user formats."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from bailiff_sim.cluster import Machine, machines
from bailiff_sim.history import load

from . import azure, clusters
from .jobs import Trace, TraceJob
from .published import ACME, CHRONUS, HELIOS, KALOS, MURI, OPENB, PHILLY, SLURM, SPOT, TIRESIAS
from .rows import TraceProblem

SHIPPED: Mapping[str, Callable[[], Trace]] = {
    **{each.name: each.load for each in (PHILLY, *OPENB.values(), *CHRONUS.values(), *MURI.values(), KALOS)},
    **{f"azure-llm-inference-2023/{name}": partial(azure.load, name) for name in ("code", "conv")},
    TIRESIAS.name: TIRESIAS.load,
}
FORMATS: Mapping[str, Callable[[Path], Trace]] = {
    "history": load.trace,
    "slurm": SLURM.load,
    "helios": HELIOS.load,
    "acme": ACME.load,
    "spot-2026": SPOT.load,
    "philly": PHILLY.load,
    "openb": OPENB["default"].load,
    "chronus": CHRONUS["MIX1"].load,
    "muri": MURI["trace2"].load,
    "tiresias": TIRESIAS.load,
}
CLUSTERS: Mapping[str, Callable[[], list[Machine]]] = {
    "alibaba-openb-2023": clusters.openb,
    "alibaba-pai-2020": clusters.pai,
    "alibaba-lingjun-2023": clusters.lingjun,
    PHILLY.name: lambda: machines(PHILLY.cluster),
}


def trace(name: str) -> Trace:
    """Loads a bundled trace, or `FORMAT:FILE`; traces joined with + start together. Raises `TraceProblem`."""
    kind, colon, file = name.partition(":")
    named = [name] if colon and kind in FORMATS and Path(file).exists() else name.split("+")
    parts = [_one(part) for part in named]
    if len(parts) == 1:
        return parts[0]
    jobs, tiers, left_out = list[TraceJob](), dict[str, str](), dict[str, int]()
    for number, part in enumerate(parts):
        shift = min(job.submitted for job in parts[0].jobs) - min(job.submitted for job in part.jobs)
        prefix = f"{number}." if number else ""
        jobs += [_moved(job, shift, prefix) for job in part.jobs]
        tiers |= part.tiers
        left_out |= {f"{part.name}: {reason}": count for reason, count in part.left_out.items()}
    notes = [note for part in parts for note in part.notes]
    return Trace(name, jobs, parts[0].cluster, tiers, left_out=left_out, notes=notes)


def cluster(text: str) -> list[Machine]:
    """Parses `16x8xH100-80GB`, a real cluster's name with an optional size (`alibaba-pai-2020:100`), or `history:FOLDER`.

    Raises `ValueError`.
    """
    name, _, most = text.partition(":")
    if name == "history" and most:
        return load.machines(Path(most))
    if name not in CLUSTERS:
        try:
            return machines(text)
        except ValueError as error:
            raise ValueError(f"{error}; or one of {', '.join(CLUSTERS)}") from None
    if most and not (most.isdecimal() and int(most)):
        raise ValueError(f"{text!r}: expected a number of machines after the colon, found {most!r}")
    found = CLUSTERS[name]()
    return found[: int(most)] if most else found


def _one(name: str) -> Trace:
    kind, colon, file = name.partition(":")
    if colon and kind in FORMATS:
        found = FORMATS[kind](Path(file))
    elif name in SHIPPED:
        found = SHIPPED[name]()
    else:
        known = f"traces: {', '.join(SHIPPED)}\nfile formats, as in slurm:jobs.txt: {', '.join(FORMATS)}"
        raise TraceProblem(f"there is no trace {name!r}\n{known}")
    if not found.jobs:
        raise TraceProblem(f"{name}: no job with GPUs and a run time")
    return found


def _moved(job: TraceJob, shift: int, prefix: str) -> TraceJob:
    return replace(job, submitted=job.submitted + shift, name=f"{prefix}{job.name}"[:63])
