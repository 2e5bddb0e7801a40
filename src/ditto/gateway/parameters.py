"""Parameters of OpenAI's and vLLM's that are refused, and those that are ignored.

A parameter that would change the answer and cannot be honoured is refused by its name.
One that changes nothing here is ignored. One that nobody knows is refused, as OpenAI
does: it might be meant to change the answer.
"""

from collections.abc import Iterable, Mapping

from ditto.files import Json, JsonValue
from ditto.gateway.errors import invalid

IGNORED = frozenset(
    (
        "user",
        "store",
        "metadata",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prediction",
        "parallel_tool_calls",
        "reasoning_effort",
        "priority",
        "request_id",
        "add_special_tokens",
        "skip_special_tokens",
    )
)
"""They say who asks, how fast or at what price."""

NEUTRAL: Mapping[str, tuple[JsonValue, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "min_p": (0,),
    "min_tokens": (0,),
    "use_beam_search": (False,),
    "ignore_eos": (False,),
    "stop_token_ids": ([],),
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
    "verbosity": ("medium",),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
    "dimensions": (),
    "input_type": (),
}
"""Parameters that are refused, and the values with which they ask for nothing."""


def select_parameters(body: Json, known: Iterable[str]) -> Json:
    """What a request says of the parameters that are honoured; null says nothing."""
    honoured = frozenset(known)
    selected = {}
    for name, value in body.items():
        if value is None or name in IGNORED:
            continue
        if name in honoured:
            selected[name] = value
        elif name not in NEUTRAL:
            raise invalid(
                f"There is no parameter {_shown(name)!r} here.",
                _shown(name),
                "unknown_parameter",
            )
        elif not any(_same(value, neutral) for neutral in NEUTRAL[name]):
            raise invalid(
                f"{name!r} is not supported, and would change the answer: leave it out"
                f"{_or_say(NEUTRAL[name])}.",
                name,
                "unsupported_parameter",
            )
    return selected


def _same(value: JsonValue, neutral: JsonValue) -> bool:
    """0 and False are two values, 0 and 0.0 are one."""
    return isinstance(value, bool) == isinstance(neutral, bool) and value == neutral


def _or_say(values: tuple[JsonValue, ...]) -> str:
    return f" or send {values[0]!r}" if values else ""


def _shown(name: str) -> str:
    """The name of a parameter, as far as it can be one."""
    return "".join(letter for letter in name[:40] if letter.isascii())
