"""The one table of models: which checkpoints load, and as what."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from ditto.errors import CheckpointError
from ditto.models import bert, gpt2
from ditto.models.checkpoint import Checkpoint, Tensors, read_checkpoint
from ditto.models.layers import Params

FAMILIES: dict[str, tuple[Any, str]] = {
    "bert": (bert, "Bert"),
    "roberta": (bert, "Roberta"),
    "distilbert": (bert, "DistilBert"),
    "gpt2": (gpt2, "GPT2"),
}
"""Model types, the module that computes them, and how their classes are called."""


@dataclass(frozen=True)
class Model:
    """A model ready to be applied: ``apply(params, ids, mask)``."""

    family: str
    head: str
    config: Any
    params: Params
    apply: Callable[..., Any]

    @property
    def trace(self) -> Callable[..., Any]:
        """As ``apply``, with a list of the hidden states before the answer."""
        module, _ = FAMILIES[self.family]

        def traced(params: Params, *inputs: Any) -> Any:
            states = module.hidden_states(self.config, params, *inputs)
            return states, self.apply(params, *inputs)

        return traced

    def configured(self, **changes: Any) -> "Model":
        """The same parameters under another configuration."""
        module, _ = FAMILIES[self.family]
        config = replace(self.config, **changes)
        return replace(self, config=config, apply=module.build(config, self.head))

    def tensors(self) -> Tensors:
        """The parameters under the names of the checkpoint."""
        module, _ = FAMILIES[self.family]
        saved: Tensors = module.save_params(self.config, self.head, self.params)
        return saved


def load_model(folder: str | Path, head: str | None = None) -> Model:
    """The model in a Hugging Face folder."""
    return from_checkpoint(read_checkpoint(folder), head)


def from_checkpoint(checkpoint: Checkpoint, head: str | None = None) -> Model:
    """The model of a checkpoint, with the head it was saved with unless told.

    Raises CheckpointError, saying why, for any model outside the supported set.
    """
    family = checkpoint.config.get("model_type")
    if family not in FAMILIES:
        raise CheckpointError(
            f"Models of type {family!r} are not supported; these are: "
            f"{', '.join(FAMILIES)}."
        )
    module, prefix = FAMILIES[family]
    chosen = head or _head_of(module, prefix, checkpoint.architecture)
    if chosen not in get_args(module.Head):
        raise CheckpointError(
            f"There is no head {chosen!r} of {family}; there are: "
            f"{', '.join(get_args(module.Head))}."
        )
    try:
        config = _config(module, checkpoint)
    except KeyError as missing:
        raise CheckpointError(f"config.json has no {missing}.") from None
    params = module.load_params(config, chosen, checkpoint.tensors)
    return Model(family, chosen, config, params, module.build(config, chosen))


def _config(module: Any, checkpoint: Checkpoint) -> Any:
    kind = module.BertConfig if module is bert else module.Gpt2Config
    return kind.from_hf(checkpoint.config)


def _head_of(module: Any, prefix: str, architecture: str) -> str:
    head = module.HEADS.get(architecture.removeprefix(prefix))
    if not architecture.startswith(prefix) or head is None:
        names = ", ".join(f"{prefix}{name}" for name in module.HEADS)
        raise CheckpointError(
            f"{architecture} is not supported; of this family these are: {names}."
        )
    return str(head)
