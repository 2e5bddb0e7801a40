"""What programs ask, as typed values. See ``parameters`` for what is refused."""

from typing import Annotated, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from ditto.client.sampling import Sampling
from ditto.files import Json, JsonValue
from ditto.gateway.errors import ApiError, invalid
from ditto.gateway.parameters import select_parameters

MAX_TEXTS = 2048
"""In one request, as OpenAI has it."""
MAX_PROMPTS = 64
MAX_MESSAGES = 2048
MAX_STOPS = 16
MAX_STOP = 256
"""Letters."""
DEFAULT_COMPLETION = 16
"""Tokens, as OpenAI has it."""


def _unicode(text: str) -> str:
    text.encode("utf-8")  # half of a surrogate pair cannot be
    return text


def _listed(value: JsonValue) -> JsonValue:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, AfterValidator(_unicode)]
Texts = Annotated[
    list[Text], BeforeValidator(_listed), Field(min_length=1, max_length=MAX_TEXTS)
]
Prompts = Annotated[
    list[Text], BeforeValidator(_listed), Field(min_length=1, max_length=MAX_PROMPTS)
]
Stops = Annotated[
    list[Annotated[Text, Field(min_length=1, max_length=MAX_STOP)]],
    BeforeValidator(_listed),
    Field(max_length=MAX_STOPS),
]
ModelName = Annotated[Text, Field(min_length=1, max_length=256)]


class Request(BaseModel):
    """What all requests have in common."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    model: ModelName


RequestT = TypeVar("RequestT", bound=Request)


class EmbeddingRequest(Request):
    """POST /v1/embeddings."""

    input: Texts
    encoding_format: Literal["float", "base64"] = "float"
    truncate_prompt_tokens: Literal[-1] | None = None
    """vLLM's: -1 uses the beginning of a text that is too long."""


class ClassifyRequest(Request):
    """POST /classify."""

    input: Texts
    truncate_prompt_tokens: Literal[-1] | None = None


class StreamOptions(BaseModel):
    """What a stream has besides its tokens."""

    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)

    include_usage: bool | None = None


class GenerationRequest(Request):
    """What completions and conversations have in common."""

    max_tokens: Annotated[int, Field(ge=1, le=1 << 20)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    top_k: Annotated[int, Field(ge=-1, le=1 << 20)] = 0
    seed: Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)] | None = None
    stop: Stops = []
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()

    @property
    def sampling(self) -> Sampling:
        """How tokens are chosen."""
        seed = None if self.seed is None else self.seed % (1 << 63)
        return Sampling(self.temperature, max(0, self.top_k), self.top_p, seed)


class CompletionRequest(GenerationRequest):
    """POST /v1/completions."""

    prompt: Prompts


class TextPart(BaseModel):
    """A part of a message; others than texts are refused."""

    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)

    type: Literal["text"]
    text: Text


class Message(BaseModel):
    """A turn of a conversation."""

    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[TextPart], Field(min_length=1)]
    name: Annotated[Text, Field(max_length=64)] | None = None
    tool_calls: Annotated[list[JsonValue], Field(max_length=0)] | None = None
    function_call: None = None

    def for_template(self) -> dict[str, str]:
        """As templates know messages: ``developer`` is OpenAI's word for system."""
        role = "system" if self.role == "developer" else self.role
        content = self.content
        if not isinstance(content, str):
            content = "\n".join(part.text for part in content)
        named = {} if self.name is None else {"name": self.name}
        return {"role": role, "content": content} | named


class ChatRequest(GenerationRequest):
    """POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=1 << 20)] | None = None


def parse_request(kind: type[RequestT], body: Json) -> RequestT:
    """A request; says what is wrong with it without showing what it holds."""
    selected = select_parameters(body, kind.model_fields)
    for name in ("input", "prompt"):
        if _holds_numbers(selected.get(name)):
            raise _token_ids(name)
    try:
        return kind.model_validate(selected)
    except ValidationError as error:
        raise _described(error) from None


def _holds_numbers(value: JsonValue) -> bool:
    """Whether it is a list of token ids, or a list of such lists."""
    if not isinstance(value, list):
        return False
    first = value[0] if value else None
    first = first[0] if isinstance(first, list) and first else first
    return isinstance(first, int | float) and not isinstance(first, bool)


def _token_ids(name: str) -> ApiError:
    return invalid(
        f"{name!r} holds token ids, and nobody here knows of which vocabulary: send "
        "texts. LangChain's OpenAIEmbeddings does with "
        "check_embedding_ctx_length=False.",
        name,
        "token_ids",
    )


def _described(error: ValidationError) -> ApiError:
    [first, *_] = error.errors(include_context=False, include_input=False)
    path = [str(part) for part in first["loc"] if isinstance(part, int | str)][:4]
    where = ".".join(path)
    param = path[0] if path else None
    match first["type"], param:
        case "missing", _:
            return invalid(f"{where!r} is missing.", param, "missing_parameter")
        case _, "messages":
            return invalid(
                f"{where!r}: {first['msg']}. A message has a role (system, user or "
                "assistant) and a content, which is a text or a list of parts of type "
                "'text'; tools, images and sounds are not supported.",
                param,
                "invalid_value",
            )
        case "value_error", _:
            return invalid(f"{where!r} is not valid Unicode.", param, "invalid_value")
        case _:
            return invalid(f"{where!r}: {first['msg']}.", param, "invalid_value")
