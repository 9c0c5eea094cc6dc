"""Re-identification risks of a dataset: small groups that an insider could recognise. For review before publication."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bailiff_core.humanize import count_text

FEW = 5


def small_groups(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Sentences about groups with fewer than `FEW` jobs, and about unique job sizes, quotas and GPU models."""
    jobs, found = rows["jobs"], []
    for column in ("project", "user", "class"):
        few = [count for name, count in Counter(row[column] for row in jobs if row[column]).items() if count < FEW]
        if few:
            found.append(f"{count_text(len(few), column)} with fewer than {FEW} jobs")
    sizes = Counter((row["tasks"], row["gpu_milli"], row["cpu_milli"], row["memory_bytes"]) for row in jobs)
    once = sum(count == 1 for count in sizes.values())
    if once:
        found.append(f"{once} of {len(jobs)} jobs with a unique size")
    newest = {row["project"]: row["quota_gpu_milli"] for row in rows["projects"]}
    alone = sum(count == 1 for count in Counter(newest.values()).values())
    if alone:
        found.append(f"{alone} of {len(newest)} projects with a unique quota")
    models = Counter(row["gpu_model"] for row in rows["nodes"] if row["event"] == "joined" and row["gpu_model"])
    rare = [model for model, count in models.items() if count == 1]
    if rare:
        found.append(f"{count_text(len(rare), 'GPU model')} on one node only")
    return found
