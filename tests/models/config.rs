//! What a `config.json` means, and what is refused in one: by its name, with the value and what it may be.

use models::arch::{
    config::{DecoderConfig, limits::LIMITS},
    families::FAMILIES,
};
use serde_json::{Map, Value as Json, json};

/// What the config classes of transformers take for a field that is left out.
const DEFAULTS: &str = include_str!("../goldens/config_defaults.json");
/// Fields that a class has and its model does not read.
const IGNORED: [(&str, &str); 1] = [("gemma3_text", "attn_logit_softcapping")];

/// A whole config of a family, with these fields changed.
fn config(model_type: &str, changes: &Json) -> Json {
    let mut config = json!({
        "model_type": model_type, "vocab_size": 7, "hidden_size": 16, "intermediate_size": 4, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8,
    });
    for (name, value) in changes.as_object().unwrap() {
        config[name] = value.clone();
    }
    config
}

fn read(model_type: &str, changes: &Json) -> models::Result<DecoderConfig> {
    DecoderConfig::from_json(&config(model_type, changes))
}

/// Refuses these changes with these words.
#[track_caller]
fn check_refused(model_type: &str, changes: Json, words: &str) {
    let message =
        read(model_type, &changes).map_or_else(|error| error.to_string(), |_| String::new());
    assert_eq!(message, words, "{model_type}: {changes}");
}

/// Reads these changes as if they were not there.
#[track_caller]
fn check_harmless(model_type: &str, changes: Json) {
    let plain = read(model_type, &json!({})).unwrap();
    let changed = read(model_type, &changes);
    assert_eq!(changed.unwrap(), plain, "{model_type}: {changes}");
}

#[test]
fn what_is_left_out_is_what_transformers_takes_for_it() {
    let golden: Json = serde_json::from_str(DEFAULTS).unwrap();
    let golden = golden["families"].as_object().unwrap();
    let ours: Vec<&str> = FAMILIES.iter().map(|it| it.model_type.as_str()).collect();
    let theirs: Vec<&str> = golden.keys().map(String::as_str).collect();
    assert_eq!(ours, theirs);
    let number = |it: &Json| it.as_f64().map_or(it.clone(), |number| json!(number));
    for family in FAMILIES.iter() {
        let expected = golden[&family.model_type].as_object().unwrap();
        for (name, value) in &family.defaults {
            // A width that follows from others is no field of the class.
            let expected = expected.get(name).unwrap_or(&Json::Null);
            assert_eq!(
                number(value),
                number(expected),
                "{}: {name}",
                family.model_type
            );
        }
    }
}

#[test]
fn no_field_of_a_class_of_transformers_that_is_read_somewhere_is_passed_over() {
    let golden: Json = serde_json::from_str(DEFAULTS).unwrap();
    let somewhere = |name: &str| FAMILIES.iter().any(|family| family.reads(name));
    for family in FAMILIES.iter() {
        let fields: &Map<String, Json> =
            golden["families"][&family.model_type].as_object().unwrap();
        for name in fields.keys().filter(|name| somewhere(name)) {
            let is_ignored = IGNORED.contains(&(family.model_type.as_str(), name.as_str()));
            assert_eq!(
                family.reads(name),
                !is_ignored,
                "{}: {name}",
                family.model_type
            );
        }
    }
}

/// A family that reads this field, the field with its place, and a config where it has this value.
fn with_field(field: &str, value: &Json) -> (&'static str, String, Json) {
    let scaling = match field {
        "low_freq_factor" | "high_freq_factor" => json!({"rope_type": "llama3", "factor": 2}),
        _ => json!({"rope_type": "yarn", "factor": 2}),
    };
    let of_scaling = ["beta_fast", "beta_slow", "mscale", "mscale_all_dim"];
    if of_scaling.contains(&field) || (field.ends_with("factor") && !field.starts_with("partial")) {
        let mut scaling = scaling;
        scaling["low_freq_factor"] = json!(1);
        scaling["high_freq_factor"] = json!(4);
        scaling[field] = value.clone();
        let changes = json!({"rope_scaling": scaling});
        return ("llama", format!("rope_scaling.{field}"), changes);
    }
    let mut changes =
        json!({"rope_scaling": scaling, "sliding_window": 4, "use_sliding_window": true});
    changes[field] = value.clone();
    let reads = |family: &&models::arch::families::Family| family.reads(field);
    let family = FAMILIES.iter().find(reads).map(|it| it.model_type.as_str());
    if family == Some("phi3") {
        let factors = json!([1, 1, 1, 1]);
        changes["rope_scaling"] =
            json!({"type": "longrope", "short_factor": factors, "long_factor": factors});
    }
    (family.unwrap_or("llama"), field.to_owned(), changes)
}

#[test]
fn a_number_beyond_its_limit_is_refused_with_the_number_and_the_limit() {
    for limit in LIMITS {
        assert!(!limit.why.is_empty(), "{}", limit.field);
        let check = |number: f64, words: &str| {
            let value = match number.fract() == 0.0 && number.abs() < 1e15 {
                true => json!(number as i64),
                false => json!(number),
            };
            let (family, place, changes) = with_field(limit.field, &value);
            check_refused(family, changes, &format!("`{place}` is {value}; {words}"));
        };
        let min = limit.min;
        match limit.above {
            true => {
                check(min, &format!("it must be above {min}"));
                check(min - 1.0, &format!("it must be above {min}"));
            }
            false => check(min - 1.0, &format!("it must be at least {min}")),
        }
        for more in [limit.max * 2.0, 1e12, 1e30] {
            if more.is_finite() && more > limit.max {
                check(more, &format!("no model here has more than {}", limit.max));
            }
        }
    }
}

#[test]
fn sizes_that_no_word_holds_are_refused() {
    for size in ["18446744073709551615", "9223372036854775808", "1e30"] {
        let value: Json = serde_json::from_str(size).unwrap();
        let words = format!("`num_hidden_layers` is {value}; no model here has more than 1024");
        check_refused("llama", json!({ "num_hidden_layers": value }), &words);
    }
    let large = json!({"vocab_size": 1 << 24, "hidden_size": 1 << 18, "intermediate_size": 1 << 20, "num_hidden_layers": 1024,
        "num_attention_heads": 1024, "num_key_value_heads": 1024, "head_dim": 8192});
    check_refused(
        "llama",
        large,
        "`config` describes 9860420815028224 parameters; no model here has more than 140737488355328",
    );
}

#[test]
fn a_value_of_another_kind_is_refused_with_the_value() {
    let cases = [
        (
            json!({"head_dim": "2"}),
            "`head_dim` is \"2\", which is not a whole number",
        ),
        (
            json!({"head_dim": 2.5}),
            "`head_dim` is 2.5, which is not a whole number",
        ),
        (
            json!({"head_dim": 5}),
            "`head_dim` is 5, of which 5 numbers would be rotated; they are rotated in pairs",
        ),
        (
            json!({"mlp_bias": 1}),
            "`mlp_bias` is 1, which is not true or false",
        ),
        (
            json!({"hidden_act": 3}),
            "`hidden_act` is 3, which is not text",
        ),
        (
            json!({"hidden_act": "relu"}),
            "`hidden_act` is `relu`; known are `silu`, `gelu`, `gelu_pytorch_tanh`",
        ),
        (
            json!({"num_key_value_heads": 3}),
            "`num_key_value_heads` is 3, which does not divide the 2 attention heads",
        ),
        (
            json!({"rope_scaling": [1]}),
            "`rope_scaling` is [1], which is not an object",
        ),
        (
            json!({"rope_scaling": {"rope_type": 3}}),
            "`rope_scaling.rope_type` is 3, which is not text",
        ),
        (
            json!({"rope_scaling": {"rope_type": "linear"}}),
            "`rope_scaling.factor` is missing from the model’s config",
        ),
        (
            json!({"rope_scaling": {"rope_type": "linear", "factor": 0}}),
            "`rope_scaling.factor` is 0; it must be above 0",
        ),
        (
            json!({"rope_parameters": {"rope_theta": -1}}),
            "`rope_parameters.rope_theta` is -1; it must be above 0",
        ),
    ];
    for (changes, words) in cases {
        check_refused("llama", changes, words);
    }
    check_refused(
        "llama",
        json!({"num_hidden_layers": null}),
        "`num_hidden_layers` is missing from the model’s config",
    );
}

#[test]
fn a_field_that_may_change_the_numbers_is_refused_by_its_name() {
    let unknown = "is not known here, so it may change what the model computes; if it does not, remove it from config.json";
    let words = format!("`attention_multiplier` {unknown}");
    check_refused("llama", json!({"attention_multiplier": 0.5}), &words);
    let quantized = "`quantization_config` says that the weights are quantized, which can’t be read here; use the model as it was before that";
    check_refused(
        "llama",
        json!({"quantization_config": {"bits": 4}}),
        quantized,
    );
    let words = "`use_bidirectional_attention` is true, and only false is computed here";
    check_refused(
        "gemma3_text",
        json!({"use_bidirectional_attention": true}),
        words,
    );
    let words =
        "`rope_scaling.mrope_section` is not known here, so it may change what the model computes";
    check_refused(
        "qwen2",
        json!({"rope_scaling": {"rope_type": "default", "mrope_section": [1]}}),
        words,
    );
    check_harmless(
        "llama",
        json!({"attention_multiplier": null, "transformers.js_config": {}, "rope_interleaved": false,
        "attention_dropout": 0.1, "use_mrope": false, "full_attn_mod": 1.0, "quantization_config": null}),
    );
    check_harmless(
        "gemma3_text",
        json!({"use_bidirectional_attention": false, "attn_logit_softcapping": 5.0}),
    );
}

#[test]
fn layers_and_ropes_that_a_family_does_not_have_are_refused() {
    let types = |types: [&str; 2]| json!({"layer_types": types});
    let mixed = ["full_attention", "sliding_attention"];
    let words = "`layer_types` has \"chunked_attention\"; known are \"full_attention\", \"sliding_attention\"";
    check_refused(
        "qwen2",
        types(["full_attention", "chunked_attention"]),
        words,
    );
    let words =
        "`sliding_window` is not in use, and there are layers that slide: set `use_sliding_window`";
    check_refused("qwen2", types(mixed), words);
    let words = "`layer_types` tells layers apart, and those of `phi3` are all the same";
    check_refused("phi3", types(mixed), words);
    check_harmless("phi3", types(["full_attention"; 2]));
    let words = "`sliding_window` is none, and there are layers that slide";
    check_refused("gemma2", json!({"sliding_window": null}), words);
    let words = "`partial_rotary_factor` is 0.5; heads of `llama` are rotated whole";
    check_refused(
        "llama",
        json!({"partial_rotary_factor": 0.5}),
        &words.replace("`partial", "`rope_parameters.partial"),
    );
    let words =
        "`rope_scaling.rope_type` is `linear`; known are `default`, `longrope`, `su`, `yarn`";
    check_refused(
        "phi3",
        json!({"rope_scaling": {"type": "linear", "factor": 2}}),
        words,
    );
    let words = "`rope_parameters.rope_type` stands where only `full_attention` and `sliding_attention` are known";
    check_refused(
        "gemma3_text",
        json!({"rope_parameters": {"rope_type": "default"}}),
        words,
    );
    let words = "`rope_parameters.full_attention` is not known here, so it may change what the model computes";
    check_refused(
        "llama",
        json!({"rope_parameters": {"full_attention": {"rope_type": "default"}}}),
        words,
    );
}

#[test]
fn yarn_with_two_lists_of_factors_is_longrope_in_the_family_that_calls_it_so() {
    let factors = |kind: &str| {
        let scaling =
            json!({"type": kind, "short_factor": [1, 1, 1, 1], "long_factor": [2, 2, 2, 3]});
        read(
            "phi3",
            &json!({"rope_scaling": scaling, "max_position_embeddings": 16384}),
        )
        .unwrap()
    };
    assert_eq!(factors("yarn"), factors("longrope"));
    assert_eq!(factors("yarn").ropes[0].changes_beyond(), Some(4096));
}
