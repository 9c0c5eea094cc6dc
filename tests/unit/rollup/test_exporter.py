"""Metrics of a pool: also before its first event, and while its log is quiet."""

from typing import Any

from tests.kits.log_builder import MINUTE, SECOND, Story, policy
from tests.unit.rollup.kit import Scraped, project

CLASSES = [
    {"name": "inference", "value": 125, "preemptible": False, "start_slo": {"p95": "30s", "p99": "2m"}},
    {"name": "train", "value": 50, "preemptible": True, "global_default": True},
]


def pool_of_two(**parts: Any) -> Story:
    """Eight GPUs, of which two projects have four each."""
    story = Story(policy(priority_classes=CLASSES, projects=[project("lab", 4), project("ward", 4)], **parts))
    story.node("n1", gpus=8)
    return story


def test_series_are_exported_as_zero_before_their_first_event() -> None:
    scraped = Scraped(pool_of_two())
    assert scraped("bailiff_evictions_total", action="preempt", rule="priority") == 0
    assert scraped("bailiff_evictions_total", action="evict", rule="drain") == 0
    assert scraped("bailiff_evictions_total", action="migrate", rule="resize") == 0
    assert scraped("bailiff_repeat_evictions_total", window="1h") == 0
    assert scraped("bailiff_evictions_cancelled_total") == 0
    assert scraped("bailiff_gpu_seconds_lost_total", cause="preemption") == 0
    assert scraped("bailiff_gpu_seconds_lost_total", cause="lost") == 0
    assert scraped("bailiff_gpu_seconds_saved_total") == 0
    assert scraped("bailiff_jobs_submitted_total", priority_class="train") == 0
    assert scraped("bailiff_start_seconds_count", priority_class="inference") == 0
    assert scraped("bailiff_start_seconds_bucket", priority_class="inference", le="+Inf") == 0
    assert scraped("bailiff_starts_late_total", priority_class="inference", percent="99") == 0


def test_a_class_without_a_start_slo_exports_none_and_has_no_late_starts() -> None:
    scraped = Scraped(pool_of_two())
    assert scraped("bailiff_start_slo_seconds", priority_class="inference", percent="95") == 30
    assert scraped("bailiff_start_slo_seconds", priority_class="inference", percent="99") == 120
    assert scraped("bailiff_start_slo_seconds", priority_class="train", percent="95") is None
    assert scraped("bailiff_starts_late_total", priority_class="train", percent="95") is None


def test_demand_and_fair_share_are_as_of_the_last_record_and_not_of_the_last_sample() -> None:
    story = pool_of_two()
    story.submit("first", gpus=8, project="lab", after=MINUTE)
    story.started("first", after=SECOND)
    story.submit("second", gpus=2, project="ward", after=SECOND)  # then nothing for hours, nor a new minute
    scraped = Scraped(story)
    of = {
        (name, kind): scraped("bailiff_project_gpus", project=name, kind=kind)
        for name in ("lab", "ward", "")
        for kind in ("used", "requested", "fair_share", "available")
    }
    assert (of["lab", "used"], of["lab", "requested"], of["lab", "fair_share"]) == (8, 8, 6)
    assert (of["ward", "used"], of["ward", "requested"], of["ward", "fair_share"]) == (0, 2, 2)
    assert (of["", "used"], of["", "available"], of["lab", "available"]) == (8, 8, None)
