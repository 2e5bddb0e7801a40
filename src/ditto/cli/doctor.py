"""``ditto doctor``: is this machine fit to be a party?"""

import os
import platform
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ditto.cli.exit_codes import ExitCode
from ditto.cli.progress import stages
from ditto.cli.remote import AsMember
from ditto.cli.report import JsonFile, Report
from ditto.cli.show import table
from ditto.errors import DittoError

if TYPE_CHECKING:
    from ditto.runtime import Trio
    from ditto.runtime.trio import PartyFunction


def _pinned(package: str) -> str:
    """The one version that this release asks for."""
    lines = (line.partition(";")[0] for line in requires("ditto-mpc") or ())
    pins = (line.partition("==") for line in lines)
    return next(pin.strip() for name, _, pin in pins if name == package)


SPU_WHEEL = _pinned("spu")
JAX = _pinned("jax")

MISSING = "not installed"

Finding = tuple[bool, str, str]
"""Whether it is well, what was found, and the way out if it is not."""


def doctor(
    deployment: Annotated[
        Path | None,
        typer.Option(help="Look at the parties of this deployment.toml instead."),
    ] = None,
    credentials: AsMember = None,
    trio: Annotated[
        int | None, typer.Option(help="With --deployment: only this trio.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Check versions, CPU, SPU on both rings, and links with TLS on loopback.

    Every line says what was found; a line that fails says what to do, and the command
    ends with code 4. SPU is tried in processes of its own, so a crash of the wheel
    is a finding, not the end of the check.

    With `--deployment`, whether every party can be reached from here: its name, port,
    TLS, authority, certificate, clock, version, agreement and links; and which parties
    reach each other. The cause of each NO is named. Nothing is computed and no run is
    disturbed.
    """
    report = Report(json_file)
    if deployment is not None:
        from ditto.cli.deployment_doctor import examine_deployment

        examine_deployment(deployment, credentials, trio, report)
        return
    with stages() as shown:
        findings = dict(_findings(shown.stage))
    well = all(good for good, _, _ in findings.values())
    headings = ["", "check", "found", *([] if well else ["what to do"])]
    rows = [
        ["ok" if good else "no", name, found, "" if good else advice][: len(headings)]
        for name, (good, found, advice) in findings.items()
    ]
    report.print(table("ditto doctor", headings, [], rows))
    report.write(
        {
            name: {"ok": good, "found": found, "advice": "" if good else advice}
            for name, (good, found, advice) in findings.items()
        }
    )
    if not well:
        report.print("[red]Some checks failed[/]; the last column says what to do.")
        if any(findings[name][1] == MISSING for name in ("spu", "jax")):
            report.print(
                "Parties need JAX and SPU. Whoever only asks a service needs neither: "
                "`ditto doctor --deployment` says whether it can be reached."
            )
        raise typer.Exit(ExitCode.SETUP)
    report.print("[green]All well[/]: this machine can run a party.")


def _findings(tell: Callable[[str], None]) -> Iterator[tuple[str, Finding]]:
    computing = {"spu": _package("spu", SPU_WHEEL), "jax": _package("jax", JAX)}
    yield "python", _python()
    yield from computing.items()
    yield "numpy", _package("numpy", None)
    yield "cryptography", _package("cryptography", None)
    yield "cpu", _cpu()
    yield "products", _products()
    yield "memory", _memory()
    if any(found == MISSING for _, found, _ in computing.values()):
        return  # no party starts without both
    tell("starting three parties on loopback, with TLS")
    yield from _parties(tell)


def _python() -> Finding:
    good = (3, 11) <= sys.version_info[:2] < (3, 13)
    return good, platform.python_version(), "Use Python 3.11 or 3.12."


def _package(name: str, wanted: str | None) -> Finding:
    way_out = f"pip install '{name}{'==' + wanted if wanted else ''}'"
    try:
        found = version(name)
    except PackageNotFoundError:
        return False, MISSING, way_out
    return wanted in (None, found), found, way_out


def _cpu() -> Finding:
    info = Path("/proc/cpuinfo")
    flags: set[str] = set()
    if info.is_file():
        lines = info.read_text().splitlines()
        flags = {f for line in lines if line.startswith("flags") for f in line.split()}
    missing = [flag for flag in ("aes", "avx2") if flag not in flags]
    features = f"no {', '.join(missing)}" if missing else "aes, avx2"
    found = f"{os.cpu_count()} cores, {features}"
    advice = "SPU's wheel needs AVX2 and masks need AES-NI to be fast; use another CPU."
    return not missing, found, advice


def _products() -> Finding:
    """XLA is right as well, so nothing is wrong with it."""
    from ditto.native import Level, level

    if level() > Level.XLA:
        return True, f"by {level().name}, in C", ""
    return True, "by XLA: the package was built without a C compiler", ""


def _memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return total >= 4, f"{total:.1f} GiB", "Use a machine with 4 GiB or more."


def _parties(tell: Callable[[str], None]) -> Iterator[tuple[str, Finding]]:
    from ditto.bench import checks
    from ditto.runtime import ProcessTrio

    try:
        trio = ProcessTrio(timeout=30)
    except DittoError as error:
        yield "links", (False, str(error), "Allow TCP on 127.0.0.1 and try again.")
        return
    yield "links", (True, "three processes over TLS, identities proven", "")
    with trio:
        tell("multiplying with our own protocol")
        yield "protocols", _try(trio, checks.check_native, {"size": 64})
        for bits in (32, 64):
            for size in (4, 256):
                tell(f"SPU, {bits}-bit ring, {size}x{size} matmul")
                parameters = {"bits": bits, "size": size}
                found = _try(trio, checks.check_spu, parameters)
                yield f"SPU FM{bits} {size}x{size}", found
                if not found[0]:
                    return


def _try(trio: "Trio", program: "PartyFunction", parameters: dict[str, int]) -> Finding:
    advice = f"Reinstall the wheel this release was tested with: spu=={SPU_WHEEL}."
    try:
        replies = trio.call(program, parameters)
    except DittoError as error:
        return False, str(error), advice
    worst = max(reply["error"] for reply, _ in replies)
    allowed = replies[0][0]["allowed"]
    found = f"largest error {worst:.2g} (allowed {allowed:.2g})"
    return worst <= allowed, found, advice
