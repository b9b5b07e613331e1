//! From a request to a plan.

use models::{
    arch::network::NetworkConfig,
    device::{self, Checked, DeviceKind, FoundDevice, dtype::Dtype},
    tasks::language::{
        Language, LanguageFacts, LanguagePlan, LanguageRequest,
        plan::*,
        preset,
        request::{Learn, Method, Preset},
    },
    train::{Facts, Resolved, TrainPlan, TrainRequest, plan::Reason, resolve},
};
use serde_json::{Value as Json, json};

#[test]
fn a_request_for_a_new_model_becomes_a_whole_plan() {
    let plan = &plan(new_model(), scratch_facts()).plan;
    let config = &plan.task.scratch.as_ref().unwrap().config;
    assert_eq!(plan.run.name, "shakespeare");
    assert_eq!(plan.task.method, Method::Scratch);
    let batch = &plan.run.batch;
    assert_eq!((batch.rows, batch.length, batch.accumulate), (4, 256, 2));
    // 500,000 tokens in rows of 256, 8 rows per step, 6 passes.
    assert_eq!(plan.run.steps, 1466);
    assert_eq!(config["vocab_size"], 1000);
    assert_eq!(preset::parameters_of(config), Some(2_627_520));
    assert!(plan.task.model.is_none() && plan.task.lora.is_none());
}

#[test]
fn a_request_for_an_adapter_puts_it_beside_every_linear_weight() {
    let asked = with(request(), json!({"lora": {"rank": 16}}));
    let plan = plan(asked, lora_facts()).plan;
    let lora = plan.task.lora.unwrap();
    assert_eq!(plan.task.method, Method::Lora);
    assert_eq!((lora.rank, lora.alpha, lora.scale()), (16, 32.0, 2.0));
    assert_eq!(lora.targets.len(), 7, "{:?}", lora.targets);
    assert_eq!(lora.layers, (0..30).collect::<Vec<_>>());
    assert_eq!(plan.task.data.learn, Learn::Assistant);
    // 19 of 20 rows have at most 300 tokens.
    assert_eq!(plan.run.batch.length, 320);
    assert_eq!(plan.run.learning_rate, 2e-4);
}

#[test]
fn every_value_has_a_reason_and_knows_whether_it_was_asked_for() {
    let resolved = plan(with(request(), json!({"seed": 7})), lora_facts());
    let (rate, seed) = (
        reason(&resolved, "learning_rate"),
        reason(&resolved, "seed"),
    );
    assert!(rate.automatic && rate.why.contains("adapters"));
    assert!(!seed.automatic && seed.value == "7");

    // Everything in the plan that is a value of its own is explained.
    let plan = serde_json::to_value(&resolved.plan).unwrap();
    for (field, value) in leaves("", &plan) {
        let explained = resolved.reasons.iter().any(|it| it.field == field);
        let needs_none = field.starts_with("data.files") || value.is_object();
        assert!(explained || needs_none, "{field}");
    }
}

#[test]
fn a_plan_is_a_request_for_the_same_plan() {
    let full = json!({"method": "full", "epochs": 1});
    for (request, facts) in [
        (new_model(), scratch_facts()),
        (request(), lora_facts()),
        (with(request(), full), lora_facts()),
    ] {
        let first = plan(request, facts.clone()).plan;
        let second = plan(serde_json::to_value(&first).unwrap(), facts).plan;
        assert_eq!(first, second);
    }
}

#[test]
fn each_wrong_value_is_a_problem_of_its_field() {
    let cases: Vec<(Json, String)> =
        serde_json::from_str(include_str!("wrong_values.json")).unwrap();
    for (change, expected) in cases {
        assert_eq!(problems(with(request(), change), lora_facts()), [expected]);
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let request = json!({"learning_rate": 0, "clip_norm": -1, "scratch": {"vocab_size": 100}});
    assert_eq!(
        problems(request, scratch_facts()),
        [
            "`scratch.vocab_size` is 100, and has to be at least 259: every byte, and three tokens that end texts \
             and turns",
            "`data.files` is missing: name at least one file",
            "`learning_rate` is 0, and has to be above 0 and at most 10",
            "`clip_norm` is -1, and has to be from 0 to 1000000",
        ]
    );
}

#[test]
fn a_field_of_a_config_that_changes_nothing_is_refused_by_its_name() {
    let with_config =
        |config: Json| json!({"data": {"files": ["a.txt"]}, "scratch": {"config": config}});
    let refused =
        json!({"hiden_size": 64, "num_layers": 2, "colour": "red", "attention_dropout": 0.1});
    assert_eq!(
        problems(with_config(refused), scratch_facts()),
        [
            "`scratch.config.hiden_size` is no field that is known; did you mean `hidden_size`?",
            "`scratch.config.num_layers` is no field that is known; did you mean `num_hidden_layers`?",
            "`scratch.config.colour` is no field that is known",
            "`scratch.config.attention_dropout` is 0.1, and has no effect here but as 0",
        ]
    );
    // What belongs to a published config and says nothing here is no mistake.
    let accepted = json!({"use_cache": true, "attention_dropout": 0.0, "rope_scaling": null, "num_hidden_layers": 2});
    plan(with_config(accepted), scratch_facts());
}

#[test]
fn what_the_device_cannot_do_safely_is_replaced_with_a_warning() {
    let asked = with(request(), json!({"dtype": {"compute": "bf16"}}));
    let resolved = plan(asked, lora_facts());
    assert_eq!(resolved.plan.run.dtype.compute, Dtype::F32);
    assert_eq!(
        resolved.warnings,
        [
            "the longest row has 900 tokens and is cut to 320",
            "`dtype.compute`: bf16 was asked for and f32 is used. Only processors with products of bf16 gain by it; on \
             others they are slower than those of f32.",
        ]
    );
}

#[test]
fn a_processor_with_products_of_bf16_uses_them_when_asked_and_keeps_its_tensors_in_f32() {
    let facts = || {
        let mut facts = lora_facts();
        facts.device.device.multiplies_bf16 = true;
        facts
    };
    let run = |asked: Json| plan(with(request(), asked), facts()).plan.run;
    let usual = run(json!({}));
    assert_eq!(
        (
            usual.dtype.compute,
            usual.dtype.storage,
            usual.tensor_dtype()
        ),
        (Dtype::F32, Dtype::F32, Dtype::F32)
    );
    let asked = run(json!({"dtype": {"compute": "bf16"}}));
    assert_eq!(
        (
            asked.dtype.compute,
            asked.dtype.storage,
            asked.tensor_dtype()
        ),
        (Dtype::Bf16, Dtype::Bf16, Dtype::F32)
    );
    let exact = run(json!({"dtype": {"compute": "bf16", "storage": "f32"}}));
    assert_eq!(exact.dtype.storage, Dtype::F32);
    // What is refused on any processor is refused on this one.
    let lowered = run(json!({"dtype": {"storage": "f16"}}));
    assert_eq!(lowered.dtype.storage, Dtype::F32);
    let gpu = plan(request(), gpu_facts(Checked::default())).plan.run;
    assert_eq!(
        (gpu.dtype.compute, gpu.tensor_dtype()),
        (Dtype::Bf16, Dtype::Bf16)
    );
}

#[test]
fn in_f16_what_does_not_learn_is_stored_in_f16_unless_something_else_is_asked_for() {
    let stored = |facts, dtype: Json| {
        let resolved = plan(with(request(), json!({ "dtype": dtype })), facts);
        assert_eq!(resolved.plan.run.dtype.compute, Dtype::F16);
        resolved.plan.run.dtype.storage
    };
    let gpu = || gpu_facts(Checked::default());
    assert_eq!(stored(gpu(), json!({"compute": "f16"})), Dtype::F16);
    let asked = json!({"compute": "f16", "storage": "f32"});
    assert_eq!(stored(gpu(), asked), Dtype::F32);
    // The kernels of the CPU are f32.
    assert_eq!(stored(lora_facts(), json!({"compute": "f16"})), Dtype::F32);
}

#[test]
fn a_dtype_that_the_check_found_wrong_is_never_chosen() {
    let checked = || Checked {
        refused_dtypes: vec![Dtype::Bf16],
        ..Checked::default()
    };
    let dtypes = |resolved: &Resolved<LanguagePlan>| {
        let dtype = &resolved.plan.run.dtype;
        (dtype.compute, dtype.storage)
    };
    let usual = plan(request(), gpu_facts(Checked::default()));
    assert_eq!(dtypes(&usual), (Dtype::Bf16, Dtype::Bf16));

    let resolved = plan(request(), gpu_facts(checked()));
    assert_eq!(dtypes(&resolved), (Dtype::F32, Dtype::F32));
    assert_eq!(
        why(&resolved, "dtype.compute"),
        "The device check found bf16 wrong here. f32 keeps 7 digits, at twice the memory and more time."
    );
    assert_eq!(resolved.warnings.len(), 1, "{:?}", resolved.warnings);

    let asked = with(request(), json!({"dtype": {"compute": "bf16"}}));
    let resolved = plan(asked.clone(), gpu_facts(checked()));
    assert_eq!(resolved.plan.run.dtype.compute, Dtype::F32);
    assert_eq!(
        resolved.warnings[1],
        "`dtype.compute`: bf16 was asked for and f32 is used. The device check found bf16 wrong here."
    );
    let strict = json!({"strict": true});
    assert_eq!(
        problems(with(asked, strict.clone()), gpu_facts(checked())),
        [
            "`dtype.compute` is bf16 and must be obeyed (strict), but on CUDA from compute capability 8.0 only f32 is \
             safe. The device check found bf16 wrong here."
        ]
    );
    assert_eq!(
        problems(with(request(), strict.clone()), gpu_facts(checked())),
        [
            "`dtype.compute` is not set, and the device check found bf16, the default here, wrong; set it to f32, or \
             turn `strict` off"
        ]
    );
    let way_out = json!({"strict": true, "dtype": {"compute": "f32"}});
    let resolved = plan(with(request(), way_out), gpu_facts(checked()));
    assert_eq!(dtypes(&resolved), (Dtype::F32, Dtype::F32));
}

#[test]
fn bf16_is_chosen_on_metal_after_it_passed_the_check() {
    for (bf16, expected) in [(false, Dtype::F32), (true, Dtype::Bf16)] {
        let mut facts = gpu_facts(Checked {
            bf16,
            ..Checked::default()
        });
        facts.device.device = FoundDevice::named(DeviceKind::Metal, 0, "Apple M3");
        assert_eq!(plan(request(), facts).plan.run.dtype.compute, expected);
    }
}

#[test]
fn kernels_that_the_check_found_wrong_are_avoided() {
    let checked = || Checked {
        composed: vec!["rms_norm".to_owned(), "rope".to_owned()],
        ..Checked::default()
    };
    let resolved = plan(request(), gpu_facts(checked()));
    assert_eq!(resolved.plan.run.avoid_kernels, ["rms_norm", "rope"]);
    assert_eq!(
        why(&resolved, "avoid_kernels"),
        "The device check found these kernels wrong."
    );
    assert_eq!(
        resolved.warnings[1],
        "`rms_norm`, `rope`: the device check found the kernels wrong on H100; simpler steps are used, which take longer"
    );
    // The plan is a request for the same plan, on a device that was never checked too.
    let again = serde_json::to_value(&resolved.plan).unwrap();
    let second = plan(again, gpu_facts(Checked::default()));
    assert_eq!(second.plan, resolved.plan);
    assert_eq!(why(&second, "avoid_kernels"), "Your setting.");

    let strict = json!({"strict": true, "avoid_kernels": ["rope"]});
    assert_eq!(
        problems(with(request(), strict), gpu_facts(checked())),
        [
            "`avoid_kernels` lacks `rms_norm`, whose kernels the device check found wrong on H100; name them, or turn \
             `strict` off"
        ]
    );
    let names = json!({"strict": true, "avoid_kernels": ["rope", "rms_norm"]});
    let named = plan(with(request(), names), gpu_facts(checked()));
    assert_eq!(named.plan.run.avoid_kernels, ["rms_norm", "rope"]);
    assert_eq!(named.warnings.len(), 1, "{:?}", named.warnings);
}

#[test]
fn what_is_not_avoided_is_not_in_the_plan() {
    let resolved = plan(request(), lora_facts());
    let json = serde_json::to_value(&resolved.plan).unwrap();
    assert_eq!(json.get("avoid_kernels"), None);
    let mut reasons = resolved.reasons.iter();
    assert!(reasons.all(|it| it.field != "avoid_kernels"));
    let unknown = with(request(), json!({"avoid_kernels": ["softmax"]}));
    let problem = &problems(unknown, lora_facts())[0];
    let begin =
        "`avoid_kernels` names `softmax`, which has no kernel; those that do are `rms_norm`, ";
    assert!(problem.starts_with(begin), "{problem}");
}

#[test]
fn a_device_that_can_not_train_is_replaced_by_the_cpu() {
    let checked = || Checked {
        refused_dtypes: vec![Dtype::F32, Dtype::Bf16],
        composed: vec!["rope".to_owned()],
        training_failed: Some("linear in f32: the output is off".to_owned()),
        bf16: false,
    };
    let found = "the device check could not train on H100 (linear in f32: the output is off)";
    let resolved = plan(request(), gpu_facts(checked()));
    assert_eq!(resolved.plan.run.device.to_string(), "cpu");
    assert_eq!(resolved.plan.run.dtype.compute, Dtype::F32);
    // What was found there says nothing of the CPU.
    assert!(resolved.plan.run.avoid_kernels.is_empty());
    assert_eq!(why(&resolved, "device"), format!("T{}.", &found[1..]));
    assert_eq!(
        resolved.warnings[1],
        format!("{found}; the CPU is used instead")
    );
    let strict = with(request(), json!({"strict": true, "device": "cuda"}));
    let problem = &problems(strict, gpu_facts(checked()))[0];
    let expected =
        format!("`device` is cuda and must be obeyed (strict), but {found}; set it to `cpu`");
    assert_eq!(*problem, expected);

    // There is nothing to fall back to from the CPU.
    let facts = Facts {
        checked: checked(),
        ..lora_facts()
    };
    let resolved = plan(request(), facts);
    assert_eq!(resolved.plan.run.device.to_string(), "cpu");
    let warning = "the device check could not train on a processor (linear in f32: the output is off), and there is no \
                   other device";
    assert_eq!(resolved.warnings[0], warning);
}

#[test]
fn fields_of_a_config_replace_those_of_the_preset() {
    let request = json!({"scratch": {"preset": "nano", "config": {"num_hidden_layers": 2}},
        "data": {"files": ["a.txt"]}});
    let plan = plan(request, scratch_facts()).plan;
    let config = plan.task.scratch.unwrap().config;
    assert_eq!(config["num_hidden_layers"], 2);
    assert_eq!(config["hidden_size"], 128);
}

#[test]
fn a_recursive_model_is_planned_as_other_new_models_are() {
    let request = |config: Json| json!({"scratch": {"preset": "trm_chat", "config": config}, "data": {"files": ["a.txt"]}});
    let resolved = plan(request(json!({"hidden_size": 512})), scratch_facts());
    let scratch = resolved.plan.task.scratch.as_ref().unwrap();
    assert_eq!(
        (&scratch.config["L_layers"], &scratch.config["num_heads"]),
        (&json!(4), &json!(12))
    );
    assert_eq!(
        (resolved.plan.run.batch.length, scratch.vocab_size),
        (512, 8192)
    );
    let narrow = "12 heads of 42 numbers are 504 of the 512 that attention could use";
    assert!(
        resolved.warnings.iter().any(|it| it.starts_with(narrow)),
        "{:?}",
        resolved.warnings
    );
    let again = plan(
        serde_json::to_value(&resolved.plan).unwrap(),
        scratch_facts(),
    );
    assert_eq!(again.plan, resolved.plan);

    let layers = problems(request(json!({"num_hidden_layers": 2})), scratch_facts());
    let unknown =
        "`scratch.config.num_hidden_layers` is no field of a recursive model; it has model_type, ";
    assert!(layers[0].starts_with(unknown), "{layers:?}");
    let small =
        json!({"scratch": {"preset": "trm_chat", "vocab_size": 260}, "data": {"files": ["a.txt"]}});
    let small = problems(small, scratch_facts());
    assert!(
        small[0].contains("has to be at least 266: every byte, and ten tokens"),
        "{small:?}"
    );
}

#[test]
fn a_recursive_model_gets_no_adapter() {
    let mut facts = lora_facts();
    let config = Json::Object(Preset::TrmChatFast.config());
    facts.task.model = NetworkConfig::from_json(&config).ok().map(Into::into);
    let found = problems(request(), facts.clone());
    assert_eq!(
        found,
        ["`method` is lora, and a recursive model has no adapters; set `method: full`"]
    );
    let full = plan(with(request(), json!({"method": "full"})), facts);
    assert_eq!(full.plan.task.method, Method::Full);
}

#[test]
fn devices_share_a_step_whose_rows_stay_as_many() {
    let asked = |batch: Json, devices: usize| {
        with(new_model(), json!({"batch": batch, "devices": devices}))
    };
    let cases = [
        // As they are.
        (json!({"rows": 8, "accumulate": 2}), 2, (8, 2)),
        (json!({"rows": 8, "accumulate": 1}), 1, (8, 1)),
        // Smaller batches, and more.
        (json!({"rows": 8, "accumulate": 1}), 2, (4, 2)),
        (json!({"rows": 9, "accumulate": 4}), 3, (6, 6)),
        (json!({"rows": 8, "accumulate": 1}), 8, (1, 8)),
        // Nobody said how many rows a step has.
        (json!({"rows": 5}), 4, (5, 4)),
    ];
    for (batch, devices, expected) in cases {
        let plan = plan(asked(batch.clone(), devices), scratch_facts())
            .plan
            .run;
        let found = (plan.batch.rows, plan.batch.accumulate);
        assert_eq!((found, plan.devices), (expected, devices), "{batch}");
    }
    let resolved = plan(
        asked(json!({"rows": 8, "accumulate": 1}), 2),
        scratch_facts(),
    );
    let why = &reason(&resolved, "batch.rows").why;
    assert_eq!(why, "2 devices share a step: each batch is one of theirs.");

    let found = problems(
        asked(json!({"rows": 3, "accumulate": 2}), 4),
        scratch_facts(),
    );
    let message = "`batch.rows` gives 6 rows in a step, which can’t be shared by 4 devices; make `batch` a multiple of 4";
    assert_eq!(found, [message]);
    let found = problems(asked(json!({"rows": 8}), 0), scratch_facts());
    assert_eq!(found, ["`devices` is 0, and has to be at least 1"]);
    let found = problems(with(new_model(), json!({"shard": true})), scratch_facts());
    let message = "`shard` is true, and one device has none to share with; say how many there are in `devices`";
    assert_eq!(found, [message]);
}

#[test]
fn fewer_rows_at_once_leave_as_many_batches_for_each_device() {
    let asked = json!({"batch": {"rows": 9, "accumulate": 4}, "devices": 2});
    let mut plan = plan(with(new_model(), asked), scratch_facts()).plan.run;
    plan.limit_rows(4);
    assert_eq!((plan.batch.rows, plan.batch.accumulate), (3, 12));
}

#[track_caller]
pub(crate) fn plan(request: Json, facts: Facts<LanguageFacts>) -> Resolved<LanguagePlan> {
    let request: TrainRequest<LanguageRequest> = serde_json::from_value(request).unwrap();
    resolve::<Language>(&request, &facts).unwrap()
}

#[track_caller]
pub(crate) fn problems(request: Json, facts: Facts<LanguageFacts>) -> Vec<String> {
    let request: TrainRequest<LanguageRequest> = serde_json::from_value(request).unwrap();
    let problems = resolve::<Language>(&request, &facts).unwrap_err();
    problems.0.iter().map(ToString::to_string).collect()
}

/// Every value with its path, down to what is not an object.
pub(crate) fn leaves(path: &str, value: &Json) -> Vec<(String, Json)> {
    let is_whole = ["scratch.config", "data.columns"].contains(&path);
    let Some(fields) = value.as_object().filter(|_| !is_whole) else {
        return vec![(path.to_owned(), value.clone())];
    };
    let below = |name: &str| format!("{path}.{name}").trim_start_matches('.').to_owned();
    let fields = fields.iter();
    fields
        .flat_map(|(name, value)| leaves(&below(name), value))
        .collect()
}

pub(crate) fn scratch_facts() -> Facts<LanguageFacts> {
    facts(LanguageFacts {
        model: None,
        data: DataFacts {
            read_as: "text".to_owned(),
            tokens: 500_000,
            length_95: 600,
            ..thousand_rows()
        },
        vocab_size: 1000,
    })
}

pub(crate) fn lora_facts() -> Facts<LanguageFacts> {
    let shape = json!({
        "model_type": "llama", "vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "max_position_embeddings": 2048,
    });
    facts(LanguageFacts {
        model: NetworkConfig::from_json(&shape).ok().map(Into::into),
        data: DataFacts {
            read_as: "messages".to_owned(),
            chat: true,
            tokens: 150_000,
            length_95: 300,
            ..thousand_rows()
        },
        vocab_size: 49_152,
    })
}

fn thousand_rows() -> DataFacts {
    DataFacts {
        rows: 1000,
        held_out_rows: 50,
        length_longest: 900,
        longer: vec![(64, 900), (128, 700), (256, 400), (512, 48)],
        ..DataFacts::default()
    }
}

fn facts(task: LanguageFacts) -> Facts<LanguageFacts> {
    let device = device::Choice {
        device: FoundDevice::named(DeviceKind::Cpu, 0, "a processor"),
        reason: "There is no GPU.".to_owned(),
        warnings: Vec::new(),
    };
    Facts {
        task,
        device,
        checked: Checked::default(),
    }
}

/// An adapter on a GPU that computes in bf16 unless something speaks against it.
fn gpu_facts(checked: Checked) -> Facts<LanguageFacts> {
    let mut facts = Facts {
        checked,
        ..lora_facts()
    };
    facts.device.device = FoundDevice {
        compute_capability: Some((9, 0)),
        ..FoundDevice::named(DeviceKind::Cuda, 0, "H100")
    };
    facts
}

/// A request for a new model.
fn new_model() -> Json {
    json!({"data": {"files": ["shakespeare/input.txt"]}})
}

/// A request for an adapter.
fn request() -> Json {
    json!({"model": "smol", "data": {"files": ["chat.jsonl"]}})
}

/// A request with some fields changed.
pub(crate) fn with(mut request: Json, changes: Json) -> Json {
    let fields = request.as_object_mut().unwrap();
    fields.extend(changes.as_object().unwrap().clone());
    request
}

/// Puts a value where a name like `lora.rank` says, making sections on the way.
pub(crate) fn put(tree: &mut Json, name: &str, value: Json) {
    let mut place = tree;
    for section in name.split('.') {
        place = &mut place[section];
    }
    *place = value;
}

/// What is said of a field.
fn reason<'a>(resolved: &'a Resolved<LanguagePlan>, field: &str) -> &'a Reason {
    let reason = resolved.reasons.iter().find(|it| it.field == field);
    reason.unwrap()
}

/// Why a field has its value.
pub(crate) fn why<'a>(resolved: &'a Resolved<LanguagePlan>, field: &str) -> &'a str {
    &reason(resolved, field).why
}

/// A plan for a new model, for tests that change what they need.
pub(crate) fn scratch_plan() -> TrainPlan<LanguagePlan> {
    plan(new_model(), scratch_facts()).plan
}
