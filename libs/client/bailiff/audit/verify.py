"""`bailiff audit verify` of any source: the chain, the seals, the cosignatures, the files and their manifest."""

from collections.abc import Sequence

from bailiff.witness.witnesses import WitnessAddress
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier
from bailiff_log.chain_verifier import Verification
from bailiff_log.seals import SealBody, SealChain, SealVerifier, VerificationFailed

from . import chain_report
from .cosignatures import Asked, CosignatureVerifier, Witnessed
from .log_sources import Source
from .parallel_verify import verify_in_parallel


class Verified(Verification):
    """The verification with what witnesses cosigned. seals_ignored: messages of keys that the trusted one never vouched for.

    passed_over: the file that says that the records before the first one were verified before; empty: none were passed over.
    """

    witnesses: Witnessed
    seals_ignored: int
    passed_over: str


def chain_of(source: Source, trust: Sequence[str] = ()) -> tuple[SealChain, str]:
    """The valid seals of a source, and the problem of the first invalid one.

    trust: the log's first key. Anybody who can write to the topic can publish keys and seals; those that this key, or one that
    follows from it, did not sign are ignored. Without it the first key that was published counts, and all others must follow.
    """
    return chain_of_bodies(source.pool, source.seals, trust)


def chain_of_bodies(pool: str, bodies: Sequence[SealBody], trust: Sequence[str] = ()) -> tuple[SealChain, str]:
    """As `chain_of`, of these messages."""
    chain, problem = SealChain(pool, frozenset(trust)), ""
    for body in bodies:
        if trust and not chain.vouches_for(body):
            chain.ignored += 1
            continue
        try:
            chain.take(body)
        except VerificationFailed as no:
            problem = problem or str(no)
    return chain, problem


async def verified(
    source: Source,
    trust: Sequence[str] = (),
    wanted: int = 0,
    witnesses: Sequence[WitnessAddress] = (),
    asked: Asked | None = None,
    processes: int = 1,
) -> Verified:
    """The verification result. trust: the log's first sealing key, obtained out of band; without it the keys named by the seals
    are trusted. wanted: number of these witnesses that must have cosigned the log. asked: their
    answers, from before the source was opened. processes: how many verify the segments of a folder side by side.

    Raises `ClientError` for a file that cannot be read.
    """
    chain, problem = chain_of(source, trust)
    folder, asked = source.folder, asked or Asked()

    def witnesses_of_source() -> CosignatureVerifier:
        found = CosignatureVerifier(chain, witnesses, source.cosignatures, wanted, asked.found, list(asked.problems))
        if source.start.next_seq:
            found.add(source.start, source.tree)
        return found

    cosigned, found, in_parallel = witnesses_of_source(), None, False
    if folder is not None and min(processes, len(folder.segments)) > 1:
        found = await verify_in_parallel(folder, chain, cosigned, min(processes, len(folder.segments)))
        in_parallel = found is not None
    if found is None:
        cosigned = witnesses_of_source()
        found = await _verified_in_order(source, chain, cosigned)
    faults = [problem or found["seal_problem"]]
    if folder is not None:
        faults += folder.gaps()  # what verifies in parallel has compared the files themselves
        if not in_parallel:
            faults += folder.changed_files()
        if found["broken"] is None and not in_parallel:
            faults += folder.misstated()
    found["seal_problem"] = "; ".join(filter(None, faults))
    witnessed = cosigned.finish()
    found["ok"] = found["ok"] and not found["seal_problem"] and not witnessed["problems"]
    return {**found, "witnesses": witnessed, "seals_ignored": chain.ignored, "passed_over": ""}


async def _verified_in_order(source: Source, chain: SealChain, cosigned: CosignatureVerifier) -> Verification:
    folder = source.folder
    sealed = SealVerifier(chain, source.tree.copy(), folder.closing if folder else None, require_sealed_end=folder is not None)

    def on_record(head: ChainHead, tree: Frontier) -> None:
        cosigned.add(head, tree)
        if folder is not None:
            folder.on_record(head, tree)

    return await chain_report.verify(source.pool, source.messages, sealed, source.start, on_record)
