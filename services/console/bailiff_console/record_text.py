"""Adds event name and message to records of the archive, as the live stream has them."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from bailiff.render.events import events_of
from bailiff.render.record_text.lines import lines
from bailiff_core.model.state import PoolState
from bailiff_core.records import AUDIT_TYPES, Record
from bailiff_core.records.wire import time_value

LISTS = re.compile(r"pools/(?P<pool>[^/]+)/(records|(jobs|nodes|projects)/[^/]+/timeline)")
SLICE = 50  # records between yields to the event loop
TYPES = {kind.NAME: kind for kind in AUDIT_TYPES.values()}  # the newest version of each


class RecordText(TypedDict, total=False):
    """What the console adds to a record of the archive; absent for a type of another release."""

    event: str
    message: str


async def with_sentences(items: list[Mapping[str, Any]], state: PoolState) -> list[dict[str, Any]]:
    """Each record with `event` and `message`; without them if its type is of another release. state: resolves node numbers."""
    result = []
    for at, item in enumerate(items, 1):
        result.append({**item, **_text_of(item, state)})
        if at % SLICE == 0:
            await asyncio.sleep(0)
    return result


def _text_of(item: Mapping[str, Any], state: PoolState) -> RecordText:
    kind = TYPES.get(item["type"])
    if kind is None:
        return {}
    try:
        data = kind.model_validate(item["data"], strict=False)
    except ValueError:
        return {}
    record = Record(
        item["pool"], item["seq"], item["epoch"], item["cycle"], False, time_value(item["time"]), "", "", "", 0, kind.TYPE, data
    )
    rows = events_of(record, state)
    if rows:
        first, *others = rows
        return {
            "event": first["type"],
            "message": "; ".join([first["reason"], *(f"{row['job']}: {row['reason']}" for row in others)]),
        }
    statement = lines(record, state)[-1].statement
    return {"event": statement.what[:1].upper() + statement.what[1:], "message": statement.detail}
