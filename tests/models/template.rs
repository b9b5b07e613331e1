//! Chat templates: what they write, what of it is learned, and templates that would end more than themselves.

use models::data::{
    row::{Message, Role},
    template::ChatTemplate,
};

use crate::tokens::{marked, tokenizer};

/// What a template writes of one question.
fn written(source: &str) -> Result<String, String> {
    let template = ChatTemplate::from_source(source, &tokenizer()).unwrap();
    let messages = [Message::new(Role::User, "Hi.")];
    template.text(&messages).map_err(|error| error.to_string())
}

/// What is wrong with how a template is refused.
fn wrongly_refused(source: &str, problem: &str) -> Option<String> {
    let expected = "the chat template (given) can’t show the conversation: ";
    match written(source) {
        Err(error) if error.starts_with(expected) && error.contains(problem) => None,
        other => Some(format!("{source}: {other:?}")),
    }
}

#[test]
fn a_template_that_loops_for_ever_is_stopped() {
    let nested =
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ '' }}{% endfor %}{% endfor %}";
    let problem = "takes more than 2000000 instructions, as if it looped for ever";
    assert_eq!(wrongly_refused(nested, problem), None);
    let itself = "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}";
    assert!(written(itself).is_err());
    // A long conversation may take more.
    let each =
        "{% for m in messages %}{% for n in range(1000) %}{% set x = n %}{% endfor %}.{% endfor %}";
    let template = ChatTemplate::from_source(each, &tokenizer()).unwrap();
    let messages = vec![Message::new(Role::User, "Hi."); 1000];
    assert_eq!(template.text(&messages).unwrap(), ".".repeat(1000));
}

/// Templates that ask for more than there is, and what is said of each.
pub(crate) const DEMANDING: &[(&str, &str)] = &[
    (
        "{{ 'a\nb' | indent(100000000000) }}",
        "100000000000 is more than 10000",
    ),
    (
        "{{ [1] | tojson(indent=100000000000) }}",
        "100000000000 is more than 10000",
    ),
    (
        "{{ [1] | batch(100000000000, 0) | list }}",
        "100000000000 is more than 10000",
    ),
    (
        "{{ [1] | slice(100000000000, 0) | list }}",
        "100000000000 is more than 10000",
    ),
    ("{{ '{:>100000000000}'.format('a') }}", "too wide"),
    ("{{ '%100000000000s' | format('a') }}", "too wide"),
    (
        "{{ ([0] * 100000000000) | list }}",
        "a list has 100000000000 items, more than 1000000",
    ),
    (
        "{{ ([0] * 100000000000) | join }}",
        "a list has 100000000000 items, more than 1000000",
    ),
    (
        "{{ ','.join([0] * 100000000000) }}",
        "a list has 100000000000 items, more than 1000000",
    ),
    (
        "{{ [0] * 100000000000 }}",
        "a list has 100000000000 items, more than 1000000",
    ),
    (
        "{{ ('a' * 9999).replace('a', 'b' * 9999) }}",
        "a text of more than 33554432 bytes",
    ),
    (
        "{{ ('a' * 9999) | replace('a', 'b' * 9999) }}",
        "a text of more than 33554432 bytes",
    ),
    (
        "{% for n in range(999) %}{{ 'a' * 999999 }}{% endfor %}",
        "a text of more than 33554432 bytes",
    ),
    (
        "{% set a %}{% for n in range(999) %}{{ 'a' * 999999 }}{% endfor %}{% endset %}",
        "a text of more than",
    ),
    (
        "{% set a = namespace(b=[]) %}{% for n in range(500) %}{% set a.b = [a.b] %}{% endfor %}{{ a.b }}",
        "lists stand in lists more than 100 deep",
    ),
    // Texts and lists that double.
    (
        "{% set a = namespace(b='abc') %}{% for n in range(99) %}{% set a.b = a.b + a.b %}{% endfor %}",
        "it makes a text of more than 33554432 bytes",
    ),
    (
        "{% set a = namespace(b='abc') %}{% for n in range(99) %}{% set a.b = a.b ~ a.b %}{% endfor %}",
        "it makes or reads texts and lists of more than 128 MiB",
    ),
    (
        "{% set a = namespace(b=[1]) %}{% for n in range(99) %}{% set a.b = a.b + a.b %}{% endfor %}",
        "a list has 1000001 items, more than 1000000",
    ),
    (
        "{% set a = namespace(b=[1]) %}{% for n in range(99) %}{% set a.b = [a.b, a.b] %}{% endfor %}{{ a.b == [] }}",
        "it makes or reads texts and lists of more than 128 MiB",
    ),
    (
        "{% set a = namespace(b='abc') %}{% for n in range(99) %}{% set a.b %}{{ a.b }}{{ a.b }}{% endset %}{% endfor %}",
        "it makes a text of more than 33554432 bytes",
    ),
    (
        "{% set a = namespace(b=0) %}{% for n in range(99999) %}{% set a.b = [a.b] %}{% endfor %}",
        "lists stand in lists more than 100 deep",
    ),
    (
        "{% set a = namespace(b=0) %}{% for n in range(99999) %}{% set a.b = {'c': a.b} %}{% endfor %}",
        "lists stand in lists more than 100 deep",
    ),
    (
        "{% set a = namespace(b=0) %}{% for n in range(99999) %}{% set a.b = dict(c=a.b) %}{% endfor %}",
        "lists stand in lists more than 100 deep",
    ),
    (
        "{% set a = namespace(b=[0]) %}{% for n in range(99999) %}{% set a.b = a.b | batch(9) %}{% endfor %}",
        "lists stand in lists more than 100 deep",
    ),
    (
        "{% set a = namespace() %}{% set a.b = a %}{{ a }}",
        "a namespace, a loop or a macro can’t be kept",
    ),
    (
        "{% set a = namespace() %}{% set a.b = [a] %}{{ a }}",
        "a namespace, a loop or a macro can’t be kept",
    ),
    (
        "{% set a = namespace() %}{% set a.b = dict(b=a) %}{{ a }}",
        "a namespace, a loop or a macro can’t be kept",
    ),
    (
        "{% set a = namespace() %}{% set b = namespace(a=a) %}",
        "a namespace, a loop or a macro can’t be kept",
    ),
    (
        "{% set a = namespace() %}{% for b in [1] %}{% set a.b = loop %}{% endfor %}",
        "a loop or a macro can’t be kept",
    ),
    (
        "{% set a = namespace() %}{% macro b() %}{{ a }}{% endmacro %}{% set a.b = b %}",
        "a loop or a macro can’t be kept",
    ),
    (
        "{% for a in [1, 2] %}{{ loop.changed(loop) }}{% endfor %}",
        "a loop or a macro can’t be kept",
    ),
    (
        "{% set a = namespace(b=0) %}{% for n in range(99999) %}{% set a.b = {'c': a.b} %}{% set a.b = a.b ~ a.b %}{% endfor %}",
        "it makes a text of more than 33554432 bytes",
    ),
    // Much work for one instruction.
    (
        "{{ 1 in [0] * 100000000000 }}",
        "a list has 100000000000 items, more than 1000000",
    ),
    (
        "{{ ([0] * 100000000000)[::-1] }}",
        "a list has 100000000000 items, more than 1000000",
    ),
    (
        "{{ 'a' * 30000000 * 30000000 }}",
        "it makes a text of more than 33554432 bytes",
    ),
    (
        "{% set a = 'a' * 30000000 %}{% for n in range(9999) %}{% set b = a | upper %}{% endfor %}",
        "it makes or reads texts and lists of more than 128 MiB",
    ),
    (
        "{% set a = 'a' * 30000000 %}{% set b = 'a' * 30000000 %}{% for n in range(99999) %}{% set c = a == b %}{% endfor %}",
        "it makes or reads texts and lists of more than 128 MiB",
    ),
    (
        "{% set a = 'a' * 30000000 %}{% for n in range(99999) %}{% set c = 'a' < a < 'b' %}{% endfor %}",
        "it makes or reads texts and lists of more than 128 MiB",
    ),
    (
        "{% set a = 'a' * 30000000 %}{% for n in range(99999) %}{% for b in a %}{% break %}{% endfor %}{% endfor %}",
        "it makes or reads texts and lists of more than 128 MiB",
    ),
    (
        "{% set a = 'a' * 30000000 %}{% for n in range(99999) %}{% set b = a[n] %}{% endfor %}",
        "it makes or reads texts and lists of more than 128 MiB",
    ),
    (
        "{% set a = 'a' * 30000000 %}{% for n in range(99999) %}{{ loop.changed(a) }}{% endfor %}",
        "it makes or reads texts and lists of more than 128 MiB",
    ),
    (
        "{% set a = [1] * 100000 %}{% for n in range(99999) %}{{ '{}'.format(*a) }}{% endfor %}",
        "it makes or reads texts and lists of more than 128 MiB",
    ),
    (
        "{% set a = 'a' * 30000000 %}{{ a | list }}",
        "a list has 30000000 items, more than 1000000",
    ),
    (
        "{% set a = 'a' * 30000000 %}{{ a.split('a') }}",
        "a list has 1000001 items, more than 1000000",
    ),
    (
        "{% set a = 'a' * 30000000 %}{{ a | sort }}",
        "a list has 30000000 items, more than 1000000",
    ),
    (
        "{{ ('a' * 9999999 + 'c').strip(('b' * 9999999) + 'a') ~ ('{0}' * 9999).format('a' * 9999) }}",
        "it makes a text of more than 33554432 bytes",
    ),
    (
        "{{ ([('a' * 30000000)] * 1000000) | sort }}",
        "it makes or reads texts and lists of more than 128 MiB",
    ),
];

#[test]
fn a_template_that_asks_for_more_than_there_is_is_refused_before_it_gets_it() {
    let demanding = DEMANDING.iter();
    let wrong: Vec<String> = demanding
        .filter_map(|(source, problem)| wrongly_refused(source, problem))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(written("{{ 'abc'.count('') }}").unwrap(), "4");
}

#[track_caller]
fn check_written(expression: &str, expected: &str) {
    let source = format!("{{{{ {expression} }}}}");
    assert_eq!(written(&source).as_deref(), Ok(expected), "{source}");
}

#[test]
fn operators_do_what_python_does() {
    for (source, expected) in [
        (
            "''[::-1] ~ 'abc'[::-1] ~ 'abcd'[1:-1] ~ 'abcd'[-3:9:2] ~ 'abc'[2:0]",
            "cbabcbd",
        ),
        (
            "[[], [1, 2, 3][::-2], [1, 2][5:][::-1]]",
            "[[], [3, 1], []]",
        ),
        ("2 * 3 * 'a' * 2 ~ '-' * 3", "aaaaaaaaaaaa---"),
        ("[1] + [2] * 3 + messages[1:]", "[1, 2, 2, 2]"),
        (
            "(1 + 2 * 3) ~ ' ' ~ (1.5 + true) ~ ' ' ~ 'a' * 2",
            "7 2.5 aa",
        ),
        ("(1 < 2 <= 2) ~ ' ' ~ (1 < 2 > 3)", "True False"),
    ] {
        check_written(source, expected);
    }
}

#[test]
fn values_are_written_as_python_writes_them() {
    for (source, expected) in [
        (
            "['a', \"it's\", 'x\"y\\'', 'é\\n']",
            r#"['a', "it's", 'x"y\'', 'é\n']"#,
        ),
        (
            "[1, 1.0, 1.5, 1e16, 1e-7, true, none]",
            "[1, 1.0, 1.5, 1e+16, 1e-07, True, None]",
        ),
        ("{'a': ['b', {}], 1: 2}", "{'a': ['b', {}], 1: 2}"),
        ("messages", "[{'role': 'user', 'content': 'Hi.'}]"),
        ("messages[::-1] | map(attribute='role') | list", "['user']"),
        ("['a', 'b'] | string ~ '.'", "['a', 'b']."),
        ("['a', ['b']] | join('-')", "a-['b']"),
        ("'-'.join(['a', 1, none])", "a-1-None"),
        (
            "{'b': [1, {}], 'a': 'é<'} | tojson",
            r#"{"b": [1, {}], "a": "é<"}"#,
        ),
        (
            "{'b': 1, 'a': 'é🙂'} | tojson(ensure_ascii=true, sort_keys=true)",
            r#"{"a": "\u00e9\ud83d\ude42", "b": 1}"#,
        ),
        (
            "{'a': [1, []]} | tojson(indent=2)",
            "{\n  \"a\": [\n    1,\n    []\n  ]\n}",
        ),
        ("[1, 2] | tojson(separators=(',', ':'))", "[1,2]"),
        (
            "'é!'.find('!') ~ ' ' ~ 'é!é'.rfind('é') ~ ' ' ~ 'a'.find('b')",
            "1 2 -1",
        ),
        (
            "''.isdigit() ~ ' ' ~ '12'.isdigit() ~ ' ' ~ 'aB'.islower()",
            "False True False",
        ),
        ("' a  b '.split() ~ ''", "['a', 'b']"),
        ("'a,b,c'.split(',', 1) | list", "['a', 'b,c']"),
        ("'a-b-c'.rsplit('-', 1) | list", "['a-b', 'c']"),
        ("'a-b'.partition('-') | list", "['a', '-', 'b']"),
        ("'a\\r\\nb\\x0bc'.splitlines()", "['a', 'b', 'c']"),
        ("'\\x1c a'.strip() ~ '|' ~ ('\\x1c a' | trim)", "a|a"),
        (
            "'abab'.replace('a', 'x', 1) ~ 'prefix'.removeprefix('pre')",
            "xbabfix",
        ),
        ("'a\\n\\nb\\n' | indent(2)", "a\n\n  b\n"),
        (
            "'a' is sequence ~ ' ' ~ 'a' is iterable ~ ' ' ~ none is iterable",
            "True True False",
        ),
        ("tools is none ~ ' ' ~ documents is defined", "True True"),
        (
            "strftime_now('%d %B %Y, %A, %-m %%')",
            "26 July 2024, Friday, 7 %",
        ),
    ] {
        check_written(source, expected);
    }
}

#[test]
fn a_conversation_that_the_assistant_begins_is_learned_without_what_stands_before_its_words() {
    let talk = [
        (Role::Assistant, "Hello!"),
        (Role::User, "Hi."),
        (Role::Assistant, "Bye."),
    ];
    // The first message is asked for its role, as Qwen2.5 does: of no conversation there is no prompt.
    let qwen = "{% if messages[0]['role'] == 'system' %}{{ '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\
                {% else %}{{ '<|im_start|>system\\nYou are Qwen.<|im_end|>\\n' }}{% endif %}\
                {% for message in messages %}{% if message.role != 'system' %}\
                {{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}\
                {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    let learned = "<|im_start|>system\nYou are Qwen.<|im_end|>\n<|im_start|>assistant\n⟦Hello!<|im_end|>⟧\n\
                   <|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n⟦Bye.<|im_end|>⟧\n";
    assert_eq!(marked(qwen, &talk), [learned]);
    // One that writes a prompt for nobody, with words of its own.
    let empty = qwen.replace("messages[0]['role']", "messages and messages[0]['role']");
    assert_eq!(marked(&empty, &talk), [learned]);
    // Nothing asks for a turn: the words are all that is certain.
    let bare = "{% for m in messages %}{{ '[' + m.role + '] ' + m.content | trim + '<|im_end|>\\n' }}{% endfor %}";
    assert_eq!(
        marked(bare, &talk[..1]),
        ["[assistant] ⟦Hello!<|im_end|>⟧\n"]
    );
    // Words that stand elsewhere too, that are white space, or that the template writes otherwise.
    let echo = format!("{{{{ messages[0].content[:4] }}}}{qwen}");
    assert_eq!(
        marked(&echo, &talk[..1])[0],
        format!(
            "Hell{}",
            &learned[..learned.find("<|im_start|>user").unwrap()]
        )
    );
    let empty_turn = [(Role::Assistant, "")];
    assert_eq!(
        marked(qwen, &empty_turn),
        ["<|im_start|>system\nYou are Qwen.<|im_end|>\n<|im_start|>assistant\n⟦<|im_end|>⟧\n"]
    );
}
