"""The witness over HTTP (C2SP tlog-witness): `POST /add-checkpoint` for logs of the list, `GET /HASH/checkpoint` for readers.

There is no sign-in: what counts is the signature of the log. The proof and the signature of the witness answer everything else.
"""

import asyncio
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from bailiff_log.cosigner import Cosigner, Refusal, Refused
from bailiff_log.signed_notes import NoteError, NoteKey
from bailiff_log.witness_protocol import MAX_BODY, SIZE_TYPE, AddCheckpoint
from bailiff_service.health import REQUEST_TIMEOUT_S

HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
STATUS = {Refusal.MALFORMED: 400, Refusal.NOT_SIGNED: 403, Refusal.STALE: 409, Refusal.INCONSISTENT: 422}


def http_api(cosigner: Cosigner, log_keys: Sequence[NoteKey]) -> Starlette:
    """The witness's HTTP application.

    Args:
        log_keys: Keys of the logs that are accepted over HTTP.
    """

    async def add_checkpoint(request: Request) -> Response:
        body = bytearray()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > MAX_BODY:
                        return _text(413, f"the request is longer than {MAX_BODY} bytes")
        except TimeoutError:
            return _text(408, "the request did not arrive in time")
        try:
            given = AddCheckpoint.parse(bytes(body))
        except NoteError as error:
            return _text(400, str(error))
        known = [key for key in log_keys if key.name == given.checkpoint.partition("\n")[0]]
        if not known:
            return _text(404, "the log is unknown to this witness")
        try:
            cosigned = cosigner.add_checkpoint(given.checkpoint, known, given.old_size, given.proof)
        except Refused as error:
            if error.why is Refusal.STALE:
                return Response(f"{error.size}\n", 409, {**HEADERS, "content-type": SIZE_TYPE})  # exactly this type
            return _text(STATUS[error.why], str(error))
        return _text(200, "".join(str(each) for each in cosigned.signatures if each.names(cosigner.key)), end="")

    async def checkpoint(request: Request) -> Response:
        note = cosigner.newest_by_hash(request.path_params["origin_hash"])
        return _text(200, str(note), end="") if note is not None else _text(404, "no checkpoint of this log was cosigned")

    return Starlette(
        routes=[
            Route("/add-checkpoint", add_checkpoint, methods=["POST"]),
            Route("/{origin_hash}/checkpoint", checkpoint, methods=["GET"]),
        ]
    )


def _text(status: int, text: str, end: str = "\n") -> Response:
    return PlainTextResponse(text + end, status, HEADERS)
