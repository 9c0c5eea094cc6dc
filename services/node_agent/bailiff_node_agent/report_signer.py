"""Signs the reports and the telemetry of one node when they are sent, each with a later time than all before it."""

from bailiff_bus.envelope import wrap
from bailiff_bus.messages.reports import NodeInventory
from bailiff_bus.port import Headers
from bailiff_core.model.message import MessageBody
from bailiff_log.enrolment import sign_enrolment
from bailiff_log.message_signatures import wrap_with_key

from .credentials import NodeCredentials
from .disk import Storage

FILE = "signed-at"


class ReportSigner:
    """credentials: None: reports are not signed.

    The time of an inventory is kept on disk: admission refuses an inventory of another agent of this node that is not newer than
    the one that it knows, since anybody may have kept it.
    """

    def __init__(self, storage: Storage, credentials: NodeCredentials | None, pool: str, node: str) -> None:
        self._storage, self._credentials, self._pool, self._node = storage, credentials, pool, node
        self._newest = int(storage.read(FILE) or 0)

    def wrap(self, body: MessageBody, message_id: str, now: int) -> tuple[Headers, bytes]:
        """Headers and value of the message. now: µs UTC; a clock that stepped back does not matter."""
        source, credentials = f"/bailiff/{self._pool}/node/{self._node}", self._credentials
        if credentials is None:
            return wrap(body, source=source, id=message_id, pool=self._pool, time_us=now)
        self._newest = max(self._newest + 1, now)
        certificate = None
        if isinstance(body, NodeInventory):
            self._storage.replace(FILE, str(self._newest).encode())
            certificate = credentials.certificate
            enrolment = sign_enrolment(
                credentials.token,
                pool=self._pool,
                node=self._node,
                key=credentials.key,
                encryption_key=credentials.encryption_key,
            )
            body = body.model_copy(update={"enrolment": enrolment})
        return wrap_with_key(
            credentials.private_key, body, certificate, source=source, id=message_id, pool=self._pool, time_us=self._newest
        )
