"""Checks who asked: the signature of every signed request in the log, and raises an alarm where it does not hold.

The same check as `bailiff audit verify` (`signed_requests`), from the records alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from asyncpg import Connection

from bailiff_core.model.state import PoolState
from bailiff_core.records import Record
from bailiff_log.archive import without_nul
from bailiff_log.signed_requests import RequestVerifier, is_signed_request, signed_request
from bailiff_service.metrics import Metrics

from .alarms import Alarms

INSERT = """INSERT INTO request_checks (pool, seq, result, text, signature, recorded_at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (pool, seq) DO UPDATE SET result = excluded.result, text = excluded.text, signature = excluded.signature,
    recorded_at = excluded.recorded_at"""
VERIFIED = "verified"
Row = tuple[int, int, str, str, str, int]


@dataclass
class RequestChecks:
    """The checks of one pool. after: the newest record that is checked and stored. used: signature by record, with its time."""

    pool: str
    pool_id: int
    alarms: Alarms
    metrics: Metrics
    after: int = -1
    used: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    _verifier: RequestVerifier | None = None
    _next: int = -1

    @classmethod
    async def load(cls, connection: Connection, pool: str, pool_id: int, alarms: Alarms, metrics: Metrics) -> "RequestChecks":
        """Continue after the stored checks."""
        rows = await connection.fetch(
            "SELECT seq, signature, recorded_at FROM request_checks WHERE pool = $1 ORDER BY recorded_at, seq", pool_id
        )
        used = {row["seq"]: (row["signature"], row["recorded_at"]) for row in rows}
        return cls(pool, pool_id, alarms, metrics, max(used, default=-1), used)

    async def take(self, state: PoolState, record: Record) -> None:
        """Check the next record. state: of the records before it."""
        if self._verifier is None or record.seq != self._next:  # it begins after a snapshot, or again at the first record
            before = (each for seq, each in self.used.items() if seq <= state.seq)
            self._verifier = RequestVerifier.after(state, dict(before)) if state.seq >= 0 else RequestVerifier(self.pool)
        self._next = record.seq + 1
        fault = self._verifier.take(record)
        if not is_signed_request(record) or record.seq <= self.after:
            return
        if fault is not None:
            text = f"{self.pool}: the request of #{record.seq} is not verified ({fault['fault']}): {fault['detail']}"
            await self.alarms.alarm(self.pool, "request-not-verified", text)
        result, detail = (VERIFIED, "") if fault is None else (fault["fault"], fault["detail"])
        signed = signed_request(record)
        signature = without_nul("" if signed is None else signed.sig)
        self.after = record.seq
        self.rows.append((self.pool_id, record.seq, result, without_nul(detail), signature, record.time))
        self.metrics.requests_checked.labels(self.pool, VERIFIED if fault is None else "not-verified").inc()

    async def write(self, connection: Connection) -> None:
        """Write new results."""
        if self.rows:
            rows, self.rows = self.rows, []
            await connection.executemany(INSERT, rows)

    async def delete_all(self, connection: Connection) -> None:
        """Delete the stored results, because they are of another log."""
        await connection.execute("DELETE FROM request_checks WHERE pool = $1", self.pool_id)
