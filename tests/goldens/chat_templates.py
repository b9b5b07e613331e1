"""Chat templates in the style of six model families, rendered by transformers.

The templates are written for this test. Each uses what its family's real template asks of a
Jinja engine: slices, namespaces, string methods of Python, whitespace control, exceptions.
"""

from pathlib import Path

import jinja2
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

import decoder

CHATML = """\
{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nAnswer briefly.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role in ('user', 'assistant') or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

LLAMA3 = """\
{{- bos_token }}
{%- if not date_string is defined %}{% set date_string = '26 Jul 2024' %}{% endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_text = messages[0]['content'] | trim %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set system_text = '' %}
    {%- set turns = messages %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}
{{- 'Today: ' ~ date_string ~ '\\n\\n' ~ system_text ~ '<|eot_id|>' }}
{%- for turn in turns %}
    {{- '<|start_header_id|>' + turn['role'] + '<|end_header_id|>\\n\\n' + turn['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

GEMMA = """\
{{ bos_token }}
{%- set lead = namespace(text='') -%}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set lead.text = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set lead.text = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for turn in turns -%}
    {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('Roles must alternate between user and assistant') }}
    {%- endif -%}
    {%- set role = 'model' if turn['role'] == 'assistant' else turn['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + (lead.text if loop.first else '') }}
    {{- turn['content'] | trim }}
    {{- '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\\n' }}
{%- endif -%}
"""

MISTRAL = """\
{%- if messages[0].role == "system" %}
    {%- set system_text = messages[0].content %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{%- set state = namespace(index=0) %}
{%- for turn in turns %}
    {%- if (turn.role == "user") != (state.index % 2 == 0) %}
        {{- raise_exception("After the optional system message, user and assistant must take turns") }}
    {%- endif %}
    {%- set state.index = state.index + 1 %}
{%- endfor %}
{{- bos_token }}
{%- for turn in turns %}
    {%- if turn.role == "user" %}
        {%- if loop.last and system_text is defined %}
            {{- "[INST] " + system_text + "\\n\\n" + turn.content + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + turn.content + "[/INST]" }}
        {%- endif %}
    {%- elif turn.role == "assistant" %}
        {{- " " + turn.content.strip() + eos_token }}
    {%- else %}
        {{- raise_exception("Unknown role " + turn.role) }}
    {%- endif %}
{%- endfor %}
"""

PHI3 = """\
{% for message in messages %}
{% if message['role'] == 'system' and message['content'] %}
{{ '<|system|>\\n' + message['content'] + '<|end|>\\n' }}
{%- elif message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + '<|end|>\\n' }}
{%- elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n' + message['content'] + '<|end|>\\n' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}
"""

SMOLLM3 = """\
{%- set thinking = enable_thinking | default(false) -%}
{%- set ns = namespace(system='You are a small assistant.', mode=('/think' if thinking else '/no_think')) -%}
{%- if messages[0].role == 'system' -%}
    {%- set ns.system = messages[0].content.rstrip() -%}
    {%- if '/think' in ns.system -%}
        {%- set ns.mode = '/think' -%}
        {%- set ns.system = ns.system.replace('/think', '').rstrip() -%}
    {%- endif -%}
{%- endif -%}
{{ '<|im_start|>system\\n## Mode: ' ~ ns.mode ~ '\\n' ~ ns.system ~ '<|im_end|>\\n' }}
{%- for message in messages -%}
    {%- if message.role == 'user' -%}
        {{ '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' -%}
        {%- set words = message.content -%}
        {%- if '</think>' in words and not loop.last -%}
            {%- set words = words.split('</think>')[-1].lstrip('\\n') -%}
        {%- endif -%}
        {{ '<|im_start|>assistant\\n' }}
        {%- generation -%}
        {{ words + '<|im_end|>\\n' }}
        {%- endgeneration -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<|im_start|>assistant\\n' }}{% if ns.mode == '/no_think' %}{{ '<think>\\n\\n</think>\\n' }}{% endif %}
{%- endif -%}
"""

TEMPLATES = [
    dict(name="chatml", template=CHATML, bos_token=None, eos_token="<|im_end|>"),
    dict(name="llama3", template=LLAMA3, bos_token="<|begin_of_text|>", eos_token="<|eot_id|>"),
    dict(name="gemma", template=GEMMA, bos_token="<bos>", eos_token="<eos>"),
    dict(name="mistral", template=MISTRAL, bos_token="<s>", eos_token="</s>"),
    dict(name="phi3", template=PHI3, bos_token="<s>", eos_token="<|endoftext|>"),
    dict(name="smollm3", template=SMOLLM3, bos_token=None, eos_token="<|im_end|>"),
]


def turns(*pairs):
    return [dict(role=role, content=content) for role, content in pairs]


CONVERSATIONS = {
    "one question": turns(("user", "What is 2 + 2?"), ("assistant", "4")),
    "a system message and two turns": turns(
        ("system", "You are terse. /think"),
        ("user", "Name a metal."),
        ("assistant", "<think>\nSteel is an alloy.\n</think>\n\nIron"),
        ("user", "Another?"),
        ("assistant", "Tin"),
    ),
    "white space and letters of other scripts": turns(
        ("user", '  Zwölf Boxkämpfer\n\n\tjagen 猫 "quoted" & <b>bold</b> 🙂  '),
        ("assistant", "\n Verstanden: <ok>  \n"),
    ),
    "a question that waits for its answer": turns(
        ("system", "Answer in French."),
        ("user", "Hello"),
        ("assistant", "Bonjour"),
        ("user", "Goodbye"),
    ),
    "two questions in a row": turns(("user", "One?"), ("user", "Two?"), ("assistant", "Three.")),
}


def tokenizer(entry):
    """A tokenizer without words: rendering needs only the special tokens and the template."""
    special = {k: entry[k] for k in ("bos_token", "eos_token") if entry[k] is not None}
    words = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    return PreTrainedTokenizerFast(tokenizer_object=words, chat_template=entry["template"], **special)


def assistant_spans(entry, special, messages):
    """Where the template marks the assistant's words, in characters of the rendered text."""
    _, spans = render_jinja_template(
        conversations=[messages],
        chat_template=entry["template"],
        return_assistant_tokens_mask=True,
        add_generation_prompt=False,
        **special,
    )
    return [list(span) for span in spans[0]]


def render(entry, name, messages, add_generation_prompt):
    """One rendering, or the exception the template raised."""
    words = tokenizer(entry)
    row = dict(conversation=name, add_generation_prompt=add_generation_prompt)
    try:
        row["text"] = words.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=add_generation_prompt
        )
    except jinja2.exceptions.TemplateError as error:
        return row | dict(error=str(error))
    if "generation" in entry["template"].replace("add_generation_prompt", "") and not add_generation_prompt:
        special = {k: v for k, v in words.special_tokens_map.items() if isinstance(v, str)}
        row["assistant_character_spans"] = assistant_spans(entry, special, messages)
    return row


def make(root: Path):
    """Writes chat_templates/golden.json."""
    folder = decoder.clean_folder(root / "chat_templates")
    rendered = [
        entry
        | dict(
            rendered=[
                render(entry, name, messages, prompt)
                for name, messages in CONVERSATIONS.items()
                for prompt in (False, True)
            ]
        )
        for entry in TEMPLATES
    ]
    golden = dict(made_by=decoder.made_by(), conversations=CONVERSATIONS, templates=rendered)
    decoder.write_json(folder / "golden.json", golden)
