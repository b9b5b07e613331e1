"""Random chat templates on random conversations: the text and the learned parts, by transformers and by Anneal.

    python random_templates.py --n 200 --conversations 10 --seed 1

A template is put together from pieces in which those of real models differ. Each is made twice, with `generation` blocks
around what the assistant says and without. transformers finds the learned parts from the blocks; Anneal has to find the
same with them, and without them from prefixes, where white space at the edges of a part is not counted.
"""

import argparse
import datetime
import os
import random
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import render_jinja_template

from answers import Anneal, report

SPECIAL = dict(bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>")


class FixedDate(datetime.datetime):
    """The day on which Anneal renders every template."""

    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


chat_template_utils.datetime = FixedDate

# A style: what stands before a turn, after it, and what asks for one. ROLE is the role's expression.
STYLES = [
    dict(before="{{ '<|im_start|>' + ROLE + '\\n' }}", after="<|im_end|>", gap="{{ '\\n' }}", ask="<|im_start|>assistant\\n"),
    dict(before="{{ '<|start_header_id|>' ~ ROLE ~ '<|end_header_id|>\\n\\n' }}", after="<|eot_id|>", gap="", ask="<|start_header_id|>assistant<|end_header_id|>\\n\\n"),
    dict(before="{{ '<|' + ROLE + '|>\\n' }}", after="<|end|>", gap="{{ '\\n' }}", ask="<|assistant|>\\n"),
    dict(before="{{ '<|' ~ ROLE ~ '|>' }}", after="{{ eos_token }}", gap="{{ '\\n' }}", ask="<|assistant|>"),
    dict(before="{{ '### ' + ROLE | capitalize + ':\\n' }}", after="{{ eos_token }}", gap="{{ '\\n\\n' }}", ask="### Assistant:\\n"),
    dict(before="{{ ROLE | upper ~ ': ' }}", after="{{ eos_token }}", gap="", ask="ASSISTANT:"),
    dict(before="{{ '<start_of_turn>' + ('model' if ROLE == 'assistant' else ROLE) + '\\n' }}", after="<end_of_turn>", gap="{{ '\\n' }}", ask="<start_of_turn>model\\n"),
    dict(before="{{ '<|start_of_role|>' + ROLE + '<|end_of_role|>' }}", after="<|end_of_text|>", gap="{{ '\\n' }}", ask="<|start_of_role|>assistant<|end_of_role|>"),
]
# How what is said is written.
CONTENTS = [
    "{{ message.content }}",
    "{{ message['content'] }}",
    "{{ message['content'] | trim }}",
    "{{ message.content.strip() }}",
    "{{ message.content.rstrip() }}",
    "{{ message.content.lstrip('\\n') }}",
    "{{ message.content.replace('\\r\\n', '\\n') }}",
    "{{ message.content | string }}",
    "{{ (message.content if message.content is string else message.content[0].text) }}",
    "{% if message.content is iterable and message.content is not string %}LIST{% else %}{{ message.content }}{% endif %}",
    "{{ message.get('content', '') }}",
    "{{ message.content.splitlines() | join('\\n') }}",
    "{{ message.content.split('</think>')[-1].lstrip('\\n') }}",
    "{{ '</think>' in message.content and not loop.last and message.content.split('</think>') | last or message.content }}",
    "{{ message.content | default('nothing', true) }}",
    "{% set words = message.content %}{% if '</think>' in words %}{% set words = words.split('</think>', 1)[1] %}{% endif %}{{ words }}",
    "{{ message.content | replace('  ', ' ') }}",
    "{{ message.content.removeprefix('<b>') }}",
    "{{ message.content | indent(2) }}",
]
# What stands before the conversation, and the messages that are looped over.
STARTS = [
    ("", "messages"),
    ("{{ bos_token }}", "messages"),
    ("{{- bos_token -}}\n", "messages"),
    ("{% if messages[0]['role'] != 'system' %}{{ '[system]You are Qwen.[/system]\\n' }}{% endif %}", "messages"),
    ("{% if messages[0].role == 'system' %}{% set lead = messages[0].content %}{% set turns = messages[1:] %}{% else %}{% set lead = 'Be brief.' %}{% set turns = messages %}{% endif %}{{ '[system]' ~ lead ~ '[/system]' }}", "turns"),
    ("{%- set ns = namespace(lead='', count=0) -%}\n{%- for m in messages %}{% if m.role == 'system' %}{% set ns.lead = ns.lead + m.content %}{% endif %}{% set ns.count = ns.count + 1 %}{% endfor -%}\n{{ ns.lead }}{{ ns.count }}", "messages"),
    ("{{ bos_token }}{% set turns = messages | rejectattr('role', 'equalto', 'system') | list %}{{ turns | length }}", "turns"),
    ("{% macro mark(name, end='>') -%}\n  <{{ name }}{{ end }}\n{%- endmacro %}{{ mark('x') }}{{ mark('y', end='/>') }}", "messages"),
    ("{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}Today: {{ date_string }}\n", "messages"),
    ("{%- if tools is not none and tools %}TOOLS{{ tools | tojson }}{% endif -%}{% if documents %}D{% endif %}", "messages"),
    ("{% set last = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set last.at = loop.index0 %}{% endif %}{% endfor %}{{ '<<' ~ last.at ~ '>>' }}", "messages"),
]
# Things that templates say besides, made of what the engine can do otherwise than Python.
ASIDES = [
    "{{ messages | map(attribute='role') | list }}",
    "{{ ['a', \"it's\", 1, 1.5, true, none, ['b']] }}",
    "{{ {'k': 'v', 'n': 1e16, 'f': 0.1, 'e': 1e-7} }}",
    "{{ messages[0] | tojson }}",
    "{{ messages | tojson(indent=2) }}",
    "{{ {'b': [1, 2, {}], 'a': 'ü<&>\\''} | tojson }}",
    "{{ {'b': [], 'a': 'ü'} | tojson(ensure_ascii=true, sort_keys=true) }}",
    "{{ messages[::-1] | map(attribute='role') | join(' < ') }}",
    "{{ messages[-1].role }}{{ messages[1:][:2] | length }}",
    "{{ messages | selectattr('role', 'in', ['user', 'tool']) | list | length }}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index }}/{{ loop.length }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}{% if m.role == 'tool' %}{% continue %}{% endif %}{{ loop.previtem.role if loop.previtem is defined else '-' }}{% endfor %}",
    "{{ 7 // 2 }}{{ 7 % 3 }}{{ 2 ** 3 }}{{ 7 / 2 }}{{ 1.0 }}{{ 'ab' * 2 }}",
    "{{ 'a b  c'.split() }}{{ 'a,b'.split(',') | last }}{{ ' x '.strip() | length }}",
    "{{ 'Straße'.upper() }}{{ 'HELLO world'.title() }}{{ 'x' in 'xyz' }}{{ 'abc'.find('c') }}{{ 'é'.find('x') }}",
    "{{ none }}{{ true }}{{ missing }}{{ missing | default('d') }}{{ '' or 'o' }}",
    "{{ (messages[0].content | trim)[:3] }}{{ messages[0].content[-2:] }}",
    "{% set block %}  in a block {{ messages | length }} {% endset %}[{{ block }}|{{ block | trim }}]",
    "{% filter upper %}shout{% endfilter %}",
    "{% raw %}{{ not this }}{% endraw %}",
    "{# a comment #}",
    "{% for key, value in {'x': 1, 'y': 'z'}.items() %}{{ key }}={{ value }};{% endfor %}",
    "{{ 'a' if messages | length > 2 else 'b' }}{{ [1, 2] + [3] }}{{ 'a' ~ 1 ~ none }}",
    "{{ messages[0].content.startswith('H') }}{{ ''.isdigit() }}{{ '12'.isdigit() }}{{ 'aXb'.lower().count('x') }}",
    "{{ 'line\\nline' | indent(2, true) }}{{ 'x\\n' | indent }}",
    "{{ dict(a=1, b='c') }}{{ range(3) | list }}{{ [3, 1, 2] | sort }}{{ 'cab' | list }}",
    "{{ messages[0].content is string }}{{ messages is sequence }}{{ 'a' is sequence }}{{ {} is mapping }}{{ 3 is number }}",
    "{{ \"%s\" | format('x') }}{{ '{} and {}'.format('a', 1) }}",
    "{{ 'a-b-c'.rsplit('-', 1) }}{{ 'a-b'.partition('-') | list }}{{ 'a\\tb'.split('\\t') }}",
    "{{ \"tab\\there 'quoted'\" }}{{ ['tab\\there', 'back\\\\slash', 'ü\\u200b'] }}",
]
TEXTS = [
    "Hi.", "Hello there", "", " padded ", "\n lines\n\n  more\n", "What is 2 + 2?", "<b>bold</b> & \"quoted\" 'single'",
    "Zwölf Boxkämpfer 猫 🙂", "<think>\nfirst\n</think>\n\nthen", "a  b", "line one\r\nline two", "{{ not a template }}", "x" * 80,
    "tab\there", "</s> in the middle", "assistant", "ends with space ", "1. one\n2. two", "\u00a0nbsp\u2003",
]


def loosen(draw, text):
    """The same with or without line ends between its tags."""
    joint = draw.choice(["}{", "}{", "}\n{", "}\n    {"]) if "raw" not in text else "}{"
    return text.replace("}{", joint)


def template(draw):
    """A template with marks for its blocks: « and »."""
    style = draw.choice(STYLES)
    start, turns = draw.choice(STARTS)
    own, role = draw.choice(CONTENTS), draw.choice(["message.role", "message['role']"])
    before = style["before"].replace("ROLE", role)
    body = f"{before}«{own}{style['after']}»{style['gap']}"
    other = f"{before}{draw.choice(CONTENTS)}{style['after']}{style['gap']}"
    check = draw.choice(["", "", "", "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate, not ' + message.role) }}{% endif %}"])
    skip = draw.choice(["", "{% if message.role == 'tool' %}{{ raise_exception('No tools') }}{% endif %}"])
    loop = f"{{% for message in {turns} %}}{check}{skip}{{% if message.role == 'assistant' %}}{body}{{% else %}}{other}{{% endif %}}{{% endfor %}}"
    aside = draw.choice(ASIDES) if draw.random() < 0.7 else ""
    if draw.random() < 0.3:
        aside += draw.choice(["\n", " ", ""]) + draw.choice(ASIDES)
    end = draw.choice(["", "", "", "{% else %}{{ eos_token }}"])
    ask = f"{{% if add_generation_prompt %}}{{{{ '{style['ask']}' }}}}{end}{{% endif %}}"
    parts = [loosen(draw, start), draw.choice(["", "\n"]), aside, draw.choice(["", "\n", "\n\n"]), loop]
    parts += [draw.choice(["", "\n"]), ask, draw.choice(["", "\n", "\n\n"])]
    made = "".join(parts)
    if draw.random() < 0.3:
        made = made.replace("{% endfor %}", "{%- endfor -%}").replace("{% for message", "{%- for message")
    return made


def conversation(draw):
    """Turns, mostly in order: sometimes an assistant begins, or someone speaks twice."""
    turns = []
    if draw.random() < 0.4:
        turns.append("system")
    if draw.random() < 0.2:
        turns.append("assistant")
    for _ in range(draw.randint(1, 3)):
        turns += ["user", "assistant"]
    if draw.random() < 0.2:
        turns.insert(draw.randrange(len(turns)), draw.choice(["user", "assistant", "tool"]))
    if draw.random() < 0.2:
        turns.append("user")
    messages = [dict(role=role, content=draw.choice(TEXTS)) for role in turns]
    for message in messages:
        if draw.random() < 0.1:
            message["name"] = draw.choice(["ann", "Bob's"])
        if message["role"] == "assistant" and draw.random() < 0.1:
            message["tool_calls"] = [dict(function=dict(name="f", arguments=dict(x=1, y=[1.5, None, True])))]
    return messages


def folder_of(root, text):
    """A tokenizer of no words with this template."""
    root.mkdir()
    words = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **SPECIAL)
    tokenizer.save_pretrained(root)
    (root / "chat_template.jinja").write_text(text, newline="")
    tokenizer.chat_template = text
    return tokenizer


def rendered(tokenizer, messages, prompt):
    """transformers' text, or none where the template refuses."""
    try:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt)
    except Exception:  # A refusal of the template, or a fault in it.
        return None


def spans(text, messages):
    """The rendered text with blocks and the parts in them, as transformers finds them."""
    texts, found = render_jinja_template(
        conversations=[messages], chat_template=text, return_assistant_tokens_mask=True, add_generation_prompt=False, **SPECIAL
    )
    return texts[0], [texts[0][begin:end] for begin, end in found[0]], found[0]


def learned_difference(answer, marked, messages, exact):
    """Why the learned parts of an answer are not those of transformers, or nothing."""
    rows = answer.get("rows")
    if rows is None:
        return answer.get("error", "no answer")
    turns = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    whole, _, places = spans(marked, messages)
    if len(rows) == 1 and rows[0]["text"] == whole:
        expected = [(whole, place) for place in places]
        found = [(rows[0]["text"], place) for place in rows[0]["learned"]]
    else:
        if len(rows) != len(turns):
            return f"{len(rows)} rows for {len(turns)} turns"
        expected = []
        for at in turns:
            text, _, places = spans(marked, messages[: at + 1])
            expected.append((text, places[-1]))
        found = [(row["text"], row["learned"][0]) for row in rows]

    def edges(text, place):
        """The place without white space at its edges."""
        begin, end = place
        if exact:
            return text, begin, end
        part = text[begin:end]
        # An end token after the last turn belongs to the text, and may be learned with it.
        if not text[end:].strip() and part.rstrip().endswith(SPECIAL["eos_token"]):
            part = part.rstrip()[: -len(SPECIAL["eos_token"])]
            end = begin + len(part)
        return text, begin + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())

    ours = [it for it in (edges(*pair) for pair in found) if it[1] < it[2]]
    theirs = [it for it in (edges(*pair) for pair in expected) if it[1] < it[2]]
    if ours != theirs:
        return dict(ours=[text[b:e] for text, b, e in ours], theirs=[text[b:e] for text, b, e in theirs])
    return None


def compare(anneal, draw, root, conversations):
    """All that differs for one template."""
    made = template(draw)
    plain, marked = made.replace("«", "").replace("»", ""), made.replace("«", "{% generation %}").replace("»", "{% endgeneration %}")
    tokenizer = folder_of(root / "plain", plain)
    folder_of(root / "marked", marked)
    differences = []
    for _ in range(conversations):
        messages = conversation(draw)
        note = dict(template=plain, messages=messages)
        texts = {}
        for prompt in (False, True):
            texts[prompt] = theirs = rendered(tokenizer, messages, prompt)
            answer = anneal.ask(ask="render", folder=str(root / "plain"), messages=messages, prompt=prompt)
            if answer.get("text") != theirs:
                differences.append(dict(note, prompt=prompt, ours=answer, theirs=theirs))
                break
        else:
            if texts[False] is None or not any(it["role"] == "assistant" for it in messages):
                continue
            for name in ("marked", "plain"):
                answer = anneal.ask(ask="learned", folder=str(root / name), messages=messages)
                different = learned_difference(answer, marked, messages, exact=name == "marked")
                if different:
                    differences.append(dict(note, learned=name, different=different))
                    break
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--conversations", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw, anneal, differences = random.Random(arguments.seed), Anneal(), []
    for _ in range(arguments.n):
        with tempfile.TemporaryDirectory() as folder:
            differences += compare(anneal, draw, Path(folder), arguments.conversations)
    return report(differences, arguments.n * arguments.conversations, "conversations")


if __name__ == "__main__":
    sys.exit(main())
