"""What the service adds to an inference: gRPC, mTLS, the queue, three organisations."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

import ditto
from benchmarks import show
from benchmarks.parties import OWNER, open_parties
from ditto.bench.serving import TEXTS
from ditto.trust import load_credentials
from ditto.wire.agreement import read_agreement

_NAME = "acme/model:1"


def main(
    model_dir: Annotated[Path, typer.Argument(metavar="MODEL_DIR")],
    length: Annotated[int, typer.Option(help="Tokens of a text.", min=2)] = 32,
    repeat: Annotated[int, typer.Option(help="Answers of each.", min=1)] = 20,
    json_file: show.JsonFile = None,
) -> None:
    """The same shares and plans, asked in turn on this machine.

    Once by the parties of `ditto run`, processes with TLS links; and once by three
    parties of `ditto party serve`. The ratio is the median over pairs of answers.
    """
    with ExitStack() as opened:
        folder = Path(tempfile.mkdtemp(prefix="ditto-service-"))
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        _export(model_dir, folder / "bundle", length)
        local, service = _local(folder, opened), _service(folder, opened)
        askers = {"ditto run": local, "service": service}
        for ask in askers.values():
            for _ in range(2):
                ask(TEXTS[0])  # the first runs compile
        seconds: dict[str, list[float]] = {name: [] for name in askers}
        for k in range(repeat):
            order = list(askers.items())
            for name, ask in order if k % 2 else reversed(order):
                started = time.perf_counter()
                ask(TEXTS[k % len(TEXTS)])
                seconds[name].append(time.perf_counter() - started)
    pairs = zip(seconds["service"], seconds["ditto run"], strict=True)
    ratio = statistics.median(service / run for service, run in pairs)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    result = {
        "model": model_dir.resolve().name,
        "length": length,
        "repeat": repeat,
        "ratio": round(ratio, 4),
        "run_seconds": round(medians["ditto run"], 4),
        "service_seconds": round(medians["service"], 4),
        "all_seconds": {k: [round(s, 4) for s in v] for k, v in seconds.items()},
        "command": show.command_line("benchmarks.service"),
    }
    rows = [[name, f"{median:.3f}"] for name, median in medians.items()]
    title = f"{length} tokens, {repeat} answers of each: {ratio:.3f}x"
    show.show(title, ["asked"], ["median seconds"], rows, None)
    show.write(json_file, result)


def _export(model_dir: Path, out: Path, length: int) -> None:
    from ditto.api import from_pretrained
    from ditto.api.export import export_model

    with from_pretrained(model_dir, mode="simulate") as model:
        export_model(model, model_dir, out, lengths=[length], owner=OWNER, name=_NAME)


def _local(folder: Path, opened: ExitStack) -> Callable[[str], object]:
    """Asks the parties of `ditto run`."""
    from ditto.client.asking import Client
    from ditto.client.bundle import read_client_bundle
    from ditto.party import LocalDeployment, load_local_bundle
    from ditto.runtime import ProcessTrio

    trio = opened.enter_context(ProcessTrio(timeout=600.0))
    load_local_bundle(trio, folder / "bundle")
    bundle = read_client_bundle(folder / "bundle" / "client")
    client = Client(bundle, LocalDeployment(trio))
    return lambda text: client.predict([text])


def _service(folder: Path, opened: ExitStack) -> Callable[[str], object]:
    """Asks a deployment."""
    from ditto.owner.remote import RemotePublisher

    parties = opened.enter_context(open_parties())
    agreement = read_agreement(parties.deployment)
    owner = load_credentials(parties.member("owner", "acme"), agreement.trusted_domains)
    publisher = RemotePublisher(agreement, owner)
    publisher.publish(folder / "bundle")
    publisher.close()
    alice = parties.member("client", "alice")
    client = ditto.Client(parties.deployment, alice, cache=folder / "cache")
    opened.callback(client.close)
    return lambda text: client.predict(_NAME, [text], too_long="cut")


if __name__ == "__main__":
    show.run(main)
