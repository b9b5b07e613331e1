//! What fits into memory, what would make it fit, and what a trial says of a whole run.

use models::{
    arch::network::NetworkConfig,
    device::{DeviceKind, FoundDevice},
    tasks::language::{Language, LanguageFacts, LanguagePlan, plan::ModelShape, request::Preset},
    train::{
        Facts, Kind, Resolved, TrainPlan,
        fit::{most_rows, room, with_rows},
        forecast::{Forecast, Trial, TriedSize},
    },
};
use serde_json::{Value as Json, json};

use crate::plan::{lora_facts, put, scratch_facts, scratch_plan, why, with};

const GB: u64 = 1_000_000_000;
const ROUNDING: &str = "rounding to powers of two";

#[test]
fn the_rows_that_nobody_asked_for_are_the_most_that_fit_and_an_update_stays_what_it_is() {
    // 32 rows of an update on a card, and what is free there.
    let cases = [
        (1000 * GB, 16, 2),
        (30 * GB, 16, 2),
        (20 * GB, 8, 4),
        (12 * GB, 4, 8),
        (7 * GB, 2, 16),
        (5_400_000_000, 1, 32),
    ];
    for (free, rows, accumulate) in cases {
        let resolved = plan(json!({}), small_on(DeviceKind::Cuda, Some(free)));
        let batch = &resolved.plan.run.batch;
        assert_eq!((batch.rows, batch.accumulate), (rows, accumulate), "{free}");
        assert_eq!(resolved.plan.run.evaluate.batches * rows, 20 * 16, "{free}");
        let fit = resolved.fit.unwrap();
        assert!(
            fit.fits && fit.needed_bytes <= room(free),
            "{free}: {fit:?}"
        );
    }
    let resolved = plan(json!({}), small_on(DeviceKind::Cuda, Some(12 * GB)));
    let why = |field: &str| why(&resolved, field);
    assert_eq!(
        why("batch.rows"),
        "The largest that fits in 12.0 GB free with 20 % to spare."
    );
    assert_eq!(
        why("batch.accumulate"),
        "So that an update still sees 32 rows."
    );
    assert_eq!(why("evaluate.batches"), "As many rows as 20 batches of 16.");
}

#[test]
fn rows_that_were_asked_for_are_kept_and_what_is_free_may_be_unknown() {
    let asked = json!({"batch": {"rows": 16}});
    let resolved = plan(asked, small_on(DeviceKind::Cuda, Some(12 * GB)));
    assert_eq!(resolved.plan.run.batch.rows, 16);
    assert!(!resolved.fit.unwrap().fits);
    let resolved = plan(json!({}), small_on(DeviceKind::Cuda, None));
    assert_eq!((resolved.plan.run.batch.rows, resolved.fit), (16, None));
    assert!(resolved.estimate.is_some());
}

#[test]
fn devices_share_the_optimizer_where_a_run_would_not_fit_otherwise_and_nobody_says_so() {
    let shared = |asked: Json, free: u64| {
        let resolved = plan(asked, small_on(DeviceKind::Cuda, Some(free)));
        let optimizer_bytes = resolved.estimate.as_ref().unwrap().part("optimizer");
        (resolved.plan.run.shard, optimizer_bytes, resolved)
    };
    let (is_shared, whole, _) = shared(json!({"devices": 2}), 1000 * GB);
    assert!(!is_shared);
    let (is_shared, half, resolved) = shared(json!({"devices": 2}), 12 * GB);
    assert!(is_shared && half == whole / 2, "{half} {whole}");
    assert_eq!(
        why(&resolved, "shard"),
        "Each device keeps its part of the optimizer’s 982 MB, since all of it does not fit in 12.0 GB free with 20 % to spare."
    );
    for (asked, expected) in [
        (json!({"devices": 2, "shard": false}), false),
        (json!({"devices": 1}), false),
        (json!({}), false),
    ] {
        let (is_shared, kept, _) = shared(asked.clone(), 12 * GB);
        assert_eq!((is_shared, kept), (expected, whole), "{asked}");
    }
    // A table is not divided: the device that has it keeps more than its part.
    let (is_shared, kept, _) = shared(json!({"devices": 64, "shard": true}), 1000 * GB);
    assert!(is_shared && kept > whole / 4 && kept < whole / 2, "{kept}");
}

#[test]
fn a_batch_that_is_asked_for_in_full_needs_fewer_rows_only_where_they_divide_it() {
    let facts = small_on(DeviceKind::Cuda, None);
    let asked = json!({"batch": {"rows": 6, "accumulate": 1}});
    let whole = plan(asked, facts.clone()).plan;
    let config = facts.task.shape(&whole.task).unwrap();
    let needed = |rows| Language::estimate(&with_rows(&whole, rows), &config).bytes();
    for (bytes, most) in [
        (needed(6), Some(6)),
        (needed(6) - 1, Some(3)),
        (needed(3) - 1, Some(2)),
        (needed(2) - 1, Some(1)),
        (needed(1) - 1, None),
    ] {
        assert_eq!(most_rows::<Language>(&whole, &config, bytes), most);
    }
}

#[test]
fn the_ways_to_make_a_run_fit_come_in_the_order_of_what_they_cost() {
    let full = json!({"model": "m", "method": "full", "batch": {"rows": 8, "length": 1024}});
    let lora =
        json!({"model": "m", "batch": {"rows": 8, "length": 1024}, "dtype": {"storage": "f32"}});
    let cases: [(&Json, f64, &[&str]); 8] = [
        (&full, 10.0, &[]),
        (
            &full,
            8.0,
            &[
                "4 rows at once instead of 8: learns the same",
                "gradient checkpointing: 33 % slower",
                "rows of 512 instead of 1,024: cuts 48 rows",
                "an adapter instead of all weights: can learn less",
            ],
        ),
        // Where no single change is enough, the cheapest that are together; and no rows of 128, which cut most of them.
        (
            &full,
            3.5,
            &[
                "gradient checkpointing: 33 % slower, and 2 rows at once instead of 8: learns the same",
            ],
        ),
        (
            &full,
            2.5,
            &[
                "gradient checkpointing: 33 % slower, and AdamW in 8 bits keeps 548 MB less: nearly the same steps, and 1 row at once instead of \
                 8: learns the same",
            ],
        ),
        (
            &full,
            2.0,
            &[
                "an adapter instead of all weights: can learn less, and 1 row at once instead of 8: learns the same",
            ],
        ),
        (&full, 0.1, &[]),
        (
            &lora,
            4.0,
            &[
                "2 rows at once instead of 8: learns the same",
                "gradient checkpointing: 50 % slower",
                "rows of 256 instead of 1,024: cuts 400 rows",
            ],
        ),
        (
            &lora,
            0.8,
            &[
                "gradient checkpointing: 50 % slower, and frozen weights in bf16 instead of f32: fewer digits, and 1 row at once \
               instead of 8: learns the same",
            ],
        ),
    ];
    for (request, free, expected) in cases {
        let facts = model_on(DeviceKind::Cpu, (free * GB as f64) as u64);
        let fit = plan(request.clone(), facts).fit.unwrap();
        let words: Vec<&str> = fit.fixes.iter().map(|fix| fix.message.as_str()).collect();
        assert_eq!(words, expected, "{free}: {}", fit.refusal());
    }
}

#[test]
fn each_way_is_a_change_of_the_run_file_after_which_it_fits() {
    let lora = json!({"model": "m", "batch": {"rows": 8, "length": 1024}});
    let full = with(lora.clone(), json!({"method": "full"}));
    for (free, request) in [(8.0, &full), (3.0, &full), (1.3, &lora)] {
        let free = (free * GB as f64) as u64;
        let facts = model_on(DeviceKind::Cpu, free);
        let fit = plan(request.clone(), facts.clone()).fit.unwrap();
        assert!(!fit.fits && !fit.fixes.is_empty(), "{free}");
        for fix in fit.fixes {
            let mut changed = request.clone();
            changed["data"] = json!({"files": ["a.txt"]});
            for change in &fix.changes {
                let value = serde_json::from_str(&change.value);
                let value = value.unwrap_or_else(|_| json!(change.value));
                put(&mut changed, &change.field, value);
            }
            let after = plan(changed, facts.clone()).fit.unwrap();
            assert!(after.fits, "{}", fix.message);
            assert_eq!(after.needed_bytes, fix.needed_bytes, "{}", fix.message);
        }
    }
}

#[test]
fn an_allocator_of_powers_of_two_loses_nothing_where_all_sizes_are_such() {
    let sizes = |hidden: usize, vocab: usize, length: usize| {
        json!({"batch": {"rows": 2, "length": length}, "scratch": {"config": {
            "model_type": "llama", "hidden_size": hidden, "intermediate_size": 2 * hidden,
            "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 2048, "vocab_size": vocab, "tie_word_embeddings": true}}})
    };
    let lost = |request| {
        let mut facts = small_on(DeviceKind::Metal, None);
        facts.task.vocab_size = 4096;
        let estimate = plan(request, facts).estimate.unwrap();
        let rounding_bytes = estimate.part(ROUNDING);
        rounding_bytes as f64 / (estimate.bytes() - rounding_bytes) as f64
    };
    assert_eq!(lost(sizes(256, 4096, 512)), 0.0);
    let odd = lost(sizes(264, 4100, 520));
    assert!((0.3..1.0).contains(&odd), "{odd}");
    let on_a_card = plan(sizes(264, 49_160, 520), small_on(DeviceKind::Cuda, None));
    assert_eq!(on_a_card.estimate.unwrap().part(ROUNDING), 0);
}

#[test]
fn a_long_sample_counts_where_its_keys_and_values_are_more_than_a_step_keeps() {
    let of = |tokens: usize| {
        let request = json!({"batch": {"rows": 1, "length": 64}, "sample": {"tokens": tokens}});
        plan(request, small_on(DeviceKind::Cpu, None))
            .estimate
            .unwrap()
            .part("keys and values of a sample")
    };
    assert_eq!(of(10), 0);
    let (many, more) = (of(100_000), of(200_000));
    // Keys and values of 12 layers of 12 heads of 64 numbers.
    assert_eq!(more - many, 100_000 * 2 * 12 * 768 * 4);
}

#[test]
fn a_forecast_is_the_line_through_two_sizes() {
    let (plan, config) = tried_plan();
    let forecast = Forecast::new(&plan.run, &needed(&plan, &config), &trial()).unwrap();
    assert!(forecast.whole);
    assert_eq!(forecast.steps_tried, 5);
    // 256 tokens took 300 MB and 60 ms, 1024 took 1068 MB and 180 ms.
    assert_eq!(forecast.bytes_per_unit, Some(1e6));
    assert_eq!(forecast.fixed_bytes, Some(44_000_000));
    assert_eq!(forecast.peak_bytes, Some(1_068_000_000));
    assert_eq!(
        (forecast.millis_per_unit, forecast.fixed_millis),
        (0.15625, 20.0)
    );
    // Two batches of 900 tokens on average, and the update.
    assert_eq!(forecast.step_millis, 2.0 * (20.0 + 900.0 * 0.15625) + 7.0);
    // Evaluated, written and saved at 0, 10, 20 and 25.
    let evaluation = 4.0 * 3.0 * 50.0 + 4.0 * 400.0 + 4.0 * 30.0;
    assert_eq!(forecast.evaluation_seconds, evaluation / 1e3);
    let seconds = (25.0 * forecast.step_millis + 2.0 * 40.0 + evaluation) / 1e3;
    assert!((forecast.seconds - seconds).abs() < 1e-9);

    // Each of two devices computes one of the two batches, and two of three batches of an evaluation.
    let mut shared = plan.run.clone();
    shared.devices = 2;
    let of_two = Forecast::new(&shared, &needed(&plan, &config), &trial()).unwrap();
    assert_eq!(of_two.step_millis, 20.0 + 900.0 * 0.15625 + 7.0);
    let evaluation = 4.0 * 2.0 * 50.0 + 4.0 * 400.0 + 4.0 * 30.0;
    assert_eq!(of_two.evaluation_seconds, evaluation / 1e3);
}

#[test]
fn a_forecast_of_what_did_not_fit_follows_from_the_smaller_size_and_the_estimate() {
    let (plan, config) = tried_plan();
    let mut trial = trial();
    trial.sizes.pop();
    trial.peak_bytes = Some(300_000_000);
    let forecast = Forecast::new(&plan.run, &needed(&plan, &config), &trial).unwrap();
    assert!(!forecast.whole);
    let mut small = plan.clone();
    (small.run.batch.rows, small.run.batch.length) = (1, 256);
    let estimated = |plan| Language::estimate(plan, &config).bytes();
    let expected = 300_000_000 + estimated(&plan) - estimated(&small);
    let peak = forecast.peak_bytes.unwrap();
    assert!(peak.abs_diff(expected) <= 1, "{peak} {expected}");

    trial.sizes.pop();
    assert_eq!(
        Forecast::new(&plan.run, &needed(&plan, &config), &trial),
        None
    );
}

#[test]
fn a_forecast_knows_no_memory_where_nobody_counts_and_no_slope_below_zero() {
    let (plan, config) = tried_plan();
    let mut trial = trial();
    trial.peak_bytes = None;
    for size in &mut trial.sizes {
        size.peak_bytes = None;
        // The larger size was the faster one: the machine had other work before.
        size.pass_millis = 200.0 - size.units() as f64 / 10.0;
    }
    let forecast = Forecast::new(&plan.run, &needed(&plan, &config), &trial).unwrap();
    assert_eq!((forecast.peak_bytes, forecast.fixed_bytes), (None, None));
    assert_eq!(forecast.millis_per_unit, 0.0);
    // What was tried at the run's own size is kept.
    assert_eq!(forecast.fixed_millis, 200.0 - 102.4);
}

fn trial() -> Trial {
    let size = |rows, steps, pass_millis, peak_bytes| TriedSize {
        rows,
        length: 256,
        steps,
        pass_millis,
        update_millis: 7.0,
        warm_up_millis: 40.0,
        peak_bytes: Some(peak_bytes),
    };
    Trial {
        opening_seconds: 1.5,
        peak_bytes: Some(900_000_000),
        sizes: vec![
            size(1, 3, 60.0, 300_000_000),
            size(4, 2, 180.0, 1_068_000_000),
        ],
        mean_units: 900.0,
        row_length: 256,
        evaluation: Some((50.0, 3)),
        sample_millis: Some(400.0),
        save_millis: Some(30.0),
        own: None,
    }
}

fn tried_plan() -> (TrainPlan<LanguagePlan>, ModelShape) {
    let mut plan = scratch_plan();
    plan.run.steps = 25;
    plan.run.evaluate.every = 10;
    plan.run.sample.every = 20;
    plan.run.save.every = 10;
    let config = scratch_facts().task.shape(&plan.task).unwrap();
    (plan, config)
}

/// What a plan takes with other rows.
fn needed(plan: &TrainPlan<LanguagePlan>, config: &ModelShape) -> impl Fn(usize, usize) -> u64 {
    let (plan, config) = (plan.clone(), config.clone());
    move |rows, length| {
        let mut plan = plan.clone();
        (plan.run.batch.rows, plan.run.batch.length) = (rows, length);
        Language::estimate(&plan, &config).bytes()
    }
}

/// A new model of the largest preset, where so much is free.
fn small_on(kind: DeviceKind, free_bytes: Option<u64>) -> Facts<LanguageFacts> {
    let mut facts = scratch_facts();
    facts.task.vocab_size = 49_152;
    facts.task.data.tokens = 50_000_000;
    on_device(facts, kind, free_bytes)
}

fn on_device(
    mut facts: Facts<LanguageFacts>,
    kind: DeviceKind,
    free_bytes: Option<u64>,
) -> Facts<LanguageFacts> {
    facts.device.device = FoundDevice {
        free_bytes,
        ..FoundDevice::named(kind, 0, "a device")
    };
    facts
}

/// An existing model of that shape.
fn model_on(kind: DeviceKind, free_bytes: u64) -> Facts<LanguageFacts> {
    let config = NetworkConfig::from_json(&Json::Object(Preset::Small.config())).unwrap();
    let mut facts = lora_facts();
    facts.task.model = Some(config.into());
    on_device(facts, kind, Some(free_bytes))
}

#[track_caller]
fn plan(changes: Json, facts: Facts<LanguageFacts>) -> Resolved<LanguagePlan> {
    let mut request = json!({"data": {"files": ["a.txt"]}});
    if facts.task.model.is_none() {
        request["scratch"] = json!({"preset": "small"});
    }
    crate::plan::plan(with(request, changes), facts)
}
