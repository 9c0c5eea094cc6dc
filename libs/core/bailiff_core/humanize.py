"""Formats durations, GPU-time, memory and counts for display, with integer arithmetic."""

UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


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


def _tenths(amount: int, size: int) -> str:
    whole, tenth = divmod((amount * 10 + size // 2) // size, 10)
    return f"{whole}.{tenth}"
