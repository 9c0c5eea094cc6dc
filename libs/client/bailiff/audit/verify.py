"""`bailiff audit verify` of any source: the chain, the seals, the files and their manifest."""

from collections.abc import Sequence

from bailiff_log.seals import SealChain, SealVerifier, VerificationFailed

from . import chain_report
from .log_sources import Source


def chain_of(source: Source, trust: Sequence[str] = ()) -> tuple[SealChain, str]:
    """The valid seals of a source, and the problem of the first invalid one."""
    chain, problem = SealChain(source.pool, frozenset(trust)), ""
    for body in source.seals:
        try:
            chain.take(body)
        except VerificationFailed as no:
            problem = problem or str(no)
    return chain, problem


async def verified(source: Source, trust: Sequence[str] = ()) -> chain_report.Verification:
    """The verification result. trust: the log's first sealing key, obtained out of band; without it the keys named by the seals
    are trusted.

    Raises `ClientError` for a file that cannot be read.
    """
    chain, problem = chain_of(source, trust)
    folder = source.folder
    sealed = SealVerifier(chain, source.tree.copy(), folder.closing if folder else None, require_sealed_end=folder is not None)
    found = await chain_report.verify(source.pool, source.messages, sealed, source.start, folder.on_record if folder else None)
    faults = [problem or found["seal_problem"]]
    if folder is not None:
        faults += folder.faults()
        if found["broken"] is None:
            faults += folder.misstated()
    found["seal_problem"] = "; ".join(filter(None, faults))
    found["ok"] = found["ok"] and not found["seal_problem"]
    return found
