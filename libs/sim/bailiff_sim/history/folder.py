"""A folder with an imported history: `history.json`, `jobs.jsonl.gz` (a job a line) and `policy.yaml`. Reads and writes it.

The bytes follow from the sources alone.
"""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import TextIOWrapper
from pathlib import Path

from pydantic import TypeAdapter

from bailiff_log.file_writing import replacing, write
from bailiff_sim.cluster import Machine
from bailiff_sim.text_files import text_of

from .records import Attempt, HistoryJob, ProjectFact, Site, Tier

FORMAT = 1
MANIFEST, JOBS, POLICY = "history.json", "jobs.jsonl.gz", "policy.yaml"


@dataclass(frozen=True)
class History:
    """What `history.json` has.

    Attributes:
        checkpoint_every: The assumption in force when it was imported, µs; None: no checkpoints.
        machines_seen: The machines are those in the record, not those of a configuration.
        not_simulated: Sentences for the headline.
    """

    scheduler: str
    machines: tuple[Machine, ...]
    tiers: Mapping[str, Tier]
    projects: Mapping[str, ProjectFact]
    checkpoint_every: int | None
    machines_seen: bool
    recorded: Mapping[str, object]
    left_out: Mapping[str, int]
    bad_lines: int
    certainty: tuple[str, ...]
    not_simulated: tuple[str, ...] = ()


@contextmanager
def job_writer(folder: Path) -> Iterator[Callable[[HistoryJob], None]]:
    """Writes `jobs.jsonl.gz` at the end of the block, the same bytes for the same jobs. Yields what appends a job."""
    with (
        replacing(folder / JOBS) as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as zipped,
        TextIOWrapper(zipped, encoding="utf-8", write_through=False) as out,
    ):
        yield lambda job: print(json.dumps([*job[:-1], [list(each) for each in job.attempts]], ensure_ascii=False), file=out)


def write_manifest(folder: Path, history: History) -> None:
    """Writes `history.json`."""
    document = {"bailiff_history": FORMAT, **asdict(history)}
    write(folder / MANIFEST, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def is_history(folder: Path) -> bool:
    """Whether `bailiff import` wrote this folder."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> History:
    """Reads `history.json`. Raises `ValueError` if the folder has none."""
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
        if (found := json.loads(text)["bailiff_history"]) != FORMAT:
            raise ValueError(f"its format is {found}, and this release reads {FORMAT}")
        return TypeAdapter(History).validate_json(text)
    except OSError as error:
        raise ValueError(f"{folder / MANIFEST}: {error.strerror}; bailiff import writes this folder") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / MANIFEST} is not a manifest of bailiff import: {error}") from None


def read_jobs(folder: Path) -> Iterator[HistoryJob]:
    """Yields the jobs, by id. Raises `ValueError`."""
    path = folder / JOBS
    try:
        with text_of(path, errors="strict") as lines:
            for line in lines:
                *fields, attempts = json.loads(line)
                made = tuple(Attempt._make((*each[:4], tuple(each[4]), each[5])) for each in attempts)
                yield HistoryJob._make((*fields, made))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None


def site_policy(site: Site, gpus: int) -> dict[str, object]:
    """A policy with the old scheduler's order of classes and limits of projects, as a document. gpus: of all machines.

    A project without a quota gets the whole pool, so that nothing limits it that did not limit it before.
    """
    from bailiff_sim.traces.jobs import named

    ranks = {
        value: number
        for number, value in enumerate(sorted({tier.value for tier in site.tiers.values() if tier.value is not None}), 1)
    }
    classes: dict[str, dict[str, object]] = {}
    for name, tier in sorted(site.tiers.items()):
        value = 10 * ranks[tier.value] if tier.value is not None else 10
        classes.setdefault(named(name), {"name": named(name), "value": value, "preemptible": tier.preemptible})
    if not classes:
        classes["job"] = {"name": "job", "value": 10, "preemptible": True}
    lowest = min(classes.values(), key=lambda each: (int(str(each["value"])), str(each["name"])))
    lowest["global_default"] = True
    document: dict[str, object] = {"priority_classes": list(classes.values())}
    if any(project.gpu_limit is not None or project.gpu_quota is not None for project in site.projects.values()):
        document["projects"] = _projects(site, gpus, named)
    return document


def _projects(site: Site, gpus: int, named: Callable[[str], str]) -> list[dict[str, object]]:
    found: dict[str, dict[str, object]] = {"default": {"name": "default", "quota": {"gpus": gpus}}}
    for name, project in sorted(site.projects.items()):
        quota = project.gpu_quota if project.gpu_quota is not None else project.gpu_limit
        each: dict[str, object] = {"name": named(name), "quota": {"gpus": gpus if quota is None else quota}}
        if project.gpu_limit is not None:
            each["limit"] = {"gpus": project.gpu_limit}
        if project.parent in site.projects:
            each["parent"] = named(project.parent)
        if project.weight is not None:
            each["over_quota_weight"] = project.weight
        found[named(name)] = each
    return list(found.values())
