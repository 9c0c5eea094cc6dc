"""Records of the archive with what they say: the words and sentences in which the live stream tells the same records."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from bailiff.eventline.lines import lines
from bailiff.events import events_of
from bailiff_core.model.pool import Pool
from bailiff_core.records import AUDIT_TYPES, Record
from bailiff_core.records.wire import time_value

LISTS = re.compile(r"domains/(?P<pool>[^/]+)/(records|(jobs|nodes|projects)/[^/]+/timeline)")
SLICE = 50  # records, then others have their turn
KINDS = {kind.NAME: kind for kind in AUDIT_TYPES.values()}  # of several versions the newest


async def with_sentences(items: list[Mapping[str, Any]], pool: Pool) -> list[dict[str, Any]]:
    """Each with `word` and `text`; without them where it is of a later or an earlier release. pool: gives names to numbers."""
    told = []
    for at, item in enumerate(items, 1):
        told.append({**item, **_said(item, pool)})
        if at % SLICE == 0:
            await asyncio.sleep(0)
    return told


def _said(item: Mapping[str, Any], pool: Pool) -> dict[str, str]:
    kind = KINDS.get(item["type"])
    if kind is None:
        return {}
    try:
        data = kind.model_validate(item["data"], strict=False)
    except ValueError:
        return {}
    record = Record(
        item["domain"], item["seq"], item["epoch"], item["turn"], False, time_value(item["time"]), "", "", "", 0, kind.TYPE, data
    )
    rows = events_of(record, pool)
    if rows:
        first, *others = rows
        return {
            "word": first["type"],
            "text": "; ".join([first["reason"], *(f"{row['job']}: {row['reason']}" for row in others)]),
        }
    said = lines(record, pool)[-1].said
    return {"word": said.what[:1].upper() + said.what[1:], "text": said.more}
