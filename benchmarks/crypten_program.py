"""One of CrypTen's two parties: computes a job, measures it, says the result.

Runs by its path in the environment that ``benchmarks.mpcformer`` makes, as
``python crypten_program.py SETTINGS`` with the settings in JSON. It knows torch,
CrypTen and the standard library only. Every line it writes is JSON: ``progress`` while
it works, ``result`` at the end.

The encoder is BERT's, from its embedded input on: attention with MPCFormer's softmax
(Li et al., ICLR 2023), Quad for GeLU, and LayerNorm, all weights secret. Squares are
CrypTen's ``square``, which sends half of what a product does; MPCFormer's own benchmark
multiplies there, and puts batch norms where BERT has LayerNorm. Everything else is
CrypTen's, with its defaults: 64 bits, 16 of them fraction.
"""

import fcntl
import importlib
import json
import math
import os
import socket
import struct
import sys
import time
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

Json = dict[str, Any]

OWNER, CLIENT = 0, 1
"""The party that has the weights and the one that has the input."""

_EPS = 1e-5
_SPREAD = 0.55
"""The deviation of a product with weights: theirs is 0.02 for a width of 768."""
_ASK_ADDRESS = 0x8915
"""SIOCGIFADDR: the first address of an interface."""
_BYTES_SENT = 200
"""Where the kernel's tcp_info counts the bytes sent; the ones sent again follow."""
_PERIOD = 1.0
"""Seconds between two words on progress."""


def main() -> None:
    """Join the other party, do the job, say the result."""
    settings = json.loads(sys.argv[1])
    interface = settings["interface"] or find_interface(settings["address"])
    os.environ |= {
        "OMP_NUM_THREADS": str(settings["threads"]),
        "DISTRIBUTED_BACKEND": "gloo",
        "GLOO_SOCKET_IFNAME": interface,
        "RENDEZVOUS": f"file://{settings['meeting']}",
        "WORLD_SIZE": "2",
        "RANK": str(settings["rank"]),
    }
    crypten = load_crypten()
    crypten.init()
    crypten.cfg.communicator.verbose = True  # or it counts nothing
    with crypten.no_grad():
        result = JOBS[settings["job"]](crypten, settings)
    versions = {
        "crypten": crypten.__version__,
        "torch": str(importlib.import_module("torch").__version__),
    }
    say("result", {**result, "versions": versions})
    os._exit(0)  # gloo's threads may abort a process that takes its time to end


def say(kind: str, what: Any) -> None:
    """One line for the process that started this one."""
    sys.stdout.write(json.dumps({kind: what}) + "\n")
    sys.stdout.flush()


def load_crypten() -> Any:
    """CrypTen 0.4.1 on a torch that has lost the registry of its ONNX exporter.

    CrypTen imports the registry for models it converts from ONNX; here are none.
    """
    stub = types.ModuleType("torch.onnx._internal.registration")
    vars(stub)["registry"] = None
    sys.modules[stub.__name__] = stub
    return importlib.import_module("crypten")


def find_interface(address: str) -> str:
    """The interface with an IPv4 address: gloo is told by name where to listen."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                answer = fcntl.ioctl(probe.fileno(), _ASK_ADDRESS, request)
            except OSError:  # it has no address
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    raise SystemExit(f"No network interface has the address {address}.")


# What is measured


def encoder_job(crypten: Any, settings: Json) -> Json:
    """The encoder on shares, then in float by the party that has the weights."""
    torch = importlib.import_module("torch")
    rank, layers = settings["rank"], settings["layers"]
    heads, softmax = settings["heads"], settings["softmax"]

    def shared(tensor: Any, source: int) -> Any:
        """Who has the tensor shares it; of the other only the shape is used."""
        mine = tensor if rank == source else torch.zeros(tensor.shape)
        return crypten.cryptensor(mine, src=source)

    weights = []
    for number in range(layers):
        drawn = draw_layer(torch, settings, number)
        weights.append({name: shared(w, OWNER) for name, w in drawn.items()})
    x = shared(draw_input(torch, settings), CLIENT)

    progress = _reporter(rank, "warming up")
    encoder(x, weights[:1], heads, softmax, progress)
    runs: list[Json] = []
    output: Any = None
    for run in range(settings["repeat"]):
        progress = _reporter(rank, f"run {run + 1} of {settings['repeat']}")
        forward = partial(encoder, x, weights, heads, softmax, progress)
        output, figures = measured(crypten, forward)
        runs.append(figures)
    result: Json = {"runs": runs, "peak_rss": _peak_memory()}
    opened = output.get_plain_text()
    if rank == OWNER:
        plain = (draw_layer(torch, settings, number) for number in range(layers))
        expected = encoder(draw_input(torch, settings), plain, heads, softmax)
        result["mean_abs_error"] = float((opened - expected).abs().mean())
        result["mean_abs_value"] = float(expected.abs().mean())
    return result


def matmul_job(crypten: Any, settings: Json) -> Json:
    """One product of two secret matrices: what the count is checked with."""
    torch = importlib.import_module("torch")
    rows, inner, columns = settings["shape"]
    x = crypten.cryptensor(torch.ones(rows, inner), src=CLIENT)
    y = crypten.cryptensor(torch.ones(inner, columns), src=OWNER)
    product, figures = measured(crypten, lambda: x.matmul(y))
    wrong = (product.get_plain_text() - inner).abs().max()
    return {"runs": [figures], "max_abs_error": float(wrong)}


JOBS: dict[str, Callable[[Any, Json], Json]] = {
    "encoder": encoder_job,
    "matmul": matmul_job,
}


def measured(crypten: Any, run: Callable[[], Any]) -> tuple[Any, Json]:
    """What a run gives, and what this party spent on it.

    CrypTen's ``bytes`` are what this party sends and receives in tensors;
    ``socket_bytes`` are what the kernel says this process sent, headers of gloo
    included.
    """
    communicator = crypten.comm.get()
    communicator.barrier()
    communicator.reset_communication_stats()
    sent, cpu, started = socket_bytes(), time.process_time(), time.perf_counter()
    output = run()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    counted = communicator.get_communication_stats()
    return output, {
        "bytes": counted["bytes"],
        "rounds": counted["rounds"],
        "socket_bytes": socket_bytes() - sent,
        "seconds": seconds,
        "cpu_seconds": cpu,
    }


def socket_bytes() -> int:
    """Bytes this process has sent over TCP so far, by the kernel's count."""
    total = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(number))) as connection:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        except OSError:  # closed meanwhile, or not of TCP
            continue
        if len(info) >= _BYTES_SENT + 16:
            sent, again = struct.unpack_from("=QQ", info, _BYTES_SENT)
            total += sent - again
    return total


def _peak_memory() -> int:
    """Bytes; getrusage would also count the process that started this one."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024


def _reporter(rank: int, what: str) -> Callable[[int], None]:
    """Says which layer is computed, from one party and not too often."""
    last = -math.inf

    def report(layer: int) -> None:
        nonlocal last
        now = time.monotonic()
        if rank == OWNER and now - last >= _PERIOD:
            last = now
            say("progress", f"{what}, layer {layer + 1}")

    return report


# The encoder, on shares or in float


def draw_input(torch: Any, settings: Json) -> Any:
    """Standard normal: what stands for embedded tokens, of shape (B, S, W)."""
    source = torch.Generator().manual_seed(settings["seed"])
    size = settings["batch"], settings["seq"], settings["width"]
    return torch.randn(size, generator=source)


def draw_layer(torch: Any, settings: Json, number: int) -> dict[str, Any]:
    """Random weights of a layer; both parties could draw them, one shares them."""
    source = torch.Generator().manual_seed(settings["seed"] + 1 + number)
    width, inner = settings["width"], settings["inner"]

    def draw(*size: int) -> Any:
        return torch.randn(size, generator=source)

    weights = {}
    for name, size in {
        "query": (width, width),
        "key": (width, width),
        "value": (width, width),
        "output": (width, width),
        "up": (width, inner),
        "down": (inner, width),
    }.items():
        weights[name] = _SPREAD * size[0] ** -0.5 * draw(*size)
        weights[f"{name}_bias"] = 0.02 * draw(size[1])
    # Quad's constant would add the same to all tokens, layer after layer, until rows of
    # scores have no positive one: 2ReLU would divide by nothing.
    weights["down"] -= weights["down"].mean(0)
    for norm in ("attention_norm", "output_norm"):
        weights[norm] = 1 + 0.02 * draw(width)
        weights[f"{norm}_bias"] = 0.02 * draw(width)
    return weights


def encoder(
    x: Any,
    layers: Any,
    heads: int,
    softmax: str,
    progress: Callable[[int], None] = lambda _: None,
) -> Any:
    """All layers, one after the other."""
    for number, weights in enumerate(layers):
        progress(number)
        x = encoder_layer(x, weights, heads, softmax)
    return x


def encoder_layer(x: Any, w: dict[str, Any], heads: int, softmax: str) -> Any:
    """A layer of BERT; the same code computes on shares and in float."""
    batch, seq, width = x.shape

    def linear(y: Any, name: str) -> Any:
        return y.matmul(w[name]) + w[f"{name}_bias"]

    def split(name: str) -> Any:
        y = linear(x, name).reshape(batch, seq, heads, width // heads)
        return y.transpose(1, 2)

    query, key, value = (split(name) for name in ("query", "key", "value"))
    scores = query.matmul(key.transpose(2, 3)) * (width // heads) ** -0.5
    mixed = SOFTMAXES[softmax](scores).matmul(value)
    joined = mixed.transpose(1, 2).reshape(batch, seq, width)
    x = layer_norm(x + linear(joined, "output"), w, "attention_norm")
    return layer_norm(x + linear(quad(linear(x, "up")), "down"), w, "output_norm")


def quad(x: Any) -> Any:
    """What stands for GeLU: 0.125 x^2 + 0.25 x + 0.5."""
    return x.square() * 0.125 + x * 0.25 + 0.5


def layer_norm(x: Any, w: dict[str, Any], name: str) -> Any:
    """By the mean and the variance of each row."""
    centred = x - x.mean(-1, keepdim=True)
    spread = centred.square().mean(-1, keepdim=True) + _EPS
    inverse = spread.inv_sqrt() if hasattr(spread, "inv_sqrt") else spread.rsqrt()
    return centred * inverse * w[name] + w[f"{name}_bias"]


def exact_softmax(scores: Any) -> Any:
    """CrypTen's: less the maximum, exponential by squaring, Newton's reciprocal."""
    return scores.softmax(-1)


def two_relu(scores: Any) -> Any:
    """ReLU over its sum. A row without positives gives zeros, in float too."""
    positive = scores.relu()
    total = positive.sum(-1, keepdim=True)
    return positive / (total + 1e-9)  # on shares: plus zero, and nothing is sent


SOFTMAXES: dict[str, Callable[[Any], Any]] = {
    "softmax": exact_softmax,
    "2relu": two_relu,
}


if __name__ == "__main__":
    main()
