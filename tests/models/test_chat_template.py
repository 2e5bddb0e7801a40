"""Chat templates are Hugging Face's, and can do no harm."""

import json
import time
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from ditto.errors import ChatTemplateError, CheckpointError
from ditto.models.chat_files import MAX_TEMPLATE, ChatFiles, read_chat_files
from ditto.models.chat_template import ChatTemplate
from tests.folders import gpt2_folder

CHATML = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' }}
    {%- if message.content is string %}{{ message.content | trim }}{% endif %}
    {{- '<|im_end|>' }}
    {% if loop.last and message.role == 'assistant' %}{% continue %}{% endif %}
{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""
LLAMA = """\
{{ bos_token }}{% set ns = namespace(found=false, text='') %}
{% if messages[0]['role'] == 'system' %}
{% set ns.text = '<<SYS>>\\n' ~ messages[0]['content'].strip() ~ '\\n<</SYS>>' %}
{% set messages = messages[1:] %}{% endif %}
{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}
{% if message.role == 'user' %}[INST] {{ ns.text if loop.first else '' }}
{{ message['content'].replace('x', 'yy') }} [/INST]
{% else %}
{% generation %}{{ message.content ~ eos_token }}{% endgeneration %}{% endif %}
{{ {'n': loop.index, 'ü': '<b>'} | tojson }}{{ ['a', 1] | join('-') }}
{% endfor %}
"""
TALK = [
    {"role": "system", "content": " be kind "},
    {"role": "user", "content": "xx <hi>"},
    {"role": "assistant", "content": "hello"},
    {"role": "user", "content": "bye"},
]


@pytest.mark.parametrize("source", [CHATML, LLAMA])
def test_prompts_are_those_of_transformers(source: str, tmp_path: Path) -> None:
    folder = gpt2_folder(tmp_path / "gpt2", layers=1, positions=8)
    tokens = {"bos_token": "<s>", "eos_token": "<|endoftext|>"}
    theirs = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), chat_template=source, **tokens
    )
    expected = theirs.apply_chat_template(
        TALK, tokenize=False, add_generation_prompt=True
    )
    assert ChatTemplate(source).render(TALK, tokens) == expected


def test_a_folder_has_it_in_one_of_two_files(tmp_path: Path) -> None:
    assert read_chat_files(tmp_path) == ChatFiles()
    settings = tmp_path / "tokenizer_config.json"
    bos = {"content": "<s>", "special": True}
    settings.write_text(json.dumps({"chat_template": "A", "bos_token": bos}))
    assert read_chat_files(tmp_path) == ChatFiles("A", {"bos_token": "<s>"})
    several = [{"name": "tool", "template": "T"}, {"name": "default", "template": "D"}]
    settings.write_text(json.dumps({"chat_template": several}))
    assert read_chat_files(tmp_path).template == "D"
    (tmp_path / "chat_template.jinja").write_text("J")
    assert read_chat_files(tmp_path).template == "J"
    (tmp_path / "chat_template.jinja").write_text("J" * (MAX_TEMPLATE + 1))
    with pytest.raises(CheckpointError, match="larger"):
        read_chat_files(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    for wrong in (3, several[:1], "J" * (MAX_TEMPLATE + 1)):
        settings.write_text(json.dumps({"chat_template": wrong}))
        with pytest.raises(CheckpointError, match="chat_template"):
            read_chat_files(tmp_path)


def test_what_a_template_says_of_a_conversation_is_passed_on() -> None:
    with pytest.raises(ChatTemplateError) as refusal:
        ChatTemplate(LLAMA).render(TALK[2:])
    assert refusal.value.public_message().endswith("must alternate user/assistant")


DOUBLING = "{% set n = namespace(x='aaaa') %}{% for i in range(60) %}CHANGE{% endfor %}"
HARM = [
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    *(
        DOUBLING.replace("CHANGE", f"{{% set n.x = {change} %}}")
        for change in (
            "n.x ~ n.x", "n.x + n.x", "n.x.replace('', n.x)", "n.x|replace('a', n.x)",
            "n.x.join(n.x)", "n.x|join(n.x)", "[n.x, n.x]|tojson", "[n.x, n.x]|string",
        )
    ),
    "{% set n = namespace(x=9) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}"
    "{% endfor %}",
    DOUBLING.replace("CHANGE", "{% set n.x = [n.x, n.x] %}") + "{{ n.x }}",
    "{{ 'a' * 1000000000 }}", "{{ [1] * 1000000000 }}", "{{ '%1000000000d' % 1 }}",
    "{{ 9 ** 999999999 }}", "{{ 'a'.ljust(1000000000) }}", "{{ 'a'|center(10000000) }}",
    "{{ '{:>1000000000}'.format(1) }}", "{{ range(10000000000)|list }}",
    "{{ range(1000000000)|sum }}",
    "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}"
    "{{ f(50) }}",
    "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{{ ''.__class__.__mro__ }}", "{{ self.__init__.__globals__ }}",
    "{{ messages.append(1) }}", "{{ messages[0].update({'a': 1}) }}",
    "{% include '/etc/passwd' %}", "{% import 'os' as os %}", "{{ lipsum() }}",
    "{{ messages[9].content }}", "{% for %}", "{{ 1 / 0 }}",
]  # fmt: skip


@pytest.mark.parametrize("source", HARM)
def test_what_would_do_harm_fails(source: str) -> None:
    started = time.thread_time()
    with pytest.raises(ChatTemplateError) as refusal:
        ChatTemplate(source).render(TALK)
    assert time.thread_time() - started < 5
    assert "passwd" not in str(refusal.value)


def test_templates_share_nothing() -> None:
    """A conversation leaves no trace for the next one."""
    template = ChatTemplate(
        "{% set n = namespace(x='') %}{{ n.x }}{% set n.x = messages[0].content %}"
    )
    assert [template.render(TALK), template.render(TALK[1:])] == ["", ""]
