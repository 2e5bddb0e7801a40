"""The plans that a bundle offers, from a model and the shapes that will be asked."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import jax

from ditto.api.pretrained import Pretrained
from ditto.client.bundle import Offer
from ditto.errors import FixedPointRangeError
from ditto.models import Head
from ditto.models.computation import Phase
from ditto.owner import Description, Exported, export_bundle
from ditto.owner.bundle import check_new

_LABELLED = (Head.TEXT_CLASSIFICATION, Head.TOKEN_CLASSIFICATION)


def export_model(
    model: Pretrained,
    folder: Path,
    out: Path,
    *,
    lengths: Sequence[int],
    batch_sizes: Sequence[int] = (1,),
    tokens: int = 20,
    pairs: bool = False,
    owner: str = "local",
    name: str | None = None,
    on_stage: Callable[[str], None] = lambda _: None,
) -> None:
    """Write a bundle of the model in a folder.

    It takes texts of up to ``lengths`` tokens, ``batch_sizes`` of them at a time, also
    ``pairs`` of texts, or for a model that generates prompts of these lengths, as many
    as the smallest batch size, and ``tokens`` tokens after them. Each comes a second
    time with wide margins, for what leaves the usual ones, if the model is precise
    enough with them. The model is called ``name``, or as its folder.
    """
    check_new(out)  # before the long work
    exported = []
    usual = _offers(model, lengths, batch_sizes, tokens, pairs)
    wide = [replace(offer, wide=True) for offer in usual]
    checked = model.plans.profile.range_check
    for offer in [*usual, *(wide if checked else [])]:
        margins = ", wide margins" if offer.wide else ""
        on_stage(
            f"calibrating and compiling {offer.phase}, {offer.length} tokens"
            f"{f' x {offer.batch_size}' if offer.batch_size > 1 else ''}{margins}"
        )
        computation = model.computation(
            Phase(offer.phase),
            offer.batch_size,
            offer.length,
            with_types=offer.with_types,
        )
        computation = replace(computation, wide=offer.wide)
        try:
            exported.append(Exported(offer, model.plans.plan(computation)))
        except FixedPointRangeError:
            if not offer.wide:
                raise
            on_stage(
                "wide margins leave no precision: what leaves its range is refused"
            )
            exported = [each for each in exported if not each.offer.wide]
            break
    description = Description(
        model=name or folder.resolve().name,
        owner=owner,
        head=model.model.head,
        max_tokens=model.max_tokens,
        labels=model.labels if model.model.head in _LABELLED else {},
        hide_length=model.computation(Phase.FORWARD, 1, 2).hide_length,
        problem_type=model.model.published.get("problem_type"),
        encoding=model.model.sentence.encoding,
        public_prefix=model.public_prefix,
    )
    weights = jax.tree_util.tree_leaves(model.plans.model.params)
    export_bundle(out, description, exported, weights, folder, on_stage)


def _offers(
    model: Pretrained,
    lengths: Sequence[int],
    batch_sizes: Sequence[int],
    tokens: int,
    pairs: bool,
) -> list[Offer]:
    buckets = sorted({min(length, model.max_tokens) for length in lengths})
    sizes = sorted(set(batch_sizes))
    if model.model.head is not Head.TEXT_GENERATION:
        types = model.model.config.type_vocab_size > 1
        kinds = (False, True) if pairs and types else (False,)
        return [
            Offer("forward", batch_size, length, with_types)
            for with_types in kinds
            for length in buckets
            for batch_size in sizes
        ]
    prefill = [Offer("prefill", sizes[0], length) for length in buckets]
    room = range(2, min(max(buckets) + tokens, model.max_tokens) + 1)
    caches = sorted({model.cache_length(n) for n in room})
    least = min(buckets) + len(model.public_prefix)
    caches = [n for n in caches if n >= least]
    return prefill + [Offer("decode", sizes[0], length) for length in caches]
