"""Rows of `sacct -P`, line by line: array tasks, heterogeneous jobs, requeued attempts; steps are left out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from bailiff_core.humanize import count_text
from bailiff_sim.text_files import numbered_lines

from . import slurm_values as slurm
from .records import SECOND, AttemptRow, BadLine, Found, Site, Skipped, Source, State, Tier
from .values import Unreadable, elapsed, is_ambiguous, moment, shown

FIELDS = (
    "JobID",
    "JobIDRaw",
    "JobName",
    "User",
    "Account",
    "Partition",
    "QOS",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "Elapsed",
    "TimelimitRaw",
    "State",
    "ReqTRES",
    "AllocTRES",
    "NNodes",
    "NodeList",
    "Suspended",
)
COMMAND = f"sacct --allusers --duplicates --parsable2 --format={','.join(FIELDS)} --starttime=2026-01-01 > sacct.txt"
FREE_TEXT = ("jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "reason", "constraints", "container")
GPU_COLUMNS = ("alloctres", "reqtres", "allocgres", "reqgres")
NO_TIME = ("", "Unknown", "None", "N/A")
MINUTE = 60 * SECOND
JOB, WHEN = ("jobid", "jobidraw"), ("submit", "start", "end", "state")


@dataclass(frozen=True)
class Options:
    """How the file was written.

    Attributes:
        fields: Its columns, if it has no header.
        tier: The column that is the level of priority.
    """

    timezone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    delimiter: str = "|"
    fields: Sequence[str] = ()
    tier: str = "qos"


def read(files: Sequence[Path], site: Site, options: Options) -> Source:
    """The rows of the files. site: from slurm.conf and sacctmgr, extended by what the rows lack. Raises `ValueError`."""
    return Source(site, _Reader(site, options).rows(files))


class _Reader:
    def __init__(self, site: Site, options: Options) -> None:
        self._site, self._options = site, options
        self._columns: list[str] = []
        self._free: list[int] = []
        self._first_id = 0
        self._by_request = self._ambiguous = self._suspended = self._suspended_us = self._eligible_later = 0

    def rows(self, files: Sequence[Path]) -> Iterator[Found]:
        for path in files:
            self._columns = []
            for number, line in numbered_lines(path):
                if not line:
                    continue
                if not self._columns and self._read_header(path, line):
                    continue
                yield self._row(f"{path.name}:{number}", line)
        self._say_unknown()

    def _read_header(self, path: Path, line: str) -> bool:
        """Sets the columns. Returns whether the line was the header."""
        given = [name.strip() for name in self._options.fields]
        first = [name.strip().lower() for name in line.split(self._options.delimiter)]
        is_header = any(name in first for name in JOB) and "state" in first
        if not is_header and not given:
            raise ValueError(
                f"{path}:1: expected the header of sacct ({self._options.delimiter.join(FIELDS[:4])}…), found {shown(line)}: "
                "name the columns of a file without header with --fields, and another separator with --delimiter"
            )
        self._columns = first if is_header else [name.lower() for name in given]
        while self._columns and not self._columns[-1]:
            self._columns.pop()  # sacct -p ends each line with the delimiter
        missing = [name for name in WHEN if name not in self._columns]
        if not any(name in self._columns for name in JOB):
            missing.insert(0, "JobID")
        if not any(name in self._columns for name in GPU_COLUMNS):
            missing.append("AllocTRES (without it nothing says how many GPUs a job had)")
        if missing:
            raise ValueError(f"{path}:1: the file lacks the columns {', '.join(missing)}; write it with: {COMMAND}")
        self._first_id = next(self._columns.index(name) for name in JOB if name in self._columns)
        self._free = [at for at, name in enumerate(self._columns) if name in FREE_TEXT]
        return is_header

    def _row(self, where: str, line: str) -> Found:
        values = line.split(self._options.delimiter)
        if self._first_id < len(values) and "." in values[self._first_id]:
            return self._step(where, values[self._first_id].strip())
        if len(values) == len(self._columns) + 1 and not values[-1]:
            values.pop()
        extra = len(values) - len(self._columns)
        if extra > 0 and len(self._free) == 1:  # the delimiter is in the only column of free text
            at = self._free[0]
            values[at : at + extra + 1] = [self._options.delimiter.join(values[at : at + extra + 1])]
            extra = 0
        if extra:
            more = ": a value contains the delimiter, use --delimiter with sacct and here" if extra > 0 else ""
            return BadLine(where, "line", f"expected {len(self._columns)} values, found {len(self._columns) + extra}{more}")
        row = dict(zip(self._columns, (value.strip() for value in values), strict=True))
        column = "line"
        try:
            column = next(name for name in JOB if name in row)
            job = slurm.job_id(row[column])
            column = "state"
            state = slurm.state(row["state"])
            if job.waiting > 1 or state == "pending":
                return Skipped("had not started", job.waiting)
            for column, check in _CHECKS.items():
                check(row.get(column, ""), self._options.timezone)
        except Unreadable as error:
            return BadLine(where, column, str(error))
        return self._attempt(where, job, state, row)

    def _step(self, where: str, text: str) -> Found:
        try:
            slurm.job_id(text)
        except Unreadable as error:
            return BadLine(where, self._columns[self._first_id], str(error))
        return Skipped("job steps")

    def _attempt(self, where: str, job: slurm.JobId, state: State, row: Mapping[str, str]) -> Found:
        asked = not row.get("alloctres", row.get("allocgres", ""))
        placed = (
            bool(slurm.nodes(row["nodelist"]))
            if "nodelist" in row
            else not asked or not ({"alloctres", "allocgres"} & row.keys())
        )
        if row["start"] in NO_TIME or not placed:
            return Skipped("never started")
        gpus = _gpus(row)
        if not gpus.number:
            return Skipped("without a GPU")
        self._by_request += asked
        try:
            start, end, ran = self._times(row)
            submitted = min(self._submitted(row), start)
        except Unreadable as error:
            return BadLine(where, "end", str(error))
        if end is None and state != "running":
            return BadLine(where, "end", f"expected a time, as the state is {row['state']}, found {shown(row['end'])}")
        if end is None and ran is None:
            return Skipped("had not ended, and the file has no column Elapsed")
        suspended = elapsed(row["suspended"]) if row.get("suspended") else 0
        if suspended:
            self._suspended, self._suspended_us = self._suspended + 1, self._suspended_us + suspended * gpus.number
        tier = row.get(self._options.tier, "")
        if tier:
            self._site.tiers.setdefault(tier, Tier())
        cpu_milli, memory = slurm.cpus_and_memory(row.get("alloctres", ""))
        return AttemptRow(
            job.job,
            submitted,
            start,
            end if end is not None else start + (ran or 0),
            state,
            gpus.number,
            component=job.component,
            ran=ran,
            node_count=max(1, gpus.nodes or 1),
            nodes=slurm.nodes(row.get("nodelist", "")),
            user=row.get("user", ""),
            project=row.get("account", ""),
            tier=tier,
            model=gpus.model,
            limit=slurm.time_limit(row.get("timelimitraw", row.get("timelimit", ""))),
            cpu_milli=cpu_milli,
            memory_bytes=memory,
        )

    def _submitted(self, row: Mapping[str, str]) -> int:
        """When the job could start at the earliest: after what it waited for (--dependency, --begin, a hold)."""
        submitted = moment(row["submit"], self._options.timezone)
        text = row.get("eligible", "")
        eligible = submitted if text in NO_TIME else moment(text, self._options.timezone)
        self._eligible_later += eligible > submitted + MINUTE
        return max(submitted, eligible)

    def _times(self, row: Mapping[str, str]) -> tuple[int, int | None, int | None]:
        """Start, end, and run time. An hour that the clock showed twice is decided by Elapsed."""
        local = self._options.timezone
        start = moment(row["start"], local)
        end = None if row["end"] in NO_TIME else moment(row["end"], local)
        text = row.get("elapsed", "") or row.get("elapsedraw", "")
        ran = None if not text else elapsed(text) if ":" in text else int(text) * 1_000_000
        if is_ambiguous(row["start"], local) or (end is not None and is_ambiguous(row["end"], local)):
            self._ambiguous += 1
            starts = [moment(row["start"], local, fold) for fold in (0, 1)]
            ends: list[int | None] = [None] if end is None else [moment(row["end"], local, fold) for fold in (0, 1)]
            fits = [(a, b) for a in starts for b in ends if b is None or (b >= a and (ran is None or b - a >= ran))]
            start, end = min(fits, key=lambda pair: (0 if pair[1] is None else pair[1] - pair[0], pair[0]), default=(start, end))
        if end is not None and end < start:
            raise Unreadable(f"the job ends ({row['end']}) before it starts ({row['start']})")
        return start, end, ran

    def _say_unknown(self) -> None:
        unknown = self._site.unknown
        unknown.append("which job preempted which: sacct does not record the preemptor")
        if "eligible" not in self._columns:
            self._site.not_simulated.append(
                "dependencies between jobs: the file has no column Eligible, so a job with --dependency or --begin counts as "
                "pending from its submission on"
            )
        elif self._eligible_later:
            self._site.not_simulated.append(
                f"dependencies between jobs: in {count_text(self._eligible_later, 'row')} a job became eligible more than a "
                "minute after its submission (--dependency, --begin, held, requeued); it arrives when it became eligible"
            )
        if self._by_request:
            unknown.append(f"GPUs of {self._by_request:,} rows: AllocTRES is empty there, so what was requested is taken")
        if self._suspended:
            unknown.append(
                f"why {self._suspended:,} rows were suspended, {self._suspended_us / 3.6e9:,.1f} GPU-hours in all: by a "
                "preemption (PreemptMode=SUSPEND) or by a person; the time counts neither as run nor as lost"
            )
        if self._ambiguous:
            unknown.append(
                f"{self._ambiguous:,} rows have a time that the clock showed twice; Elapsed decides which, where it can"
            )


def _gpus(row: Mapping[str, str]) -> slurm.Gpus:
    nodes = row.get("nnodes", "")
    for column in GPU_COLUMNS:
        if column.endswith("tres"):
            found = slurm.tres(row.get(column, ""))
            found = found if found.nodes is not None else found._replace(nodes=int(nodes or 1))
        else:
            per_node = slurm.gres(row.get(column, ""))
            found = slurm.Gpus(per_node.number * int(nodes or 1), per_node.model, int(nodes or 1))
        if found.number:
            return found
    return slurm.Gpus(0, "", None)


def _time(text: str, local: ZoneInfo) -> None:
    if text not in NO_TIME:
        moment(text, local)


def _number(text: str, _local: ZoneInfo) -> None:
    if text and not text.isdecimal():
        raise Unreadable(f"expected a whole number, found {shown(text)}")


def _tres(text: str, _local: ZoneInfo) -> None:
    slurm.tres(text)
    slurm.cpus_and_memory(text)


_CHECKS: Mapping[str, Callable[[str, ZoneInfo], object]] = {
    "submit": moment,
    "eligible": _time,
    "start": _time,
    "end": _time,
    "elapsed": lambda text, _: elapsed(text) if text else None,
    "suspended": lambda text, _: elapsed(text) if text else None,
    "timelimitraw": lambda text, _: slurm.time_limit(text),
    "timelimit": lambda text, _: slurm.time_limit(text),
    "alloctres": _tres,
    "reqtres": lambda text, _: slurm.tres(text),
    "allocgres": lambda text, _: slurm.gres(text),
    "reqgres": lambda text, _: slurm.gres(text),
    "nodelist": lambda text, _: slurm.nodes(text),
    "nnodes": _number,
}
"""Checks by column, in the order in which faults are reported."""
