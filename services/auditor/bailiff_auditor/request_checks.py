"""Judges every request in the log again, and raises an alarm where admission had to answer it otherwise.

The same check as `bailiff audit verify` (`request_verifier`), from the records alone.
"""

from dataclasses import dataclass

from bailiff_core.model.state import PoolState
from bailiff_core.records import Record
from bailiff_log.archive import without_nul
from bailiff_log.request_verifier import RequestVerifier
from bailiff_log.signed_requests import is_signed_request, signed_request

from .stored_checks import StoredChecks

INSERT = """INSERT INTO request_checks (pool, seq, result, text, signature, recorded_at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (pool, seq) DO UPDATE SET result = excluded.result, text = excluded.text, signature = excluded.signature,
    recorded_at = excluded.recorded_at"""
VERIFIED = "verified"


@dataclass
class RequestChecks(StoredChecks):
    """The checks of one pool. verifier: of the records read so far."""

    TABLE = "request_checks"
    INSERT = INSERT

    verifier: RequestVerifier | None = None
    _next: int = -1

    def begin(self, state: PoolState) -> None:
        """Continue after this state, a snapshot's."""
        if state.seq >= 0:
            self.verifier, self._next = RequestVerifier.after(state), state.seq + 1

    async def take(self, state: PoolState, record: Record) -> None:
        """Check the next record. state: of the records before it."""
        if self.verifier is None or state.seq < 0:
            self.verifier = RequestVerifier(self.pool)
        elif record.seq != self._next:
            raise ValueError(f"{self.pool}: #{record.seq} was read after #{self._next - 1}")
        self._next = record.seq + 1
        fault = self.verifier.take(record, state)
        if record.seq <= self.after or not (fault or is_signed_request(record)):
            return
        if fault is not None:
            text = f"{self.pool}: the request of #{record.seq} is not verified ({fault['fault']}): {fault['detail']}"
            await self.alarms.alarm(self.pool, "request-not-verified", text)
        result, detail = (VERIFIED, "") if fault is None else (fault["fault"], fault["detail"])
        signed = signed_request(record)
        signature = signed.sig if signed is not None else ""
        self.after = record.seq
        self.rows.append((self.pool_id, record.seq, result, without_nul(detail), signature, record.time))
        self.metrics.requests_checked.labels(self.pool, VERIFIED if fault is None else "not-verified").inc()
