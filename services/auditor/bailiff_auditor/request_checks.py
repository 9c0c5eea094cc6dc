"""Checks who asked: the signature of every signed request in the log, and raises an alarm where it does not hold.

The same check as `bailiff audit verify` (`signed_requests`), from the records alone.
"""

from dataclasses import dataclass, field

from asyncpg import Connection

from bailiff_core.model.state import PoolState
from bailiff_core.records import Record
from bailiff_log.archive import without_nul
from bailiff_log.signed_requests import RequestVerifier, is_signed_request, oldest_used, signature_digest, signed_request
from bailiff_service.metrics import Metrics

from .alarms import Alarms

INSERT = """INSERT INTO request_checks (pool, seq, result, text, signature, recorded_at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (pool, seq) DO UPDATE SET result = excluded.result, text = excluded.text, signature = excluded.signature,
    recorded_at = excluded.recorded_at"""
SIGNATURES = """SELECT signature, recorded_at FROM request_checks WHERE pool = $1 AND seq <= $2 AND signature <> ''
    ORDER BY seq DESC"""
VERIFIED = "verified"
Row = tuple[int, int, str, str, str, int]


@dataclass
class RequestChecks:
    """The checks of one pool. after: the newest record that is checked and stored. verifier: of the records read so far."""

    pool: str
    pool_id: int
    alarms: Alarms
    metrics: Metrics
    after: int = -1
    rows: list[Row] = field(default_factory=list)
    verifier: RequestVerifier | None = None
    _next: int = -1

    @classmethod
    async def load(cls, connection: Connection, pool: str, pool_id: int, alarms: Alarms, metrics: Metrics) -> "RequestChecks":
        """Continue after the stored checks."""
        newest = await connection.fetchval("SELECT max(seq) FROM request_checks WHERE pool = $1", pool_id)
        return cls(pool, pool_id, alarms, metrics, -1 if newest is None else newest)

    async def begin(self, connection: Connection, state: PoolState) -> None:
        """Continue after this state, a snapshot's. Reads the signatures that a later record may not use again, newest first."""
        if state.seq < 0:
            return
        used: list[tuple[bytes, int]] = []
        oldest = oldest_used(state)
        async with connection.transaction():
            async for row in connection.cursor(SIGNATURES, self.pool_id, state.seq, prefetch=1000):
                if row["recorded_at"] < oldest:
                    break
                used.append((signature_digest(row["signature"]), row["recorded_at"]))
        self.verifier, self._next = RequestVerifier.after(state, dict(reversed(used))), state.seq + 1

    async def take(self, state: PoolState, record: Record) -> None:
        """Check the next record. state: of the records before it."""
        if self.verifier is None or state.seq < 0:
            self.verifier = RequestVerifier(self.pool)
        elif record.seq != self._next:
            raise ValueError(f"{self.pool}: #{record.seq} was read after #{self._next - 1}")
        self._next = record.seq + 1
        fault = self.verifier.take(record)
        if not is_signed_request(record) or record.seq <= self.after:
            return
        if fault is not None:
            text = f"{self.pool}: the request of #{record.seq} is not verified ({fault['fault']}): {fault['detail']}"
            await self.alarms.alarm(self.pool, "request-not-verified", text)
        result, detail = (VERIFIED, "") if fault is None else (fault["fault"], fault["detail"])
        signed = signed_request(record)
        signature = signed.sig if signed is not None and self.verifier.remembers(signed.sig) else ""
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
