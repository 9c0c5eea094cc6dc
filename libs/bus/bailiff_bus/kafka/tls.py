"""TLS contexts of connections to brokers: a renewed client certificate or CA is used from the next connection on."""

import ssl
from pathlib import Path
from typing import Any, Self

from bailiff_bus.kafka_settings import KafkaSettings, secret_of
from bailiff_bus.lazy_logger import lazy_logger

log = lazy_logger()


class RenewableContext(ssl.SSLContext):
    """Verifies brokers and host names, presents a client certificate, and loads files again when they have changed.

    Long-running clients keep one context and connect again and again, so the files are checked at every connection. An
    unreadable new file is logged, and the loaded one stays in use: a renewal may be half done. CAs are only ever added.
    """

    def __new__(cls, *_: object) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, settings: KafkaSettings) -> None:
        super().__init__()
        self._cafile, self._certfile, self._keyfile = settings.cafile, settings.certfile, settings.keyfile
        self._key_password = secret_of(settings.key_password)
        if self._cafile is None:
            self.load_default_certs()
        self._loaded = self._versions()
        self._load()

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """The TLS layer of one new connection; asyncio calls this."""
        versions = self._versions()
        if versions != self._loaded:
            try:
                self._load()
            except (OSError, ValueError) as error:
                log.warning("the renewed certificates cannot be loaded; the previous ones stay in use", error=str(error))
            else:
                self._loaded = versions
                log.info("certificates loaded again")
        return super().wrap_bio(*arguments, **options)

    def _load(self) -> None:
        if self._certfile is not None:
            # a trial first: a certificate without its key would make this context useless
            for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), self):
                # an empty password, because without one an encrypted key is asked for at the terminal
                context.load_cert_chain(self._certfile, self._keyfile, password=self._key_password or "")
        if self._cafile is not None:
            self.load_verify_locations(self._cafile)

    def _versions(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_version, (self._cafile, self._certfile, self._keyfile)))


def _version(path: Path | None) -> tuple[int, int, int] | None:
    """What changes when the file is replaced or written; None without a file."""
    if path is None or not path.exists():
        return None
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def build_ssl_context(settings: KafkaSettings) -> ssl.SSLContext | None:
    """The TLS context of connections; None without TLS. Raises `OSError` for files that cannot be loaded."""
    return RenewableContext(settings) if settings.security_protocol in ("SSL", "SASL_SSL") else None
