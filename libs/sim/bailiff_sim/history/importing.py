"""Imports a history: rows into the store, jobs into the folder, and what was recorded into the manifest."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from bailiff_core.humanize import count_text, nearest_text
from bailiff_log.file_writing import write

from .folder import POLICY, History, job_writer, site_policy, write_manifest
from .recorded import Recorded
from .records import BadLine, Site, Source
from .store import Store
from .usage import Peaks


@dataclass(frozen=True)
class Assumptions:
    """checkpoint_every: work between checkpoints of all jobs, µs; None: they make none."""

    checkpoint_every: int | None


def import_history(source: Source, folder: Path, assumed: Assumptions, report_bad: Callable[[BadLine], None]) -> History:
    """Writes the folder and returns its manifest. Raises `ValueError` if nothing can be imported."""
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=".import-", dir=folder))
    store = Store(place)
    try:
        store.fill(source.rows, report_bad)
        if not store.rows:
            bad = f", and {count_text(store.bad, 'line')} cannot be read" if store.bad else ""
            raise ValueError(
                f"no job with GPUs that has run is in the files{bad}: {_left_out(store.skipped) or 'they are empty'}"
            )
        recorded = Recorded(store, source, assumed.checkpoint_every)
        with job_writer(folder) as append:
            for job in store.jobs():
                recorded.note(job)
                append(job)
        site, peaks = source.site, Peaks(store.by_start())
        seen = not site.machines
        machines = site.machines or peaks.machines()
        machines, enlarged = peaks.at_least(machines)
        if enlarged:
            site.unknown.append(
                f"the CPUs or memory of {count_text(enlarged, 'machine')}: the configuration has less than was in use at once, "
                "which is taken"
            )
        gpus = sum(machine.gpus for machine in machines)
        if gpus < peaks.total:
            site.unknown.append(f"the machines have {gpus} GPUs, but {peaks.total} were in use at once: some are missing")
        history = History(
            site.scheduler,
            tuple(machines),
            dict(site.tiers),
            dict(site.projects),
            assumed.checkpoint_every,
            seen,
            {**recorded.figures(), "most_gpus_in_use": peaks.total},
            dict(store.skipped),
            store.bad,
            tuple(_certainty(source, recorded, store, assumed)),
            tuple(f"not simulated: {each}" for each in _not_simulated(site, store)),
        )
        write_manifest(folder, history)
        what = "the order of its classes and the limits of its projects"
        head = f"# Written by bailiff import from the record of {site.scheduler}: {what}.\n"
        text = yaml.safe_dump(site_policy(site, gpus or peaks.total), sort_keys=False)
        write(folder / POLICY, head + text)
    finally:
        store.close()
        shutil.rmtree(place)
    return history


def _left_out(skipped: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in skipped.items())


def _not_simulated(site: Site, store: Store) -> list[str]:
    found = list(site.not_simulated)
    if not store.has_cpus():
        found.append("CPUs and memory: the record has none of these jobs, so only GPUs limit where they run")
    elif "without a GPU" in store.skipped:
        count = count_text(store.skipped["without a GPU"], "job")
        found.append(f"{count} without a GPU, and the CPUs and memory that they used beside the others")
    return found


def _certainty(source: Source, recorded: Recorded, store: Store, assumed: Assumptions) -> list[str]:
    """Sentences: what is unknown, and what is assumed instead."""
    found = [f"unknown: {each}" for each in source.site.unknown]
    if store.bad:
        found.append(f"unknown: {count_text(store.bad, 'line')} could not be read and is left out of all figures")
    if not recorded.preemptions and not source.site.unmeasured_preemptions:
        found.append(
            "unknown: whether anything was preempted: the record shows no preemption, which is also what a record without "
            "them looks like"
        )
    elif not recorded.rows_again:
        found.append(
            "unknown: the earlier attempts of requeued jobs: no job has more than one, so the record may have the last one only"
        )
    if recorded.unmeasured:
        found.append(f"unknown: how long {count_text(recorded.unmeasured, 'preempted attempt')} had run: they count as no loss")
    if recorded.not_back:
        found.append(
            f"unknown: the full run time of {count_text(recorded.not_back, 'job')} that did not start again after a "
            "preemption: all its work counts as lost, and the simulation takes what it ran"
        )
    if recorded.running:
        found.append(
            f"unknown: the end of {count_text(recorded.running, 'job')} still running: what they ran until then is taken"
        )
    if recorded.untimed:
        found.append(f"unknown: the waiting time of {count_text(recorded.untimed, 'job')} without a time of start")
    every = assumed.checkpoint_every
    found.append(
        "assumed: jobs make no checkpoints, so a preemption loses all work of its attempt"
        if every is None
        else f"assumed: each job makes a checkpoint every {nearest_text(every)}, so a preemption loses the work since then"
    )
    return found
