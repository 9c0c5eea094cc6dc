"""A broker with TLS, users and access lists, for `make up SECURE=1` and tests: two listeners, and only what is granted.

Services authenticate by SCRAM over TLS on one listener, or by client certificates on the other. Controller and broker talk
to each other over mutual TLS. Certificates and passwords are below `security` in the broker's folder.
"""

import asyncio
import ssl
from pathlib import Path
from typing import Any, Literal, Self

from bailiff.security.apply import apply, read_env
from bailiff.security.certificates import BROKER, SUPERUSER, issue
from bailiff_bus.grants import PREFIX, PRINCIPALS
from bailiff_bus.kafka_settings import KafkaSettings

from .kafka import EmbeddedKafka
from .ports import persistent_port

HOSTS = ("127.0.0.1", "localhost")
_LOG4J_ACCESS = """\
appender.access.type = File
appender.access.name = access
appender.access.fileName = {log}
appender.access.layout.type = PatternLayout
appender.access.layout.pattern = %m%n
logger.authorizer.name = kafka.authorizer.logger
logger.authorizer.level = {level}
logger.authorizer.additivity = false
logger.authorizer.appenderRef.access.ref = access
"""
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class SecureKafka(EmbeddedKafka):
    """One broker on which every principal has the rights of `bailiff_bus.grants` and nobody else has any.

    authentication: how services authenticate, by default. log_allowed: `access_log` has what was allowed, too; otherwise only
    what was refused.
    """

    def __init__(
        self, state_dir: Path, *, authentication: Literal["scram", "tls"] = "scram", log_allowed: bool = False, **options: Any
    ) -> None:
        super().__init__(state_dir, **options)
        self.authentication, self._log_allowed = authentication, log_allowed
        self.security = self.state_dir / "security"

    def start(self) -> Self:
        """Start, and bring users and access lists up to date."""
        self.state_dir.mkdir(parents=True, exist_ok=True)
        issue(self.security, HOSTS)
        super().start()
        asyncio.run(apply(self.superuser(), list(PRINCIPALS.values()), folder=self.security))
        return self

    @property
    def access_log(self) -> Path:
        """A line for each decision of the access lists."""
        return self.state_dir / "access.log"

    @property
    def scram_bootstrap(self) -> str:
        """The address of the listener for SCRAM users; `bootstrap` is that for certificates."""
        return f"127.0.0.1:{persistent_port(self.state_dir / 'scram.port')}"

    def superuser(self) -> KafkaSettings:
        """The settings of the user that may do everything."""
        return self._with_certificate(SUPERUSER)

    def settings(self, role: str, authentication: Literal["scram", "tls"] | None = None) -> KafkaSettings:
        """A principal's connection settings."""
        if (authentication or self.authentication) == "tls":
            return self._with_certificate(role)
        values = {
            name.removeprefix("BAILIFF_KAFKA__").lower(): value for name, value in read_env(self.security / f"{role}.env").items()
        }
        return KafkaSettings.model_validate(values | {"bootstrap": self.scram_bootstrap, "cafile": self.security / "ca.pem"})

    def _with_certificate(self, name: str) -> KafkaSettings:
        return KafkaSettings(
            bootstrap=self.bootstrap,
            security_protocol="SSL",
            cafile=self.security / "ca.pem",
            certfile=self.security / f"{name}.pem",
            keyfile=self.security / f"{name}.key",
        )

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.security / "ca.pem")
        context.load_cert_chain(self.security / f"{SUPERUSER}.pem", self.security / f"{SUPERUSER}.key")
        return context

    def _log4j(self) -> str:
        return super()._log4j() + _LOG4J_ACCESS.format(log=self.access_log, level="DEBUG" if self._log_allowed else "INFO")

    def _settings(self) -> dict[str, str]:
        broker, controller = self.bootstrap, f"127.0.0.1:{self._ports[1]}"  # type: ignore[index]
        return {
            **super()._settings(),
            "listeners": f"CERTIFICATES://{broker},SCRAM://{self.scram_bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"CERTIFICATES://{broker},SCRAM://{self.scram_bootstrap}",
            "inter.broker.listener.name": "CERTIFICATES",
            "listener.security.protocol.map": "CERTIFICATES:SSL,SCRAM:SASL_SSL,CONTROLLER:SSL",
            "listener.name.certificates.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.scram.scram-sha-512.sasl.jaas.config": JAAS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.security / f"{BROKER}.chain.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.security / "ca.pem"),
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": f"User:{PREFIX}{BROKER};User:{PREFIX}{SUPERUSER}",
            **self._properties,
        }
