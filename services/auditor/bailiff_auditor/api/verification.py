"""What the auditor has verified of the log up to a record."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from bailiff_service.json_response import JsonResponse

from . import parameters as given
from .query import PoolQuery
from .raw_log import SealItem, seal_item
from .records import not_archived

router = APIRouter(tags=["records"])


class ProposalCounts(BaseModel):
    """The proposals up to the record, by what searching again gave."""

    reproduced: int
    not_reproduced: int
    not_searched: int


class ProposalCheckItem(BaseModel):
    """What searching again for one proposal gave."""

    seq: int
    computed_at: int = Field(description="The record on whose state it was computed.")
    result: str = Field(description="`reproduced`, `not-reproduced` or `not-searched`.")
    text: str = Field(description="Both results in sentences where they differ; why it was not searched.")


class Verification(BaseModel):
    """The state of the auditor's checks, for one record."""

    seq: int
    identity: str = Field(description="The hash of the log's first record.")
    next_seq: int = Field(description="The chain is verified up to the record before this one.")
    broken: str = Field(description="Why it is not verified further; empty if the log ends there.")
    checked_seq: int = Field(description="Proposals are searched again up to this record.")
    proposals: ProposalCounts
    proposal: ProposalCheckItem | None = Field(description="The newest proposal up to the record.")
    seal: SealItem | None = Field(description="The first seal over the record.")
    keys: list[SealItem] = Field(description="The keys of the seals, oldest first.")


PROPOSAL = """SELECT seq, computed_at, result, text, reproduced, not_reproduced, not_searched
    FROM proposal_checks WHERE pool = $1 AND seq <= $2 ORDER BY seq DESC LIMIT 1"""
SEAL = """SELECT "offset", 'LogSealed' AS kind, data FROM seals WHERE pool = $1 AND size > $2 ORDER BY size LIMIT 1"""
KEYS = """SELECT "offset", 'SealingKey' AS kind, data FROM sealing_keys WHERE pool = $1 ORDER BY "offset" """


@router.get("/pools/{pool}/records/{seq}/verification", response_model=Verification, summary="What is verified up to a record")
async def verification(query: Annotated[PoolQuery, Depends()], seq: given.SeqPath) -> JsonResponse:
    """Chain, seal and proposals. The seal's signature and the chain's hashes can be verified by whoever asks."""
    async with query.reading() as reading:
        pool: int = reading.pool["id"]
        if seq >= reading.pool["next_seq"]:
            raise not_archived(query.name, seq, reading.pool["next_seq"])
        newest = [dict(row) for row in await reading.fetch(PROPOSAL, pool, seq)]
        seals = await reading.fetch(SEAL, pool, seq)
        keys = await reading.fetch(KEYS, pool)
        found: dict[str, Any] = {
            "seq": seq,
            "identity": reading.pool["identity"],
            "next_seq": reading.pool["next_seq"],
            "broken": reading.pool["broken"],
            "checked_seq": reading.pool["allocations_seq"],
            "proposals": {name: newest[0].pop(name) if newest else 0 for name in ProposalCounts.model_fields},
            "proposal": newest[0] if newest else None,
            "seal": seal_item(seals[0]) if seals else None,
            "keys": [seal_item(row) for row in keys],
        }
        return reading.answer(found)
