"""``ditto pki``: authorities of organisations, certificates, and the agreement."""

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ditto import __version__
from ditto.cli.exit_codes import ExitCode
from ditto.cli.help import with_named_values
from ditto.cli.report import JsonFile, Report, check_writable
from ditto.cli.show import table
from ditto.errors import SetupError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from ditto.files import Json
    from ditto.wire.agreement import Agreement

pki = typer.Typer(
    help=(
        "Who is who: an authority for each organisation, certificates for its parties, "
        "owners, clients and operators, and the agreement of three organisations.\n\n"
        "Each organisation runs `init` and `issue` on a machine of its own and sends "
        "the others its `ca.crt`, which is public; no key ever leaves. One of them "
        "runs `agree`, and all compare what `show` prints.\n\n"
        "These authorities are for trials. One that you have already does as well: "
        "give its certificate to `agree`, and have it sign certificates whose one URI "
        "is `spiffe://DOMAIN/ROLE/NAME`, and those of parties with the DNS name "
        "`RANK.party.DOMAIN`, too."
    ),
    no_args_is_help=True,
)

DomainOption = Annotated[
    str,
    typer.Option(help="Its trust domain: a DNS name of yours, such as org-a.example."),
]
HostOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A DNS name or IP address at which a party is reached; may be repeated."
    ),
]


@pki.command()
@with_named_values
def init(
    organisation: Annotated[
        str, typer.Argument(metavar="ORGANISATION", help="Its name, for people.")
    ],
    domain: DomainOption,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to keep it in; by default DOMAIN."),
    ] = None,
    days: Annotated[int, typer.Option(help="How long it lasts.", min=1)] = 1095,
    json_file: JsonFile = None,
) -> None:
    """Make the authority of one organisation.

    Writes `ca.crt`, to be given to everybody, and `ca.key`, which stays on this
    machine: who has it can make certificates in your name. An authority that is there
    already is never overwritten.
    """
    from ditto.trust.authority import make_authority, write_authority

    report = Report(json_file)
    folder = out or Path(domain)
    authority = make_authority(domain, days, organisation=organisation)
    write_authority(folder, authority)
    _show_certificate(report, folder / "ca.crt", authority.certificate)


@pki.command()
@with_named_values
def issue(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Of the authority: `pki init`.")
    ],
    member: Annotated[
        str,
        typer.Argument(
            metavar="ROLE/NAME",
            help="party/0, party/1 or party/2, by rank; owner/acme, client/alice, "
            "operator/eve.",
        ),
    ],
    host: HostOption = None,
    days: Annotated[int, typer.Option(help="How long it lasts.", min=1)] = 90,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write; FOLDER/ROLE-NAME.")
    ] = None,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew",
            help="Replace the certificate that is there, for the same key and, without "
            "--host, the same hosts. Programs that use it need no restart if they "
            "read it again.",
        ),
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Sign a certificate for a member of the organisation.

    Writes `tls.crt` and `tls.key`, as Kubernetes and cert-manager name them. Their
    folder is what other commands take by `--as`.
    """
    from ditto.trust import Identity
    from ditto.trust import authority as authorities

    report = Report(json_file)
    signer = authorities.read_authority(folder)
    identity = Identity.parse(f"spiffe://{signer.trust_domain}/{member}")
    out = out or folder / member.replace("/", "-")
    key, hosts = None, host or []
    if renew:
        before = _certificate(out / authorities.CERTIFICATE)
        key = authorities.read_key(out / authorities.KEY, before)
        hosts = host or authorities.hosts_of(before, identity)
    issued = authorities.issue(signer, identity, hosts, days, key=key)
    authorities.write_issued(out, issued, renew=renew)
    _show_certificate(report, out / authorities.CERTIFICATE, issued.certificate)


@pki.command()
@with_named_values
def agree(
    authorities: Annotated[
        list[str],
        typer.Argument(
            metavar="CA0 CA1 CA2",
            help="The three parties' authorities by rank, each a `ca.crt` or its "
            "folder; DOMAIN=FILE for one that was not made by `pki init`.",
        ),
    ],
    grpc: Annotated[
        list[str],
        typer.Option(
            help="HOST:PORT at which a party is asked; three times, by rank. "
            "`{trio}` stands for the number of the trio.",
        ),
    ],
    link: Annotated[
        list[str],
        typer.Option(help="HOST:PORT for the two other parties; three times, by rank."),
    ],
    name: Annotated[str, typer.Option(help="What the deployment is called.")] = "ditto",
    trios: Annotated[int, typer.Option(help="How many times three.", min=1)] = 1,
    owner: Annotated[
        list[str] | None,
        typer.Option(help="An identity that may publish models; may be repeated."),
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(
            help="An identity that may ask, or a trust domain all of whose clients "
            "may; may be repeated.",
        ),
    ] = None,
    member_ca: Annotated[
        list[str] | None,
        typer.Option(
            help="An authority of owners or clients that run no party; as CA0. May be "
            "repeated.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path(
        "deployment.toml"
    ),
    json_file: JsonFile = None,
) -> None:
    """Write the agreement of three organisations: `deployment.toml`.

    It has all that a program needs to know: parties, addresses, authorities, who may
    publish and ask, limits, versions. Edit it to change what has no option here; what
    it means is checked whenever it is read. All must use the same content.
    """
    from ditto.files import write_private
    from ditto.wire.agreement import build_agreement
    from ditto.wire.agreement_toml import to_toml

    report = Report(json_file)
    check_writable(out)
    for what, values in (("CA", authorities), ("--grpc", grpc), ("--link", link)):
        if len(values) != 3:
            raise SetupError(
                f"{what} is given {len(values)} times. Give it three times, for the "
                f"parties of rank 0, 1 and 2."
            )
    parties = [
        {**_vouched(ca), "grpc": at, "link": link_at}
        for ca, at, link_at in zip(authorities, grpc, link, strict=True)
    ]
    members = [_vouched(ca) for ca in member_ca or ()]
    for domain in members:
        del domain["organisation"]
    agreement = build_agreement(
        {
            "format": 1,
            "name": name,
            "trios": trios,
            "owners": owner or [],
            "clients": client or [],
            "versions": {"min": __version__, "max": __version__},
            "parties": parties,
            "domains": members,
        }
    )
    try:
        write_private(out, to_toml(agreement).encode())
    except FileExistsError:
        raise SetupError(
            f"{out} is there already and is not overwritten. Name another by --out, or "
            f"edit it."
        ) from None
    _show_agreement(report, out, agreement)


@pki.command()
@with_named_values
def show(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A `deployment.toml`, a certificate, or a folder that has one.",
        ),
    ],
    expires_within: Annotated[
        int,
        typer.Option(
            metavar="DAYS",
            help="End with code 4 if a certificate ends within so many days; for "
            "monitoring.",
            min=0,
        ),
    ] = 0,
    json_file: JsonFile = None,
) -> None:
    """Show a certificate or an agreement: whose, how long, which digest.

    Compare the SHA-256 of an authority with its organisation by telephone, and the
    digest of the agreement with both others.
    """
    from ditto.wire.agreement import read_agreement

    report = Report(json_file)
    if path.is_dir():
        names = [n for n in ("tls.crt", "ca.crt") if (path / n).is_file()]
        if not names:
            raise SetupError(f"{path} has neither tls.crt nor ca.crt.")
        path = path / names[0]
    if path.suffix == ".toml":
        agreement = read_agreement(path)
        _show_agreement(report, path, agreement)
        shown = [*agreement.trusted_domains.authorities.values()]
    else:
        shown = [_certificate(path)]
        _show_certificate(report, path, shown[0])
    left = min(_days_left(certificate) for certificate in shown)
    if left < expires_within or left < 0:
        report.print(f"[red]A certificate ends in {left:.0f} days.[/]")
        raise typer.Exit(ExitCode.SETUP)


def _certificate(path: Path) -> "Certificate":
    from ditto.files import read_limited
    from ditto.trust.peers import MAX_CERTIFICATE, read_certificate

    return read_certificate(read_limited(path, MAX_CERTIFICATE, SetupError, "16 KiB"))


def _vouched(text: str) -> "Json":
    """A trust domain and its authority, as an option gives it."""
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    from ditto.trust.authority import CA_CERTIFICATE, authority_domain
    from ditto.trust.peers import fingerprint

    domain, equals, file = text.rpartition("=")
    path = Path(file)
    certificate = _certificate(path / CA_CERTIFICATE if path.is_dir() else path)
    if not equals:
        domain = authority_domain(certificate) or ""
    if not domain:
        raise SetupError(
            f"{path} does not say which trust domain it is of. Write DOMAIN={path}."
        )
    names = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return {
        "organisation": str(names[0].value) if names else domain,
        "trust_domain": domain,
        "ca_sha256": fingerprint(certificate),
        "ca": certificate.public_bytes(Encoding.PEM).decode(),
    }


def _days_left(certificate: "Certificate") -> float:
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    return left / datetime.timedelta(days=1)


def _show_certificate(report: Report, path: Path, certificate: "Certificate") -> None:
    from ditto.trust.authority import authority_domain, names_of
    from ditto.trust.peers import fingerprint

    names = names_of(certificate)
    identities = [name for name in names if name.startswith("spiffe://")]
    is_authority = authority_domain(certificate) is not None
    hosts = [name for name in names if name not in identities]
    expires, left = certificate.not_valid_after_utc, _days_left(certificate)
    rows = [
        ("file", path),
        ("kind", "authority" if is_authority else "member"),
        ("identity", ", ".join(identities) or "none"),
        ("hosts", ", ".join(hosts) or "none"),
        ("expires", f"{expires:%Y-%m-%d %H:%M} UTC, in {left:.0f} days"),
        ("SHA-256", fingerprint(certificate)),
    ]
    report.print(table("Certificate", ["", ""], [], rows))
    report.write(
        {
            "file": str(path),
            "is_authority": is_authority,
            "identities": identities,
            "hosts": hosts,
            "expires": expires.isoformat(),
            "days_left": left,
            "sha256": fingerprint(certificate),
        }
    )


def _show_agreement(report: Report, path: Path, agreement: "Agreement") -> None:
    rows = [
        [rank, party.organisation, party.trust_domain, party.grpc, party.link]
        for rank, party in enumerate(agreement.parties)
    ]
    headings = ["rank", "organisation", "trust domain", "gRPC", "link"]
    report.print(table(f"{agreement.name}: {path}", headings, [], rows))
    vouched = (*agreement.parties, *agreement.domains)
    certificates = agreement.trusted_domains.authorities
    rows = [
        [v.trust_domain, v.ca_sha256, f"{_days_left(certificates[v.trust_domain]):.0f}"]
        for v in vouched
    ]
    title = "Authorities"
    report.print(table(title, ["trust domain", "SHA-256"], ["days left"], rows))
    report.print(
        f"trios    {agreement.trios}\n"
        f"versions {agreement.versions.min} to {agreement.versions.max}\n"
        f"owners   {', '.join(agreement.owners) or 'none'}\n"
        f"clients  {', '.join(agreement.clients) or 'none'}\n"
        f"digest   {agreement.digest}",
        markup=False,
    )
    report.write(
        {
            "file": str(path),
            "digest": agreement.digest,
            "agreement": agreement.model_dump(mode="json"),
        }
    )
