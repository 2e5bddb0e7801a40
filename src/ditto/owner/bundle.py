"""``ditto export``: what a deployment needs of a model, without the checkpoint.

``client/`` has the tokenizer, the labels and the signatures of the plans; ``party0`` to
``party2`` have the plans and each party's shares of the weights. No folder alone
reveals a weight; those of any two parties together reveal all of them.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ditto.client.bundle import Offer
from ditto.client.shares import share_input
from ditto.client.signature import InputSignature, Signature
from ditto.errors import SetupError
from ditto.files import Json
from ditto.fixedpoint import Array, FxpType
from ditto.models.sentence import SentenceEncoding
from ditto.models.tokenizer_files import TOKENIZER_FILES
from ditto.owner.signatures import continuations, signature_of
from ditto.plan import Plan
from ditto.wire.manifest import write_file, write_manifest

CHUNK = 1 << 23
"""Elements of weights in one file."""


@dataclass(frozen=True)
class Exported:
    """A plan, and what a client asks by it."""

    offer: Offer
    plan: Plan


@dataclass(frozen=True)
class Description:
    """What a client must know of a model."""

    model: str
    owner: str
    head: str
    max_tokens: int
    """Tokens that the model can take."""
    labels: Mapping[int, str]
    hide_length: bool = False
    problem_type: str | None = None
    """Whether labels exclude each other, as ``config.json`` says it."""
    encoding: SentenceEncoding = field(default_factory=SentenceEncoding)
    """What the client does with texts and embeddings."""
    public_prefix: Sequence[int] = ()
    """Tokens that every prompt begins with, and that are left out of it."""


def export_bundle(
    out: Path,
    description: Description,
    exported: Sequence[Exported],
    weights: Sequence[npt.ArrayLike],
    tokenizer: Path,
    on_stage: Callable[[str], None] = lambda _: None,
) -> None:
    """Write a bundle; it appears as a whole or not at all.

    ``weights`` are the model's arrays in the order of the plans' first inputs, and
    ``tokenizer`` is the folder with the tokenizer's files.
    """
    check_new(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        signatures = [signature_of(each.plan) for each in exported]
        _write_client(made / "client", description, exported, signatures, tokenizer)
        folders = [made / f"party{rank}" for rank in range(3)]
        for folder in folders:
            folder.mkdir(mode=0o700)
            for each in exported:
                name = f"{each.plan.digest}.plan"
                if not (folder / name).exists():
                    write_file(folder / name, each.plan.to_bytes())
        on_stage("sharing the weights")
        entries = _write_weights(folders, signatures, weights)
        for rank, folder in enumerate(folders):
            contents = {
                "rank": rank,
                "model": description.model,
                "owner": description.owner,
                "plans": sorted({signature.digest for signature in signatures}),
                "continues": continuations(signatures),
                "weights": entries,
            }
            write_manifest(folder, contents)
        made.rename(out)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def check_new(out: Path) -> None:
    """Refuse to write where something is."""
    if out.exists():
        raise SetupError(f"{out} exists already. Name a folder that does not.")


def _write_client(
    folder: Path,
    description: Description,
    exported: Sequence[Exported],
    signatures: Sequence[Signature],
    tokenizer: Path,
) -> None:
    folder.mkdir(mode=0o700)
    for name in ("config.json", *TOKENIZER_FILES):
        if (tokenizer / name).is_file():
            write_file(folder / name, (tokenizer / name).read_bytes())
    offers = [
        {"offer": asdict(each.offer), "signature": signature.to_json()}
        for each, signature in zip(exported, signatures, strict=True)
    ]
    write_file(folder / "offers.json", json.dumps(offers).encode())
    labels = {str(k): label for k, label in description.labels.items()}
    write_manifest(folder, {**asdict(description), "labels": labels})


def _write_weights(
    folders: Sequence[Path],
    signatures: Sequence[Signature],
    weights: Sequence[npt.ArrayLike],
) -> list[Json]:
    """Shares of every weight in every type that a plan takes it in, each once."""
    entries: list[Json] = []
    writer = _ShareFiles(folders)
    for k, weight in enumerate(weights):
        types: set[FxpType] = set()
        for spec in (signature.inputs[k] for signature in signatures):
            for encoding in spec.encodings:
                kind = encoding.type
                if kind is None or kind in types:
                    continue
                types.add(kind)
                only: InputSignature = replace(spec, encodings=(encoding,))
                name = f"{len(entries)}"
                dealt = share_input(only, weight)
                for rank, arrays in enumerate(dealt):
                    writer.add(
                        rank,
                        {
                            f"{name}.first": arrays[f"first{encoding.value}"],
                            f"{name}.second": arrays[f"second{encoding.value}"],
                        },
                    )
                entries.append({"input": spec.name, **asdict(kind)})
                writer.end_entry(int(np.size(weight)))
    writer.flush()
    return entries


class _ShareFiles:
    """Safetensors files of the three parties, each of a bounded size."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._tensors: list[dict[str, Array]] = [{}, {}, {}]
        self._size = self._count = 0

    def add(self, rank: int, tensors: Mapping[str, Array]) -> None:
        """More of one party's."""
        for name, tensor in tensors.items():
            self._tensors[rank][name] = np.ascontiguousarray(tensor)

    def end_entry(self, size: int) -> None:
        """A weight is complete at all parties."""
        self._size += size
        if self._size > CHUNK:
            self.flush()

    def flush(self) -> None:
        """Write what has gathered."""
        from safetensors.numpy import save

        for folder, tensors in zip(self._folders, self._tensors, strict=True):
            if tensors:
                name = f"weights-{self._count:05d}.safetensors"
                write_file(folder / name, save(tensors))
                tensors.clear()
        self._count += 1
        self._size = 0
