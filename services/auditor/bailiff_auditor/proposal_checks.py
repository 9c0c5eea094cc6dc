"""Searches again for every proposal in the log, and raises an alarm where the result is another one.

A search runs in a thread. Archiving continues meanwhile; only the fold whose state it reads waits for it.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from bailiff_core.engine import LOGIC
from bailiff_core.explain.proposals import difference_sentences
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import ProposalReceived
from bailiff_core.victims.search_again import ProposalCheck, ProposalDifference
from bailiff_log.archive import without_nul
from bailiff_log.reader import Entry
from bailiff_service.logs import logger

from .stored_checks import StoredChecks

INSERT = """INSERT INTO proposal_checks (pool, seq, computed_at, result, text, reproduced, not_reproduced, not_searched)
    SELECT $1, $2, $3, $4, $5, coalesce(before.reproduced, 0) + ($4 = 'reproduced')::int,
        coalesce(before.not_reproduced, 0) + ($4 = 'not-reproduced')::int,
        coalesce(before.not_searched, 0) + ($4 = 'not-searched')::int
    FROM (VALUES (0)) one LEFT JOIN LATERAL
        (SELECT * FROM proposal_checks WHERE pool = $1 AND seq < $2 ORDER BY seq DESC LIMIT 1) before ON true
    ON CONFLICT (pool, seq) DO NOTHING"""  # each seq is checked once: see `after`
Result = Literal["reproduced", "not-reproduced", "not-searched"]


@dataclass
class ProposalChecks(StoredChecks):
    """The checks of the proposals of one pool."""

    TABLE = "proposal_checks"
    INSERT = INSERT

    _check: ProposalCheck = field(default_factory=ProposalCheck)
    _failure: str = ""

    async def search(self, state: PoolState) -> None:
        """Search on this state, which must not change meanwhile. A search that fails is noted: archiving continues."""
        self._failure = ""
        try:
            await asyncio.to_thread(self._check.search, state)
        except Exception as error:  # noqa: BLE001 - the state may be anything that a hostile log folds to
            self._failure = f"the search failed: {type(error).__name__}: {error}"
            logger(pool=self.pool).exception("searching again failed", seq=state.seq)

    async def compare(self, state: PoolState, entry: Entry, received: ProposalReceived, why_not: str) -> None:
        """Compare a record that is not folded yet. why_not: the reason if nothing was searched for it."""
        seq = entry.record.seq
        if seq <= self.after:
            return
        if received.logic != LOGIC:
            why_not = f"it was computed by logic {received.logic}, and this auditor has logic {LOGIC}"
            self._note(seq, received, "not-searched", why_not)
            return
        found = self._check.compare(state, seq, received)
        if found is None:
            self._note(seq, received, "not-searched", self._failure or why_not)
        elif found:
            text = _differences_text(found)
            summary = f"{self.pool}: the proposal #{seq} is not reproduced. {text}"
            await self.alarms.alarm(self.pool, "proposal-not-reproduced", summary)
            self._note(seq, received, "not-reproduced", text)
        else:
            self._note(seq, received, "reproduced", "")

    def _note(self, seq: int, received: ProposalReceived, result: Result, text: str) -> None:
        self.after = seq
        self.rows.append((self.pool_id, seq, received.computed_at, result, without_nul(text)))
        self.metrics.proposals_searched.labels(self.pool, result).inc()
        if result == "not-searched":
            advice = f"bailiff audit replay --from '#{seq}' --to '#{seq}'"
            logger(pool=self.pool).warning("a proposal was not searched again", seq=seq, why=text, advice=advice)


def _differences_text(found: list[ProposalDifference]) -> str:
    more = f" {len(found) - 1} more requests of the selection differ." if len(found) > 1 else ""
    return " ".join(difference_sentences(found[0])) + more
