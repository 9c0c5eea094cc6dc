"""Formats durations, GPU-time, memory and counts for display, with integer arithmetic; lists of names, values of users."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
MAX_NAMED = 5
MAX_VALUE_LENGTH = 60
SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    15: "SIGTERM",
    24: "SIGXCPU",
}


def duration_text(micros: int) -> str:
    """`45s`, `3m20s`, `2h05m`, `4d03h` ; below a second in ms."""
    if abs(micros) < 1_000_000:
        return f"{micros // 1000}ms"
    seconds = micros // 1_000_000
    if seconds < 60:
        return f"{seconds}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02}s" if seconds else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02}m" if minutes else f"{hours}h"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02}h" if hours else f"{days}d"


NOT_STARTED = {126: "the program is not executable", 127: "a program was not found"}
"""Exit codes of shells, and of tasks whose command could not be started."""


def exit_text(code: int) -> str:
    """`exit code 3`, `signal 15 (SIGTERM)` for -15, `exit code 127 (a program was not found)`."""
    meaning = f" ({NOT_STARTED[code]})" if code in NOT_STARTED else ""
    return f"exit code {code}{meaning}" if code >= 0 else exit_value(code)


def exit_value(code: int) -> str:
    """`3`, `signal 15 (SIGTERM)` for -15, in a column of exit codes."""
    if code >= 0:
        return str(code)
    return f"signal {-code} ({SIGNALS[-code]})" if -code in SIGNALS else f"signal {-code}"


def with_exit_codes(recorded: str) -> str:
    """A recorded reason with the meaning of its exit code: a signal in place of one below 0."""
    return re.sub(r"exit code (-?[0-9]+)", lambda match: exit_text(int(match[1])), recorded)


def nearest_text(micros: int) -> str:
    """Formats a duration rounded to seconds; below one second to milliseconds."""
    unit = 1_000_000 if micros >= 1_000_000 else 1000
    return duration_text((micros + unit // 2) // unit * unit)


def cost_text(gpu_ms: int) -> str:
    """Formats GPU-time in the largest fitting unit: `3.1 GPU-min`."""
    for size, unit in ((3_600_000, "GPU-h"), (60_000, "GPU-min")):
        if gpu_ms >= size:
            return f"{_tenths(gpu_ms, size)} {unit}"
    return f"{(gpu_ms + 500) // 1000} GPU-s"


def exact_cost_text(gpu_ms: int) -> str:
    """Formats GPU-time to the millisecond, for amounts that are equal when rounded: `240.220 GPU-s`."""
    return f"{gpu_ms // 1000}.{gpu_ms % 1000:03} GPU-s"


def memory_text(amount: int) -> str:
    """`8GiB`; exact where a unit divides it, else to one decimal."""
    for unit, size in UNITS:
        if amount >= size:
            return f"{amount // size}{unit}" if amount % size == 0 else f"{_tenths(amount, size)}{unit}"
    return f"{amount}B"


def thousandths_text(amount: int) -> str:
    """`4` for 4000, `1.5` for 1500."""
    sign, (whole, part) = "-" if amount < 0 else "", divmod(abs(amount), 1000)
    return f"{sign}{whole}.{part:03}".rstrip("0").rstrip(".")


def gpus_text(milli: int) -> str:
    """`1 GPU`, `2.5 GPUs`."""
    return "1 GPU" if milli == 1000 else f"{thousandths_text(milli)} GPUs"


def cpus_counted_text(milli: int) -> str:
    """`4 CPUs of tasks without GPUs counted as GPUs`."""
    return f"{thousandths_text(milli)} CPU{'' if milli == 1000 else 's'} of tasks without GPUs counted as GPUs"


def count_text(number: int, thing: str) -> str:
    """`1 job`, `2 jobs`, `2 processes`, `2 batches`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}{'es' if thing.endswith(('s', 'ch')) else 's'}"


def user_text(name: str, verified: bool) -> str:
    """`ada`; `ada (not verified)` where no signature and no trusted sign-in shows that it is ada. Empty without a name."""
    return f"{name} (not verified)" if name and not verified else name


def approval_advice(node: str) -> str:
    """How to approve a waiting key. Not a command to copy: the key that was sent may be a stranger's."""
    return (
        f"compare the key with the one in the agent's log on {node} itself (announced: key=…); only if it is the same, with the "
        f"key as read there: bailiff node approve {node} KEY"
    )


def _tenths(amount: int, size: int) -> str:
    whole, tenth = divmod((amount * 10 + size // 2) // size, 10)
    return f"{whole}.{tenth}"


def first_names(names: Sequence[str], most: int = MAX_NAMED, *, total: int | None = None) -> str:
    """Lists the first names and counts the others: `a, b and 3 more`.

    Args:
        names: the names to list.
        most: how many of them are written out.
        total: number of all names, if `names` is not complete.
    """
    more = (len(names) if total is None else total) - len(names[:most])
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def value_text(value: object) -> str:
    """A value as text, shortened; lists and objects are summarised."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return shortened(json.dumps(value[: MAX_VALUE_LENGTH + 1]), MAX_VALUE_LENGTH)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 38 digits"
    return shortened(str(value), MAX_VALUE_LENGTH)


def shortened(text: str, limit: int) -> str:
    """The text, cut to at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def window_text(begin: int, end: int) -> str:
    """`2026-12-07 08:00 to 18:00 UTC`, of times in µs UTC."""
    first, last = minute_text(begin), minute_text(end)
    return f"{first} to {last[11:] if last[:10] == first[:10] else last} UTC"


def minute_text(time: int) -> str:
    """`2026-12-07 08:00`, of a time in µs UTC."""
    return f"{EPOCH_START + timedelta(minutes=time // 60_000_000):%Y-%m-%d %H:%M}"
