"""Conversations with a chat model: how near values come to the ends of their ranges.

\b
    python -m benchmarks.chat_prompts MODEL_DIR --count 200

Conversations in the model's chat template, of the ordinary texts: every third has two
turns of the user, every fourth a message of the system. Each has 64 tokens at most and
is simulated by two plans: one calibrated on bare texts alone, one on conversations
beside them, as ``from_pretrained`` does with a folder that has a template. Headroom is
the least over all conversations, in bits that are left of a range, for every part of
the model. ``--tiny`` does it with a random Llama of two layers.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer

from benchmarks import show
from benchmarks.tiny_models import llama_folder
from ditto.analysis import estimate
from ditto.api import Phase, Pretrained, from_pretrained
from ditto.api.backends import FloatBackend, SimulatedBackend
from ditto.cli.progress import Stages, stages
from ditto.client.tokens import Encoded, pad_batch
from ditto.errors import SetupError
from ditto.evaluation import OrdinaryText, ordinary_texts
from ditto.files import Json
from ditto.models.chat_files import ChatFiles, read_chat_files
from ditto.models.chat_template import ChatTemplate
from ditto.owner.plans import Plans
from ditto.owner.samples import TextSamples

OUT = Path("docs/results/chat_prompts.json")
LENGTH = 64
AT_ONCE = 16
TIE = 0.1
"""Logits this close may fall either way."""
SYSTEM = "Answer briefly, and say so if you do not know."
TEMPLATE = (
    "{% for m in messages %}<|endoftext|>{{ m.role }} {{ m.content }}{% endfor %}"
)
"""Of the random model."""


def main(
    model_dir: Annotated[
        Path | None, typer.Argument(help="The model's folder.", exists=True)
    ] = None,
    count: Annotated[int, typer.Option(help="How many conversations.", min=1)] = 200,
    tiny: Annotated[bool, typer.Option(help="A random model of two layers.")] = False,
    json_file: Annotated[
        Path, typer.Option("--json", help="Where results are written.")
    ] = OUT,
) -> None:
    """Headroom of conversations, calibrated without and with the chat template."""
    if model_dir is None and not tiny:
        raise SetupError("Name a MODEL_DIR, or take --tiny.")
    with TemporaryDirectory() as other, stages(verbose=True) as shown:
        folder = model_dir or _tiny(Path(other))
        chat = read_chat_files(folder)
        if chat.template is None:
            raise SetupError(f"{folder} has no chat template.")
        model = from_pretrained(folder, mode="float", check=False)
        bare = Plans(model.model, model.plans.profile, TextSamples(model.tokenizer))
        prompts = [*_conversations(chat, ordinary_texts(), count)]
        rows = []
        for template, plans in ((False, bare), (True, model.plans)):
            found = _measured(model, plans, prompts, shown)
            rows.append({"calibrated_with_template": template, **found})
            show.write(json_file, rows)
    names = ("bytes", "prompts", "out_of_range", "silent", "same_token", "least_bits")
    cells = [
        [f"{row['calibrated_with_template']}", *(f"{row[name]}" for name in names)]
        for row in rows
    ]
    show.show("Conversations", ["template"], [*names], cells, None)


def _tiny(path: Path) -> Path:
    folder = llama_folder(path)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def _conversations(
    chat: ChatFiles, texts: Sequence[OrdinaryText], count: int
) -> Iterator[str]:
    """Rendered, of texts that are spread over all kinds."""
    template = ChatTemplate(chat.template or "")

    def text(k: int) -> str:
        each = texts[k * len(texts) // count % len(texts)]
        return " ".join(filter(None, [each.text, each.pair]))

    for k in range(count):
        messages = [{"role": "system", "content": SYSTEM}] if k % 4 == 3 else []
        messages.append({"role": "user", "content": text(k)})
        if k % 3 == 2:
            messages.append({"role": "assistant", "content": text(k + count // 3)})
            messages.append({"role": "user", "content": text(k + count // 2)})
        yield template.render(messages, chat.special_tokens)


def _measured(
    model: Pretrained, plans: Plans, prompts: Sequence[str], shown: Stages
) -> Json:
    length = min(LENGTH, model.max_tokens)
    job = model.computation(Phase.PREFILL, 1, length)
    plain, simulator = FloatBackend(model.model), SimulatedBackend(plans, shown.stage)
    out, silent, same = 0, 0, 0
    for start in range(0, len(prompts), AT_ONCE):
        shown.count("conversation", start, len(prompts))
        encoded = [
            Encoded(ids, [0] * len(ids))
            for prompt in prompts[start : start + AT_ONCE]
            for ids in [
                model.tokenizer.encode(prompt, add_special_tokens=False).ids[:length]
            ]
        ]
        batch = pad_batch(encoded, length, model.tokenizer.pad_id)
        exact = plain.run(job, (batch.ids, batch.lengths)).result
        found = simulator.simulate_each(job, (batch.ids, batch.lengths))
        for each, logits in zip(found, exact, strict=True):
            chosen = int(np.argmax(np.asarray(each.result[0])[0]))
            out += each.broken or not each.in_range
            silent += each.broken and each.in_range
            same += bool(logits.max() - logits[chosen] < TIE)
    bits = {part: round(head.bits, 2) for part, head in simulator.headroom.items()}
    return {
        "bytes": estimate(plans.plan(job)).bytes,
        "prompts": len(prompts),
        "out_of_range": int(out),
        "silent": int(silent),
        "same_token": same,
        "least_bits": min(bits.values()),
        "headroom_bits": bits,
    }


if __name__ == "__main__":
    show.run(main, __doc__)
