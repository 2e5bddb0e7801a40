"""The links of a party, as the agreement and its own settings say."""

from ditto.party.server.config import PartyConfig
from ditto.runtime import LinkConfig, PartyAddress, TlsFiles
from ditto.sharing import RANKS, Rank
from ditto.trust import Credentials
from ditto.wire.agreement import Agreement

CONNECT_SECONDS = 15.0
"""That one attempt to reach both peers takes; then the party says who is missing."""


def link_config(
    agreement: Agreement, config: PartyConfig, credentials: Credentials
) -> LinkConfig:
    """Each peer is verified with the authority of its own trust domain."""
    p0, p1, p2 = (
        PartyAddress(
            name=agreement.parties[rank].trust_domain,
            host=agreement.parties[rank].link_address(config.trio),
            identity=str(agreement.party_identity(rank)),
            authority=agreement.parties[rank].ca,
        )
        for rank in RANKS
    )
    return LinkConfig(
        rank=Rank(config.rank),
        parties=(p0, p1, p2),
        session=f"{agreement.name} trio {config.trio}",
        timeout=config.link_timeout,
        connect_timeout=CONNECT_SECONDS,
        tls=TlsFiles(
            certificate=credentials.certificate_path, key=credentials.key_path
        ),
        listen=config.listen_link,
    )
