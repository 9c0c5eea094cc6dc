"""The month in data/: complete, small, reproducible by its generator, and without names."""

import asyncio
import gzip
import hashlib
import json
from pathlib import Path

import pytest
from tests.kits import dataset_month

from bailiff_core.model.state import ENDED
from bailiff_sim.from_dataset import from_dataset

MONTH = Path(__file__).parents[3] / "data" / "month"


def log_of(folder: Path) -> list[str]:
    return gzip.decompress((folder / "log.jsonl.gz").read_bytes()).decode().splitlines()[1:]


def test_its_files_are_those_that_the_manifest_names_and_less_than_a_megabyte():
    manifest = json.loads((MONTH / "dataset.json").read_text())
    for name, about in manifest["files"].items():
        assert hashlib.sha256((MONTH / name).read_bytes()).hexdigest() == about["sha256"]
    assert sum(path.stat().st_size for path in MONTH.iterdir()) < 1_000_000


@pytest.mark.slow
def test_the_generators_names_are_nowhere_in_it():
    text = b"".join(gzip.decompress(path.read_bytes()) for path in MONTH.glob("*.gz")).decode()
    users = [user for several in dataset_month.USERS.values() for user in several]
    names = [name for name, _, _ in dataset_month.PROJECTS]
    workload = dataset_month.month()
    jobs = [demand.job for _, demand in workload.demands()]
    nodes = [node.node for node in workload.nodes]
    assert not [name for name in (*users, *names, *jobs, *nodes, "-laptop", "2026-", "rack") if name in text]


@pytest.mark.slow
def test_it_loads_as_a_workload_of_the_simulator():
    found = from_dataset(MONTH)
    assert len(list(found.workload.demands())) == len(found.recorded.jobs) > 300
    assert found.workload.gpus == 48
    assert {job.outcome for job in found.recorded.jobs.values()} <= {*ENDED, None}
    assert sum(job.evictions.get("preemption", 0) for job in found.recorded.jobs.values()) > 10


@pytest.mark.slow
def test_a_folder_that_is_no_dataset_or_was_changed_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="is not a dataset"):
        from_dataset(tmp_path)
    (tmp_path / "dataset.json").write_bytes((MONTH / "dataset.json").read_bytes())
    changed = gzip.decompress((MONTH / "log.jsonl.gz").read_bytes()).replace(b'\\"gpus\\":8', b'\\"gpus\\":9', 1)
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(changed))
    with pytest.raises(ValueError, match="prev is"):
        from_dataset(tmp_path)


def test_the_generator_makes_its_beginning_again(tmp_path: Path):
    """Records of the first days are the same, to the byte. After a change of the generator or of `LOGIC`, write it again."""
    there = log_of(MONTH)
    asyncio.run(dataset_month.write(tmp_path / "again", days=2))
    again = log_of(tmp_path / "again")
    assert len(again) > 50
    assert again[:-10] == there[: len(again) - 10]
