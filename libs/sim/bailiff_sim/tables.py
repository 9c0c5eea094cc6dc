"""Metrics of runs as table rows of text, for HTML and terminals."""

from collections.abc import Mapping, Sequence

from .tune import Point

Table = tuple[list[str], list[list[str]]]


def compared(found: Sequence[Mapping[str, object]]) -> Table:
    """Main metrics: one row per run."""
    several = len({each["seed"] for each in found}) > 1
    head = [
        "scheduler",
        *(["seed"] if several else []),
        "wait mean",
        "wait p95",
        "JCT mean",
        "slowdown p95",
        "evictions",
        "GPU-h lost",
        "goodput",
        "used",
        "large gangs p95",
        "Jain",
        "not ended",
    ]
    rows = []
    for each in found:
        waits, jct, slow = (_all(each, name) for name in ("waiting", "jct", "slowdown"))
        hours, gangs, fair = _of(each, "gpu_hours"), _of(each, "large_gangs"), _of(each, "fairness")
        rows.append(
            [
                str(each["label"]),
                *([str(each["seed"])] if several else []),
                hours_text(waits.get("mean")),
                hours_text(waits.get("p95")),
                hours_text(jct.get("mean")),
                _number(slow.get("p95")),
                f"{each['evictions']:,}",
                _number(_float(hours["lost"]) + _float(hours["restarts"])),
                _percent(each["goodput"]),
                _percent(each["utilisation"]),
                hours_text(gangs.get("p95")),
                "-" if fair["jain"] is None else f"{fair['jain']:.3f}",
                f"{_float(each['unfinished']) + _float(each['refused']):,.0f}",
            ]
        )
    return head, rows


def by_key(found: Sequence[Mapping[str, object]], name: str, prefix: str) -> Table:
    """Mean, p50, p95 and p99 of one metric, for each key with the prefix."""
    rows = []
    for each in found:
        for key, spread in _of(each, name).items():
            if key.startswith(prefix) and isinstance(spread, dict):
                values = [hours_text(spread.get(part)) for part in ("mean", "p50", "p95", "p99")]
                rows.append([_label(each, found), key.removeprefix(prefix), f"{spread['count']:,}", *values])
    return ["scheduler", prefix.strip(), "jobs", "mean", "p50", "p95", "p99"], rows


def by_size(found: Sequence[Mapping[str, object]]) -> Table:
    """Mean and p95 of the wait time by job size, in GPUs."""
    sizes = list(_of(found[0], "waiting_by_size")) if found else []
    rows = []
    for each in found:
        waits = _of(each, "waiting_by_size")
        cells = [
            f"{hours_text(waits[size]['mean'])} / {hours_text(waits[size]['p95'])}" if waits[size]["count"] else "-"
            for size in sizes
        ]
        rows.append([_label(each, found), *cells])
    return ["scheduler (mean / p95)", *(f"{size} GPU{'' if size == '1' else 's'}" for size in sizes)], rows


def by_project(found: Sequence[Mapping[str, object]]) -> Table:
    """Each project's share of its entitlement."""
    names = list(dict.fromkeys(name for each in found for name in _of(_of(each, "fairness"), "share_of_entitlement")))[:40]
    rows = [[name, *(_percent(_of(_of(e, "fairness"), "share_of_entitlement").get(name)) for e in found)] for name in names]
    return ["project", *(_label(each, found) for each in found)], rows


def hours_text(hours: object) -> str:
    """`12 s`, `3.4 min`, `2.1 h`, `5.2 d`."""
    if not isinstance(hours, int | float):
        return "-"
    seconds = hours * 3600
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def change_text(hours: float) -> str:
    """`+3.4 min`, `-2.1 h`."""
    return f"{'-' if hours < 0 else '+'}{hours_text(abs(hours))}"


def _label(each: Mapping[str, object], found: Sequence[Mapping[str, object]]) -> str:
    return f"{each['label']}, seed {each['seed']}" if len({other["seed"] for other in found}) > 1 else str(each["label"])


def _of(each: Mapping[str, object], name: str) -> dict[str, dict[str, float]]:
    found = each[name]
    assert isinstance(found, dict)
    return found


def _all(each: Mapping[str, object], name: str) -> dict[str, float]:
    return _of(each, name).get("all", {"count": 0})


def _float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _number(value: object) -> str:
    return f"{value:,.1f}" if isinstance(value, int | float) else "-"


def _percent(value: object) -> str:
    return f"{100 * value:.1f} %" if isinstance(value, int | float) else "-"


def points_table(points: Sequence[Point]) -> Table:
    """One row per point of a search, in their order."""
    names = list(points[0].setting) if points else []
    rows = [
        [
            "*" if point.frontier else "",
            *(str(point.setting[name]) for name in names),
            _number(point.lost),
            hours_text(point.waited),
            hours_text(point.waited_p95),
            hours_text(point.others_waited),
            _number(point.evictions),
            f"{point.not_ended:,.0f}",
        ]
        for point in points
    ]
    return ["frontier", *names, "GPU-h lost", "high classes wait", "p95", "others wait", "evictions", "not ended"], rows
