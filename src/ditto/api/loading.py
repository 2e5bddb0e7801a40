"""A model from a Hugging Face folder, to be asked in private."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ditto.api.backends import Mode, OnPart, OnStage
from ditto.api.pretrained import Pretrained
from ditto.client import Tokenizer
from ditto.client.out_of_range import OnOutOfRange
from ditto.client.prefix import prefix_tokens
from ditto.compiler import Profile
from ditto.compiler.profile import find_profile
from ditto.errors import ChatTemplateError, CheckpointError
from ditto.extras import require
from ditto.files import cache_folder
from ditto.launch import Launched
from ditto.models import Model, from_checkpoint, read_checkpoint
from ditto.models.chat_files import read_chat_files
from ditto.models.head import Head
from ditto.models.hub import find_folder
from ditto.models.prefix import with_prefix
from ditto.owner.plan_cache import PlanCache, cache_limit
from ditto.owner.plans import Plans
from ditto.owner.samples import Text, TextSamples
from ditto.plan import Audit, check_audit, needs_provable
from ditto.runtime import Trio

if TYPE_CHECKING:
    from ditto.owner.conversations import Conversations

_LOGGER = logging.getLogger("ditto")


def from_pretrained(
    folder: str | Path,
    *,
    profile: str | Profile = "ditto",
    mode: Mode = "mpc",
    head: str | None = None,
    calibration: Sequence[Text] | None = None,
    margin: float | None = None,
    hide_length: bool = False,
    check: bool = True,
    on_out_of_range: OnOutOfRange = "retry",
    trio: Trio | Launched | None = None,
    on_stage: OnStage | None = None,
    on_part: OnPart | None = None,
    cache: Path | Literal[False] | None = None,
    warm: bool = True,
    audit: Audit = "off",
    public_prefix: str | None = None,
) -> Pretrained:
    """The model in a Hugging Face folder, to be asked in private.

    The folder may be a name on the hub, such as "org/name": then it is fetched, if
    Hugging Face's cache does not have it.

    ``mode`` says who computes: "mpc" three parties, each a process of this machine
    (or those of ``trio``); "simulate" the same plan on plain integers; "float" the
    model itself. ``calibration`` are texts, or pairs of texts, like those that will be
    asked; without them everyday ones serve. ``margin`` is how many times further than
    on those any value may go (2 unless the profile says otherwise). ``hide_length``
    keeps secret how much of a padded text is text (encoders only). ``head`` is what the
    model is used for, such as "feature-extraction", if not what it was saved for.

    The parties tell the client if a value has left the range that a plan was made for;
    the answer may then be wrong. ``on_out_of_range`` says what becomes of it: "retry"
    asks again by a plan with wide margins, "raise" raises ``OutOfRangeError``, and
    "return" gives the answer with ``in_range`` False.

    As text and weights are in this process, every private answer is compared with the
    float model's, unless ``check`` is False: one that is not to be trusted says so in
    its ``doubt`` and as an ``AnswerWarning``.

    ``on_stage`` is called with what is being done, such as "calibrating": ``print``
    will do. Without it, the logger "ditto" has the stages, at level INFO.

    Plans are kept in the folder ``cache``, unless it is False: by default in
    ``$DITTO_CACHE``, ``$XDG_CACHE_HOME/ditto`` or ``~/.cache/ditto``. Unless ``warm``
    is False, the parties of ``ditto serve --local`` serve if it keeps this model.

    With ``audit`` "products" the parties prove to each other that their products were
    right before they answer, or raise ``AuditError`` (docs/explanation/audit.md). With
    "recasts" they prove those and all recasts, and prepare the model with provable
    ones. "full" is refused for a model with steps that nothing proves.

    ``public_prefix`` is a text that every prompt of a language model begins with, such
    as a system message in its chat template, and that is no secret: its keys and values
    are computed once in the clear, and shared with the weights.
    """
    folder = find_folder(folder)
    checkpoint = read_checkpoint(folder)
    model = from_checkpoint(checkpoint, head)
    labels = checkpoint.config.get("id2label") or {}
    names = {int(k): str(v) for k, v in labels.items()}
    tokenizer = Tokenizer.load(folder)
    if tokenizer.vocabulary > model.config.vocab_size:
        raise CheckpointError(
            f"The tokenizer knows {tokenizer.vocabulary} tokens, the model "
            f"{model.config.vocab_size}: they do not belong together."
        )
    prefix: list[int] = []
    if public_prefix is not None:
        prefix = prefix_tokens(tokenizer, public_prefix)
        model = with_prefix(model, prefix)
    conversations = _conversations(folder, model, tokenizer, bool(prefix))
    samples = TextSamples(tokenizer, calibration, conversations)
    chosen = find_profile(profile)
    if margin is not None:
        chosen = chosen.replace(margin=margin)
    if needs_provable(check_audit(audit)):
        chosen = chosen.replace(provable=True)
    name = Path(folder).resolve().name
    kept = None if cache is False else cache or cache_folder()
    plan_cache = None if kept is None else PlanCache(kept, cache_limit())
    plans = Plans(model, chosen, samples, cache=plan_cache, name=name)
    return Pretrained(
        model,
        tokenizer,
        names,
        plans,
        mode,
        hide_length=hide_length,
        check=check,
        on_out_of_range=on_out_of_range,
        name=name,
        trio=trio,
        on_stage=on_stage or _LOGGER.info,
        on_part=on_part,
        cache=kept,
        warm=warm and trio is None,
        audit=check_audit(audit),
        public_prefix=prefix,
    )


def _conversations(
    folder: Path, model: Model, tokenizer: Tokenizer, public_prefix: bool
) -> "Conversations | None":
    """What a chat model is calibrated on besides; None if it has no template, or one
    that cannot be rendered, which whoever converses is told of."""
    chat = read_chat_files(folder)
    if chat.template is None or model.head is not Head.TEXT_GENERATION:
        return None
    require("jinja2")
    from ditto.owner.conversations import Conversations

    try:
        return Conversations(chat, tokenizer, public_prefix=public_prefix)
    except ChatTemplateError:
        return None
