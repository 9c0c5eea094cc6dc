"""The eviction notice: the file `notice.json` of the control directory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Notice:
    """This job is preempted. Deadlines are on the machine's boot-time clock, ns; 0 for none."""

    reason: str
    preemptor: str | None
    soft_deadline_ns: int
    hard_deadline_ns: int


def read_notice(control: Path) -> Notice | None:
    """The present notice, or None."""
    try:
        data: Any = json.loads((control / "notice.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        data = {}
    if not isinstance(data, dict):
        data = {}
    return Notice(
        str(data.get("reason", "")),
        data.get("preemptor"),
        _whole(data.get("soft_deadline_boottime_ns")),
        _whole(data.get("hard_deadline_boottime_ns")),
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
