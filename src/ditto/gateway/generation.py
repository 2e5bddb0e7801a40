"""Endpoints that continue texts and conversations."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ditto.client.answering import ModelCard
from ditto.gateway.context import Gateway
from ditto.gateway.embeddings import all_in_range
from ditto.gateway.errors import invalid
from ditto.gateway.event_stream import DONE, event, open_event_stream
from ditto.gateway.json_body import read_json
from ditto.gateway.replies import (
    ChatForm,
    Choice,
    CompletionForm,
    Piece,
    ReplyForm,
    Usage,
)
from ditto.gateway.requests import (
    DEFAULT_COMPLETION,
    ChatRequest,
    CompletionRequest,
    GenerationRequest,
    parse_request,
)
from ditto.gateway.stops import StopScanner
from ditto.gateway.work import unless_gone
from ditto.models import Head


@dataclass(frozen=True)
class _Job:
    """Prompts that are to be continued."""

    gateway: Gateway
    card: ModelCard
    prompts: Sequence[str]
    max_tokens: int
    asked: GenerationRequest
    prompt_tokens: int
    add_special_tokens: bool = True
    """Not for conversations: a chat template writes its special tokens itself."""

    def pieces(self) -> Generator[Piece, None, None]:
        """The answers, one prompt after another; runs in a thread."""
        started = time.monotonic()
        deadline = started + self.gateway.settings.timeout
        self.gateway.metrics.prompt_tokens.inc(self.prompt_tokens)
        for prompt in range(len(self.prompts)):
            yield from self._continued(prompt, deadline)

    def _continued(self, prompt: int, deadline: float) -> Generator[Piece, None, None]:
        scanner = StopScanner(self.asked.stop)
        metrics = self.gateway.metrics
        before = time.monotonic()
        tokens, stopped = 0, False
        stream = self.gateway.answering.stream(
            self.card.name,
            self.prompts[prompt],
            self.max_tokens,
            self.asked.sampling,
            add_special_tokens=self.add_special_tokens,
            timeout=max(0.0, deadline - before),
        )
        with contextlib.ExitStack() as stack:
            if callable(close := getattr(stream, "close", None)):
                stack.callback(close)  # now, not when it is collected
            for generated in stream:
                now = time.monotonic()
                waited = metrics.between_tokens if tokens else metrics.first_token
                waited.observe(now - before)
                metrics.generated_tokens.inc()
                before, tokens = now, tokens + 1
                text, stopped = scanner.feed(generated.text)
                yield Piece(prompt, text, 1, generated.in_range)
                if stopped:
                    break
        ended = stopped or tokens < self.max_tokens
        rest = "" if stopped else scanner.rest()
        yield Piece(prompt, rest, 0, True, "stop" if ended else "length")


async def completions(gateway: Gateway, request: Request) -> Response:
    """POST /v1/completions."""
    asked = parse_request(CompletionRequest, await read_json(request))
    card = await _generating(gateway, asked.model)
    tokens = asked.max_tokens or DEFAULT_COMPLETION
    counts = await gateway.count_tokens(card, asked.prompt, "prompt", tokens)
    job = _Job(gateway, card, asked.prompt, tokens, asked, sum(counts))
    return await _answered(request, job, CompletionForm(card))


async def chat_completions(gateway: Gateway, request: Request) -> Response:
    """POST /v1/chat/completions."""
    asked = parse_request(ChatRequest, await read_json(request))
    card = await _generating(gateway, asked.model)
    messages = [message.for_template() for message in asked.messages]
    render = gateway.template(card).render
    prompt = await asyncio.to_thread(render, messages, card.special_tokens)
    wanted = asked.max_completion_tokens or asked.max_tokens
    counts = await gateway.count_tokens(
        card, [prompt], "messages", wanted or 1, add_special_tokens=False
    )
    room = card.max_tokens - counts[0]
    tokens = wanted or min(room, gateway.settings.chat_tokens)
    job = _Job(gateway, card, [prompt], tokens, asked, counts[0], False)
    return await _answered(request, job, ChatForm(card))


async def _generating(gateway: Gateway, name: str) -> ModelCard:
    card = await gateway.card(name)
    if card.head is not Head.TEXT_GENERATION:
        raise invalid(
            f"The model {card.name!r} is for {card.head.value} and does not generate "
            "text.",
            "model",
            "wrong_model",
        )
    return card


async def _answered(request: Request, job: _Job, form: ReplyForm) -> Response:
    if job.asked.stream:
        keep_alive = job.gateway.settings.keep_alive
        return await open_event_stream(request, _events(job, form), keep_alive)
    pieces = await unless_gone(request, _collected(job))
    choices = []
    for prompt in range(len(job.prompts)):
        own = [piece for piece in pieces if piece.prompt == prompt]
        finish = own[-1].finish_reason or "length"
        choices.append(Choice("".join(piece.text for piece in own), finish))
    usage = Usage(job.prompt_tokens, sum(piece.tokens for piece in pieces))
    in_range = all_in_range(piece.in_range for piece in pieces)
    return JSONResponse(form.whole(choices, usage, in_range))


async def _collected(job: _Job) -> list[Piece]:
    return [piece async for piece in job.gateway.workers.run(job.pieces)]


async def _events(job: _Job, form: ReplyForm) -> AsyncGenerator[bytes, None]:
    with_usage = job.asked.stream_options.include_usage
    begun: set[int] = set()
    verdicts: list[bool | None] = []
    tokens = 0
    async for piece in job.gateway.workers.run(job.pieces):
        tokens += piece.tokens
        verdicts.append(piece.in_range)
        chunks = form.chunks(piece, begins=piece.prompt not in begun)
        begun.add(piece.prompt)
        for chunk in chunks:
            if with_usage:
                chunk["usage"] = None
            if chunk["choices"][0]["finish_reason"] is not None:
                chunk["ditto"] = {"in_range": all_in_range(verdicts)}
            yield event(chunk)
    if with_usage:
        yield event(form.usage_chunk(Usage(job.prompt_tokens, tokens)))
    yield DONE
