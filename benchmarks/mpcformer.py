"""MPCFormer (Li et al., ICLR 2023) on CrypTen 0.4.1: bytes, rounds, seconds, error.

Two processes compute an encoder of BERT's shape on additive shares, over gloo's TCP.
CrypTen lives in an environment of its own, made once under the user's cache; Ditto's
process never imports it, and starts ``crypten_program.py`` with that environment's
Python.

**Setting.** CrypTen's trusted first party deals the triples: party 0 itself. It knows
every mask, so it could open every value; in Ditto no single party could. Dealing costs
nothing on the wire, for party 1's shares come from a seed it has in common with the
dealer. Masks are drawn by torch's generator, which is not a cryptographic one, and
where objects are exchanged CrypTen reads pickles from its peer. It is a baseline to
measure, not something to deploy.

**Counts.** ``bytes`` is what both parties together send in tensors. CrypTen counts for
each party what it sends and what it receives; half the sum is what was sent.
``socket_bytes`` is the kernel's count of what both processes sent, with gloo's headers:
48 bytes each, 12 of them from each party for a tensor opened. ``rounds`` is CrypTen's:
one for each exchange, whatever it holds. Over gloo an exchange is a ring of two steps,
each of which waits for word that the peer is ready, so it takes four one-way delays and
not one.

**Not computed.** The embedding: the input is a tensor of the embedded shape. Nor is the
opening of the result counted.
"""

import contextlib
import ipaddress
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ditto.errors import SetupError

Softmax = Literal["softmax", "2relu"]
Progress = Callable[[str], None]
Json = dict[str, Any]

SETTING = "two parties, trusted first party deals"
INPUT = "embedded already: (batch, seq, width), standard normal"
PACKAGES = (
    ("torch==2.13.0",),
    ("--no-deps", "crypten==0.4.1"),
    (
        "omegaconf",
        "antlr4-python3-runtime==4.9.*",
        "onnx",
        "pandas",
        "scipy",
        "pyyaml",
    ),
)
"""What pip installs, in this order. CrypTen's own list names packages that are gone."""

_PROGRAM = Path(__file__).with_name("crypten_program.py")
_LAST_LINES = 12
"""Lines of a party's errors that a message quotes."""
_LOCAL = ("127.0.0.1", "127.0.0.1")
_PAUSE = 0.1
"""Seconds between two looks at the processes."""


@dataclass(frozen=True)
class EncoderShape:
    """The size of an encoder; BERT-base by default."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    inner: int = 3072

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise SetupError(f"An encoder's {name} is at least 1, not {value}.")
        if self.width % self.heads:
            raise SetupError(
                f"A width of {self.width} does not divide into {self.heads} heads."
            )


def bench_mpcformer(
    shape: EncoderShape,
    *,
    seq: int,
    batch: int = 1,
    softmax: Softmax,
    environment: Path | None = None,
    addresses: Sequence[str] = _LOCAL,
    prefixes: Sequence[Sequence[str]] = ((), ()),
    interfaces: Sequence[str | None] = (None, None),
    threads: int | None = None,
    repeat: int = 1,
    seed: int = 0,
    timeout: float = 3600.0,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """One encoder with Quad and the softmax asked for, after one layer to warm up.

    A prefix is put before a party's command: ``ip netns exec name`` runs it in a
    network namespace. The interface is the one with the party's address, unless named.
    Each party has half of the cores in threads, unless told: two of them spinning on
    the same cores are several times slower.
    """
    if softmax not in get_args(Softmax):
        raise SetupError(
            f"{softmax!r} is no softmax of MPCFormer here; it is one of "
            f"{', '.join(get_args(Softmax))}."
        )
    used = _threads() if threads is None else threads
    for name, value in {
        "seq": seq,
        "batch": batch,
        "repeat": repeat,
        "threads": used,
    }.items():
        if value < 1:
            raise SetupError(f"{name} is at least 1, not {value}.")
    job = {
        "job": "encoder",
        **asdict(shape),
        "seq": seq,
        "batch": batch,
        "softmax": softmax,
        "repeat": repeat,
        "seed": seed,
    }
    crypten_folder = make_environment(environment, progress)
    progress(f"mpcformer quad+{softmax}: two parties compute")
    replies = run_parties(
        crypten_folder,
        job,
        addresses=addresses,
        prefixes=prefixes,
        interfaces=interfaces,
        threads=used,
        timeout=timeout,
        progress=lambda message: progress(f"mpcformer quad+{softmax}: {message}"),
    )
    peak = max(reply["peak_rss"] for reply in replies)
    return {
        "profile": f"mpcformer quad+{softmax}",
        **spent(replies),
        "peak_rss_mb": round(peak / 1e6),
        "mean_abs_error": replies[0]["mean_abs_error"],
        "mean_abs_value": replies[0]["mean_abs_value"],
        "layers": shape.layers,
        "seq": seq,
        "batch": batch,
        "threads": used,
        "input": INPUT,
        "setting": SETTING,
        "versions": replies[0]["versions"],
    }


def spent(replies: Sequence[Json]) -> dict[str, Any]:
    """Of all runs: what both parties sent, and the time of the median run."""
    runs = list(zip(*(reply["runs"] for reply in replies), strict=True))
    first = runs[0]
    return {
        "bytes": round(sum(party["bytes"] for party in first)) // 2,
        "socket_bytes": sum(party["socket_bytes"] for party in first),
        "rounds": max(party["rounds"] for party in first),
        "seconds": round(
            statistics.median(max(party["seconds"] for party in run) for run in runs), 3
        ),
        "cpu_seconds": [
            round(statistics.median(run[rank]["cpu_seconds"] for run in runs), 3)
            for rank in range(len(replies))
        ],
    }


def default_environment() -> Path:
    """Where CrypTen's environment is, unless told."""
    return Path.home() / ".cache" / "ditto" / "crypten-0.4.1"


def make_environment(
    environment: Path | None = None, progress: Progress = lambda _: None
) -> Path:
    """The folder of CrypTen's environment, made on the first call: 1.3 GB of packages.

    Packages come from wherever pip is configured to get them.
    """
    folder = environment or default_environment()
    if (folder / "bin" / "python").exists():
        return folder
    if folder.exists():
        raise SetupError(
            f"{folder} is not an environment for CrypTen: it has no bin/python. Remove "
            "it to have one made there, or name another folder."
        )
    progress(f"making an environment for CrypTen in {folder}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        _install([sys.executable, "-m", "venv", str(folder)])
        for packages in PACKAGES:
            names = ", ".join(name for name in packages if not name.startswith("-"))
            progress(f"installing {names}")
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            _install([*pip, *packages])
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # half of one would look like one
        raise
    return folder


def _install(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SetupError(
            f"CrypTen's environment could not be made: {' '.join(command)} ended with "
            f"code {done.returncode}:\n{_last_lines(done.stderr)}"
        )


def run_parties(
    environment: Path,
    job: Json,
    *,
    addresses: Sequence[str] = _LOCAL,
    prefixes: Sequence[Sequence[str]] = ((), ()),
    interfaces: Sequence[str | None] = (None, None),
    threads: int = 1,
    timeout: float = 3600.0,
    progress: Progress = lambda _: None,
) -> list[Json]:
    """Two processes of the program; what each of them says at the end.

    They meet by a file, so they share a disk, and no port has to be free. Whatever
    happens, none of them is left running.
    """
    for name, values in (
        ("addresses", addresses),
        ("prefixes", prefixes),
        ("interfaces", interfaces),
    ):
        if len(values) != 2:
            raise SetupError(f"CrypTen's {name} are two, not {len(values)}.")
    for address in addresses:
        _check_address(address)
    python = environment / "bin" / "python"
    if not python.exists():
        raise SetupError(
            f"CrypTen's environment {environment} has no bin/python. Remove the folder "
            "to have it made anew, or name another."
        )
    with tempfile.TemporaryDirectory(prefix="ditto-crypten-") as folder:
        parties = []
        try:
            for rank in (0, 1):
                settings = {
                    **job,
                    "rank": rank,
                    "address": addresses[rank],
                    "interface": interfaces[rank],
                    "meeting": str(Path(folder) / "meeting"),
                    "threads": threads,
                }
                # Isolated: this folder's modules and PYTHONPATH are not for it.
                command = [str(python), "-I", str(_PROGRAM), json.dumps(settings)]
                parties.append(_Party(rank, [*prefixes[rank], *command], Path(folder)))
            _wait(parties, timeout, progress)
            return [party.result() for party in parties]
        finally:
            for party in parties:
                party.end()


def _check_address(address: str) -> None:
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        raise SetupError(
            f"{address!r} is not an IPv4 address, which CrypTen's parties need."
        ) from None


def _threads() -> int:
    return max(1, len(os.sched_getaffinity(0)) // 2)


class _Party:
    """A process of the program, and the files it writes to."""

    def __init__(self, rank: int, command: Sequence[str], folder: Path) -> None:
        self.rank = rank
        self._output = folder / f"output{rank}"
        self._errors = folder / f"errors{rank}"
        self._read = 0
        self._messages: list[Json] = []
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            try:
                self.process = subprocess.Popen(  # noqa: S603
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
                )
            except OSError as error:
                raise SetupError(
                    f"CrypTen's party {rank} could not be started: {error}."
                ) from error

    def heard(self) -> Iterator[Json]:
        """The lines it has written since the last look."""
        with self._output.open("rb") as output:
            output.seek(self._read)
            while (line := output.readline()).endswith(b"\n"):
                self._read = output.tell()
                with contextlib.suppress(ValueError):  # a library's words
                    message = json.loads(line)
                    if isinstance(message, dict):
                        self._messages.append(message)
                        yield message

    def failure(self) -> str:
        """Why it has ended; nothing if it ended well or has not."""
        code = self.process.poll()
        if not code:
            return ""
        errors = self._errors.read_text(encoding="utf-8", errors="replace")
        advice = ""
        if "ModuleNotFoundError" in errors:
            advice = "\nRemove the environment's folder to have it made anew."
        return (
            f"CrypTen's party {self.rank} ended with code {code}:\n"
            f"{_last_lines(errors)}{advice}"
        )

    def result(self) -> Json:
        """The last word of a process that ended well."""
        for _ in self.heard():
            pass
        results = [
            message["result"] for message in self._messages if "result" in message
        ]
        if not results or not isinstance(results[-1], dict):
            raise SetupError(f"CrypTen's party {self.rank} ended without a result.")
        return results[-1]

    def end(self) -> None:
        """Kill it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def _wait(parties: Sequence[_Party], timeout: float, progress: Progress) -> None:
    deadline = time.monotonic() + timeout
    while True:
        running = [party for party in parties if party.process.poll() is None]
        for party in parties:
            for message in party.heard():
                if "progress" in message:
                    progress(str(message["progress"]))
        failures = [failure for party in parties if (failure := party.failure())]
        if failures:
            raise SetupError("\n".join(failures))
        if not running:
            return
        if time.monotonic() > deadline:
            raise SetupError(
                f"CrypTen's parties did not finish within {timeout:g} seconds."
            )
        time.sleep(_PAUSE)


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:])
