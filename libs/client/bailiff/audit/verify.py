"""`bailiff audit verify` of any source: the chain, the seals, the cosignatures, the files and their manifest."""

from collections.abc import Iterator, Sequence

from bailiff.witness.witnesses import WitnessAddress
from bailiff_core.humanize import count_text
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier
from bailiff_log.chain_verifier import Verification
from bailiff_log.request_verifier import RequestVerifier
from bailiff_log.seals import SealChain, SealVerifier, chain_of_bodies

from . import chain_report
from .cosignatures import Asked, CosignatureVerifier, Witnessed
from .log_sources import Source
from .parallel_verify import verify_in_parallel
from .rejections import judge_rejections


class Verified(Verification):
    """The verification with what witnesses cosigned.

    Attributes:
        root_problem: Why the log does not have the pinned root key.
        seals_ignored: Messages of keys that no key of the log vouched for.
        to_judge: What is no fault of the log by itself and takes a person to judge, as sentences.
        passed_over: The file that says that the records before the first one were verified before; empty: none were passed
            over.
    """

    witnesses: Witnessed
    root_problem: str
    seals_ignored: int
    to_judge: list[str]
    passed_over: str


def chain_of(source: Source, trust: Sequence[str] = ()) -> tuple[SealChain, str]:
    """The valid seals of a source, and the problem of the first invalid one.

    Anybody who can write to the topic can publish keys and seals. Those that do not follow from the trusted key are ignored.
    Without a trusted key, the first one that has sealed something counts.
    """
    return chain_of_bodies(source.pool, source.seals, trust)


async def verified(
    source: Source,
    trust: Sequence[str] = (),
    wanted: int = 0,
    witnesses: Sequence[WitnessAddress] = (),
    asked: Asked | None = None,
    processes: int = 1,
    root: str = "",
) -> Verified:
    """The verification result.

    Args:
        trust: The log's first sealing key, obtained out of band; without it the keys named by the seals are trusted.
        wanted: Number of the witnesses that must have cosigned the log.
        asked: Their answers, from before the source was opened.
        processes: How many verify the segments of a folder side by side.
        root: The root key of the log's first record, obtained out of band; empty: the one that it names is believed.

    Raises:
        ClientError: A file cannot be read.
    """
    chain, problem = chain_of(source, trust)
    folder, asked = source.folder, asked or Asked()

    def witnesses_of_source() -> CosignatureVerifier:
        found = CosignatureVerifier(chain, witnesses, source.cosignatures, wanted, asked.found, list(asked.problems))
        if source.start.next_seq:
            found.add(source.start, source.tree)
        return found

    def requests_of_source() -> RequestVerifier:
        return RequestVerifier(source.pool, source.start.keys)

    cosigned, requests, found, in_parallel = witnesses_of_source(), requests_of_source(), None, False
    if folder is not None and min(processes, len(folder.segments)) > 1:
        found = await verify_in_parallel(folder, chain, cosigned, requests, min(processes, len(folder.segments)))
        in_parallel = found is not None
    if found is None:
        cosigned, requests = witnesses_of_source(), requests_of_source()
        found = await _verified_in_order(source, chain, cosigned, requests)
    faults = [problem or found["seal_problem"]]
    if folder is None:
        faults.append(cosigned.losses_problem())
    else:
        faults += folder.gaps()  # what verifies in parallel has compared the files themselves
        if not in_parallel:
            faults += folder.changed_files()
        if found["broken"] is None and not in_parallel:
            faults += folder.misstated()
    if found["broken"] is None:
        await judge_rejections(requests, source.read())
    found["requests"] = requests.result()
    found["ok"] = found["ok"] and not found["requests"]["fault_count"]
    if found["root_key"] in trust:
        faults.append(f"{found['root_key']} is the log's root key, no sealing key: give it as --root {found['root_key']}")
    found["seal_problem"] = "; ".join(filter(None, faults))
    witnessed, root_problem = cosigned.finish(), _root_problem(found, root)
    is_right = found["ok"] and not (found["seal_problem"] or root_problem or witnessed["problems"])
    witnessed["unsealed"] = is_right and witnessed["unsealed"]
    found["ok"] = is_right and not witnessed["unsealed"]
    return {
        **found,
        "witnesses": witnessed,
        "root_problem": root_problem,
        "seals_ignored": chain.ignored,
        "to_judge": list(_to_judge(found, chain)),
        "passed_over": "",
    }


def _root_problem(found: Verification, root: str) -> str:
    """Why the log does not begin with this root key; empty if it does, or none is given."""
    if not root or found["root_key"] == root:
        return ""
    if found["first_seq"]:
        return "the root key is in the first record, which is not among these: verify the log from its beginning"
    if not found["root_key"]:
        return f"the log is not signed: it names no root key, expected {root}"
    return f"the log was begun under the root key {found['root_key']}, expected {root}"


def _to_judge(found: Verification, chain: SealChain) -> Iterator[str]:
    """What an intruder, or an operator who accepted a loss, leaves in a log that is valid by itself."""
    intruders = found["orphans_by_kind"].get("not-signed", 0)
    if intruders:
        yield f"{count_text(intruders, 'record')} that the log's writer has not signed: somebody else wrote to the topic"
    if chain.ignored:
        yield f"{count_text(chain.ignored, 'message')} about seals of keys that no key of the log vouched for"
    yield from (f"accepted loss: {each}" for each in found["forked"])


async def _verified_in_order(
    source: Source, chain: SealChain, cosigned: CosignatureVerifier, requests: RequestVerifier
) -> Verification:
    folder = source.folder
    sealed = SealVerifier(chain, source.tree.copy(), folder.closing if folder else None, require_sealed_end=folder is not None)

    def on_record(head: ChainHead, tree: Frontier) -> None:
        cosigned.add(head, tree)
        if folder is not None:
            folder.on_record(head, tree)

    return await chain_report.verify(source.pool, source.messages, sealed, source.start, on_record, requests=requests)
