"""`plan --live` says how many of the job's GPUs would be borrowed."""

from types import SimpleNamespace
from typing import Any

import pytest

from bailiff.client import live_plan
from bailiff_core.model.demand import JobDemand, TaskGroup


def _sentences(monkeypatch: pytest.MonkeyPatch, used: int, victims: tuple[Any, ...] = (), gpus: int = 8) -> list[str]:
    usage = {
        "top": {"used": (used * 1000, 0, 0), "quota": (None, None, None)},
        "team": {"used": (used * 1000, 0, 0), "quota": (8000, 0, 0)},
    }
    monkeypatch.setattr("bailiff_log.quota_usage_rows.project_usage", lambda state: usage)
    projects = [SimpleNamespace(name="top", parent=None), SimpleNamespace(name="team", parent="top")]
    state: Any = SimpleNamespace(policy=None, rules=SimpleNamespace(projects=projects))
    demand = JobDemand(job="j", project="team", tasks=(TaskGroup(gpu_milli=gpus * 1000, cpu_milli=1000, memory_bytes=1),))
    return list(live_plan._borrowed(state, demand, victims))


def test_what_is_above_the_quota_is_borrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _sentences(monkeypatch, 4) == ["4 of these 8 GPUs would be borrowed and may be reclaimed"]
    assert _sentences(monkeypatch, 8) == ["8 GPUs would be borrowed and may be reclaimed"]
    assert _sentences(monkeypatch, 0) == []


def test_victims_of_the_same_project_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    victim = {"project": "team", "gpus": 4.0, "to": []}
    assert _sentences(monkeypatch, 4, (victim,)) == []
    assert _sentences(monkeypatch, 4, ({**victim, "project": "other"},)) != []
    assert _sentences(monkeypatch, 4, ({**victim, "to": ["n1"]},)) != []
