"""What a service needs in a pool with a root key: a certificate for its role."""

from bailiff_core.model.certificate import Role
from bailiff_core.model.state import PoolState
from bailiff_log.certificates import InvalidCertificate, check_certificate
from bailiff_log.credentials import Credentials

from .exit_code import ExitCode, MustStop


def require_certificate(state: PoolState, credentials: Credentials | None, role: Role, now: int) -> None:
    """Raises `MustStop` if what this service sends could have no effect in the pool. now: µs UTC."""
    if not state.root_key:
        return
    if credentials is None:
        text = f"the pool {state.pool} has a root key: set BAILIFF_CREDENTIALS to the folder with this service's certificate"
        raise MustStop(ExitCode.CREDENTIALS, text)
    try:
        check_certificate(
            credentials.certificate,
            root_keys=(state.root_key,),
            pool=state.pool,
            roles=(role,),
            at=now,
            revoked=state.revoked_keys,
        )
    except InvalidCertificate as error:
        raise MustStop(ExitCode.CREDENTIALS, f"{state.pool}: {error}; issue another: bailiff key certify") from None
