"""`bailiff audit verify` of any source: the chain, the seals, the files and what a manifest says of them."""

from collections.abc import Sequence

from bailiff_bus.seals import Disproved, SealChain, SealedWalk

from . import walk
from .sources import Source


def chain_of(source: Source, trust: Sequence[str] = ()) -> tuple[SealChain, str]:
    """The seals of a source, as far as they hold, and what is wrong with the first that does not."""
    chain, problem = SealChain(source.domain, frozenset(trust)), ""
    for body in source.seals:
        try:
            chain.take(body)
        except Disproved as no:
            problem = problem or str(no)
    return chain, problem


async def verified(source: Source, trust: Sequence[str] = ()) -> walk.Verification:
    """What was found. trust: the log's first sealing key, known from elsewhere; none: the seals' own word is taken.

    Raises `Problem` for a file that cannot be read.
    """
    chain, problem = chain_of(source, trust)
    folder = source.folder
    sealed = SealedWalk(chain, source.tree.copy(), folder.closing if folder else None, to_its_end=folder is not None)
    found = await walk.verify(source.domain, source.messages, sealed, source.start, folder.walked if folder else None)
    faults = [problem or found["seal_problem"]]
    if folder is not None:
        faults += folder.faults()
        if found["broken"] is None:
            faults += folder.misstated()
    found["seal_problem"] = "; ".join(filter(None, faults))
    found["ok"] = found["ok"] and not found["seal_problem"]
    return found
