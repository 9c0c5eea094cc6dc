"""Follows the seals of one pool on `bailiff.seals` and brings their checkpoints to one witness, in order.

Each seal proves that it continues the one before it, so a witness that missed some is given them one after another. A witness
that has cosigned nothing of this log is given the newest one. Whatever contradicts what was cosigned is refused and reported:
seals that end before it, that pass over it, another log of the pool, another key, two seals of one size.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from bailiff_bus import topics
from bailiff_bus.messages.seals import LogSealed, SealsInvalidated
from bailiff_bus.port import Bus, Message, OffsetOutOfRange
from bailiff_log.checkpoints import log_key, origin_of, parse_origin
from bailiff_log.cosigner import Cosigner, Refusal, Refused
from bailiff_log.seals import SealBody, SealChain, VerificationFailed, check_seal, parse_seal
from bailiff_log.signed_notes import Note, NoteError
from bailiff_service.logs import logger

from .witnesses import Unreachable, Witness

WAIT, IDLE_WAIT = 0.5, 30.0
MIN_PAUSE_S, MAX_PAUSE_S = 1.0, 60.0
MAX_REPORTS = 100  # whoever may write the topic could cause more

Publish = Callable[[Note], Awaitable[None]]
Report = Callable[[str, str, LogSealed | None], Awaitable[None]]
"""Called with the origin, the reason and the seal of a refusal; each once."""


class SizeLearned(Exception):
    """A witness said how much it has cosigned: the seals after that are read again."""


class SealFollower:
    """Follows the seals of the pools and cosigns them.

    Args:
        publish: Called with each cosigned checkpoint that is the newest.
        memory: The memory of the own witness; None for another witness.
    """

    def __init__(
        self,
        bus: Bus,
        pool: str,
        trusted: frozenset[str],
        witness: Witness,
        memory: Cosigner | None,
        publish: Publish,
        report: Report,
    ) -> None:
        self._bus, self._pool, self._trusted, self._witness, self._memory = bus, pool, trusted, witness, memory
        self._publish, self._report = publish, report
        self._reported: set[str] = set()
        self._start()

    def _start(self) -> None:
        self._chain = SealChain(self._pool, self._trusted)
        self._newest: LogSealed | None = None
        self._examined = False  # whether the newest seal was handled after all were read
        self._cosigned: Note | None = None

    async def run(self) -> None:
        """Follow until cancelled. Raises `BusUnavailable`."""
        while True:
            with suppress(SizeLearned, OffsetOutOfRange):
                await self._follow()
            self._start()

    async def _follow(self) -> None:
        topic = topics.SEALS.name
        span = (await self._bus.spans(topic))[0]
        reader = await self._bus.reader([(topic, 0, span.begin)])
        try:
            while True:
                for message in await reader.read(wait=IDLE_WAIT if self._examined else WAIT):
                    await self._take(message)
                if reader.position(topic, 0) >= span.end:
                    await self._at_end()
        finally:
            await reader.close()

    async def _take(self, message: Message) -> None:
        body, chain, origin = parse_seal(message, self._pool), self._chain, self._chain.origin
        if body is None:
            return
        try:
            chain.take(body)
        except VerificationFailed as error:
            await self._not_taken(body, str(error))
            return
        if isinstance(body, SealsInvalidated):
            self._newest, self._cosigned = None, None  # the next seal begins another series of checkpoints
            if self._witness.size(origin) > body.invalidated_size:
                text = f"the loss of sealed records up to {body.invalidated_size} was accepted, but more were cosigned"
                await self._refuse(text, None)
        if isinstance(body, LogSealed) and chain.last is body:
            chain.seals[-1] = body.model_copy(update={"consistency": (), "checkpoint": ""})  # they stay in memory
            self._newest, self._examined = body, False
            await self._sealed(body)

    async def _sealed(self, seal: LogSealed) -> None:
        size = self._witness.size(self._chain.origin)
        if 0 < size == seal.previous_size and not self._contradiction():
            await self._submit(seal, size)
        elif seal.previous_size < size < seal.size:
            await self._refuse(f"the seals continue from {seal.previous_size} to {seal.size} records", seal)

    async def _at_end(self) -> None:
        """All published seals were read: cosign the newest one if it is not cosigned yet."""
        if self._examined:
            return
        self._examined, seal, size = True, self._newest, self._witness.size(self._chain.origin)
        if contradiction := self._contradiction():
            await self._refuse(contradiction, seal)
            return
        if seal is None:
            return
        if seal.size < size:
            await self._refuse(f"the seals end with {seal.size} records", seal)
        elif size == 0 or (seal.size == size and self._cosigned is None):
            await self._submit(seal, size)
        if self._cosigned is not None:
            await self._publish(self._cosigned)

    def _contradiction(self) -> str:
        """How the log of the seals differs from the one that the own witness remembers; empty if it does not."""
        chain, memory = self._chain, self._memory
        if memory is None:
            return ""
        known = {origin_of(self._pool, chain.identity, losses) for losses in range(len(chain.invalidations) + 1)}
        ours = [each for each in memory.logs if (parse_origin(each) or ("",))[0] == self._pool]
        for origin in ours:
            if origin not in known:
                return f"the seals are of another log: {chain.origin}" if chain.seals else "there are no seals"
        note = memory.newest(chain.origin)
        if note is not None and not any(note.signed_by(log_key(chain.origin, key)) for key in chain.keys):
            return "the seals are signed with other keys"
        return ""

    async def _submit(self, seal: LogSealed, size: int) -> None:
        proof = [bytes.fromhex(each) for each in seal.consistency] if 0 < size < seal.size else []
        pause = MIN_PAUSE_S
        while True:
            try:
                keys = [log_key(self._chain.origin, seal.key)]
                self._cosigned = await self._witness.add_checkpoint(seal.checkpoint, keys, size, proof)
                return
            except Refused as error:
                if error.why is Refusal.STALE and error.size != size:
                    raise SizeLearned from None
                await self._refuse(str(error), seal)
                return
            except Unreachable as error:
                name = self._witness.key.name
                logger(pool=self._pool).warning(f"witness {name} is unreachable: trying again", reason=str(error))
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)

    async def _not_taken(self, body: SealBody, text: str) -> None:
        """A seal that does not continue the seals before it: if the log's own key signed it, there are two histories."""
        chain = self._chain
        if isinstance(body, LogSealed) and body.identity == chain.identity and body.key in chain.keys:
            with suppress(VerificationFailed, NoteError):
                check_seal(body, self._pool)
                await self._refuse(text, body)
                return
        if self._is_new(text):
            logger(pool=self._pool).warning("not a valid seal", reason=text)

    async def _refuse(self, text: str, seal: LogSealed | None) -> None:
        if self._is_new(text):
            await self._report(self._chain.origin, text, seal)

    def _is_new(self, text: str) -> bool:
        is_new = text not in self._reported and len(self._reported) < MAX_REPORTS
        if is_new:
            self._reported.add(text)
        return is_new
