//! Tiny Recursive Models learn as the reference does. The numbers are those of its own modules (`models/` of
//! `SamsungSAILMontreal/TinyRecursiveModels` at e7b6871) in PyTorch on the CPU, from weights and batches that a formula makes; what they
//! were not asked is from `tests/goldens/trm.py`, which computes the same as they do.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use models::{
    Result,
    arch::{
        WeightRequest, Weights,
        trm::{PUZZLES, Positions, Squash, State, Trm, TrmConfig},
    },
    ops::kernels,
    optim::{
        DecayScope, Optimizer, OwnRule, OwnRules, Owners, adam_atan2::AdamAtan2, ema::Ema,
        sign_sgd::SignSgd,
    },
    parameters::Parameters,
    tape::{FixedPass, Gradients, Tape},
    tasks::puzzle::halting::{Carry, HALTING, NO_LABEL, Row, Weighing},
};

use serde_json::Value as Json;

const ROWS: usize = 4;

/// What `tests/goldens/trm.py` wrote.
pub(crate) fn golden() -> Json {
    serde_json::from_str(include_str!("../goldens/trm/golden.json")).unwrap()
}

fn config(mlp_t: bool) -> TrmConfig {
    TrmConfig {
        vocab_size: 11,
        seq_len: 16,
        num_puzzle_identifiers: 3,
        hidden_size: 32,
        num_heads: 2,
        expansion: 4.0,
        l_layers: 2,
        h_cycles: 2,
        l_cycles: 2,
        mlp_t,
        pos_encodings: if mlp_t {
            Positions::None
        } else {
            Positions::Rope
        },
        puzzle_emb_ndim: 32,
        puzzle_emb_len: 2,
        halt_max_steps: 4,
        halt_exploration_prob: 0.0,
        rms_norm_eps: 1e-5,
        rope_theta: 1e4,
        loss: Squash::Stablemax,
    }
}

/// Weights by the formula: c sin(0.7 i + 1.3 j + 0.001 i²) for number i of the tensor that is the j-th by name.
pub(crate) struct Formula(Vec<String>);

impl Formula {
    pub(crate) fn of(config: &TrmConfig) -> Self {
        let mut names: Vec<String> = config.weights().into_iter().map(|it| it.0).collect();
        names.sort();
        Self(names)
    }
}

impl Weights for Formula {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        let place = self.0.iter().position(|it| it == request.name).unwrap() as f64;
        let last = *request.shape.last().unwrap() as f64;
        let size = match request.name {
            PUZZLES => 0.05,
            "q_head.bias" => 0.5,
            "H_init" | "L_init" => 1.0,
            _ => 1.4 / last.sqrt(),
        };
        let number = |i: usize| {
            let i = i as f64;
            (size * (0.7 * i + 1.3 * place + 0.001 * i * i).sin()) as f32
        };
        let count: usize = request.shape.iter().product();
        let numbers: Vec<f32> = (0..count).map(number).collect();
        Ok(Tensor::from_vec(numbers, request.shape, &Device::Cpu)?)
    }
}

fn model(config: TrmConfig) -> Trm {
    model_in(DType::F32, config)
}

fn model_in(dtype: DType, config: TrmConfig) -> Trm {
    let mut weights = Formula::of(&config);
    Trm::new(config, &mut weights, dtype, &Device::Cpu).unwrap()
}

/// Batch k, counted from 1.
fn batch(k: usize) -> Vec<Arc<Row>> {
    batch_of(16, k)
}

/// The same of puzzles of so many cells.
fn batch_of(cells: usize, k: usize) -> Vec<Arc<Row>> {
    let count = cells;
    let row = |b: usize| {
        let cells = (0..count).map(|s| 1 + ((7 * b + 3 * s + k) % 10) as u32);
        let label = |s: usize| match b == 2 && s.is_multiple_of(5) {
            true => NO_LABEL,
            false => 1 + ((5 * b + 2 * s + 3 * k) % 10) as u32,
        };
        Arc::new(Row {
            cells: cells.collect(),
            labels: (0..count).map(label).collect(),
            puzzle: ((2 * b + k) % 3) as u32,
        })
    };
    (0..ROWS).map(row).collect()
}

/// What the reference said of a step: loss, halted, steps.
type Step = (f64, &'static str, &'static str);

const MLP: [Step; 10] = [
    (2.618682704, "0100", "1111"),
    (2.916569629, "1110", "2122"),
    (2.736719292, "0000", "1113"),
    (2.665206389, "0001", "2224"),
    (2.830823228, "0001", "3331"),
    (2.470486582, "1110", "4441"),
    (2.649418223, "0000", "1112"),
    (2.692557904, "0000", "2223"),
    (2.732361492, "0001", "3334"),
    (2.525705552, "1110", "4441"),
];
const ATTENTION: [Step; 10] = [
    (2.788856282, "0000", "1111"),
    (2.877781252, "0100", "2222"),
    (2.774149443, "1000", "3133"),
    (2.548868630, "0011", "1244"),
    (2.547254552, "0000", "2311"),
    (2.683144028, "0100", "3422"),
    (2.474609524, "1000", "4133"),
    (2.463703970, "0011", "1244"),
    (2.400539137, "0000", "2311"),
    (2.436425167, "0100", "3422"),
];

pub(crate) fn number(tensor: &Tensor) -> f64 {
    let all = tensor.to_dtype(DType::F64).unwrap().sum_all().unwrap();
    all.to_scalar().unwrap()
}

fn norm(tensor: &Tensor) -> f64 {
    number(&tensor.to_dtype(DType::F64).unwrap().sqr().unwrap()).sqrt()
}

#[track_caller]
pub(crate) fn close(what: &str, found: f64, expected: f64, tolerance: f64) {
    let error = (found - expected).abs() / expected.abs();
    assert!(
        error <= tolerance,
        "{what}: {found}, and should be {expected}"
    );
}

/// The rules that the reference learns by.
fn rules(parameters: &Parameters) -> (Optimizer, OwnRules) {
    let own = OwnRule {
        rule: SignSgd { weight_decay: 0.1 }.into(),
        rate_ratio: 1.0,
    };
    let own = OwnRules::from([(PUZZLES.to_owned(), own)]);
    let rule = AdamAtan2 {
        beta1: 0.9,
        beta2: 0.95,
        weight_decay: 0.1,
    };
    let made = Optimizer::with_own_rules(
        rule.into(),
        DecayScope::All,
        parameters,
        &own,
        Owners::default(),
    );
    (made.unwrap(), own)
}

/// What a step said: its loss, who halted, and after how many steps.
struct Stepped {
    loss: f64,
    halted: String,
    steps: String,
    gradients: Gradients,
}

/// One step of learning from a batch, but for the change of the weights.
fn step(model: &Trm, carry: &mut Carry, offered: &[Arc<Row>], least: &[u32]) -> Stepped {
    carry.refill(|slot| offered[slot].clone());
    let weighing = Weighing {
        slot: 1.0 / ROWS as f64,
        smoothing: 0.0,
        halting: HALTING,
    };
    let spans = model.spans(ROWS);
    let thinking = carry.thinking(model.clone(), spans, weighing, false);
    let thinking = thinking.unwrap();
    let tape = Tape::new(0);
    let loss = thinking.loss(&tape).unwrap();
    let [answer, thoughts, wants] = <[Tensor; 3]>::try_from(thinking.take_left()).unwrap();
    carry.thought(State { answer, thoughts });
    let most = model.config().halt_max_steps;
    carry.halt(most, &wants.to_vec1().unwrap(), &least.to_vec());
    let mut gradients = Gradients::default();
    tape.backward(&loss, 1.0, &mut gradients).unwrap();
    let digits = |it: &[u32]| it.iter().map(u32::to_string).collect::<String>();
    let now: Vec<u32> = carry.halted.iter().map(|it| u32::from(*it)).collect();
    Stepped {
        loss: number(loss.tensor()),
        halted: digits(&now),
        steps: digits(&carry.steps),
        gradients,
    }
}

fn rate(k: usize) -> f64 {
    1e-3 * k.min(4) as f64 / 4.0
}

pub(crate) fn numbers(value: &Json) -> Vec<f64> {
    let all = value.as_array().unwrap().iter();
    all.map(|it| it.as_f64().unwrap()).collect()
}

pub(crate) fn flat(tensor: &Tensor) -> Vec<f64> {
    let tensor = tensor.to_dtype(DType::F64).unwrap();
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// Every so many-th number of a tensor, and its norm, within a share of its largest.
#[track_caller]
pub(crate) fn sampled(name: &str, tensor: &Tensor, expected: &Json, tolerance: f64) {
    let (all, values) = (flat(tensor), numbers(&expected["values"]));
    close(
        name,
        norm(tensor),
        expected["norm"].as_f64().unwrap(),
        tolerance,
    );
    let every = (all.len() / 24).max(1);
    let found: Vec<f64> = all.iter().copied().step_by(every).collect();
    assert_eq!(found.len(), values.len(), "{name}");
    let largest = all.iter().fold(0.0, |most: f64, it| most.max(it.abs()));
    for (found, value) in found.iter().zip(&values) {
        assert!(
            (found - value).abs() <= tolerance * largest,
            "{name}: {found}, and should be {value}"
        );
    }
}

/// Ten steps: losses, who halts, the gradients of the first, and what was learned.
fn check(golden_name: &str, expected: &[Step; 10], norms: &[(&str, f64)], sums: [f64; 3]) {
    let golden = &golden()[golden_name];
    let model = model(config(golden_name == "mlp_t"));
    let parameters = model.parameters();
    let (mut optimizer, own) = rules(parameters);
    let mut average = Ema::without(&own, 0.999, parameters).unwrap();
    let mut carry = Carry::new(&model, &batch(1)).unwrap();
    for (k, (loss, halted, steps)) in (1..).zip(expected) {
        let said = step(&model, &mut carry, &batch(k), &[0; ROWS]);
        let tolerance = if k == 1 { 1e-5 } else { 1e-3 };
        close(&format!("loss of step {k}"), said.loss, *loss, tolerance);
        let found = (said.halted.as_str(), said.steps.as_str());
        assert_eq!(found, (*halted, *steps), "step {k}");
        if k == 1 {
            for (name, expected) in norms {
                let gradient = said.gradients.get(name).unwrap();
                close(name, norm(gradient), *expected, 1e-4);
            }
            for (name, expected) in golden["gradients"].as_object().unwrap() {
                sampled(name, said.gradients.get(name).unwrap(), expected, 1e-4);
            }
        }
        let moved = optimizer.step(parameters, &said.gradients, rate(k), 1.0);
        moved.unwrap();
        average.update(parameters).unwrap();
    }
    let size = |tensor: &Tensor| number(&tensor.abs().unwrap());
    let learned = parameters.trainable().filter(|it| it.name() != PUZZLES);
    let learned = learned.map(|it| size(&it.tensor())).sum();
    close("weights", learned, sums[0], 1e-3);
    let averages = average.state().unwrap();
    close("average", averages.values().map(size).sum(), sums[1], 1e-3);
    for (name, expected) in golden["after"].as_object().unwrap() {
        sampled(
            name,
            &parameters.get(name).unwrap().tensor(),
            expected,
            5e-3,
        );
        sampled(name, &averages[name], &golden["average"][name], 1e-4);
    }
    let table = flat(&parameters.get(PUZZLES).unwrap().tensor());
    close("table", table.iter().sum(), sums[2], 7e-2);
    // A gradient next to 0 can go the other way by rounding.
    let expected = numbers(&golden["table"]);
    let far = table.iter().zip(&expected);
    let far: Vec<f64> = far.map(|(found, it)| (found - it).abs()).collect();
    assert!(far.iter().filter(|it| **it > 1e-6).count() <= 2, "{far:?}");
    assert!(far.iter().all(|it| *it < 2.01e-3), "{far:?}");
}

#[test]
fn ten_steps_with_products_along_the_sequence_are_those_of_the_reference() {
    let norms = [
        ("embed_tokens.embedding_weight", 0.7000951),
        ("lm_head.weight", 0.4394334),
        ("q_head.weight", 0.6840549),
        ("q_head.bias", 0.2278331),
        ("L_level.layers.0.mlp_t.gate_up_proj.weight", 1.462703),
        ("L_level.layers.0.mlp_t.down_proj.weight", 3.428452),
        ("L_level.layers.0.mlp.gate_up_proj.weight", 1.023517),
        ("L_level.layers.0.mlp.down_proj.weight", 1.964845),
        ("L_level.layers.1.mlp_t.gate_up_proj.weight", 0.6998872),
        ("L_level.layers.1.mlp_t.down_proj.weight", 1.764442),
        ("L_level.layers.1.mlp.gate_up_proj.weight", 0.8516830),
        ("L_level.layers.1.mlp.down_proj.weight", 1.572493),
    ];
    check("mlp_t", &MLP, &norms, [10586.069, 10595.449, -0.0338955]);
}

#[test]
fn ten_steps_with_attention_are_those_of_the_reference() {
    let norms = [
        ("embed_tokens.embedding_weight", 0.1114280),
        ("lm_head.weight", 0.5939490),
        ("q_head.weight", 0.9984701),
        ("q_head.bias", 0.1787987),
        ("L_level.layers.0.self_attn.qkv_proj.weight", 0.5475048),
        ("L_level.layers.0.self_attn.o_proj.weight", 0.8146257),
        ("L_level.layers.0.mlp.gate_up_proj.weight", 0.8061819),
        ("L_level.layers.0.mlp.down_proj.weight", 1.502692),
        ("L_level.layers.1.self_attn.qkv_proj.weight", 0.6599044),
        ("L_level.layers.1.self_attn.o_proj.weight", 0.7666348),
        ("L_level.layers.1.mlp.gate_up_proj.weight", 0.5805484),
        ("L_level.layers.1.mlp.down_proj.weight", 1.345200),
    ];
    check(
        "attention",
        &ATTENTION,
        &norms,
        [7489.388, 7495.386, -0.0519103],
    );
}

#[test]
fn thinking_longer_without_learning_says_what_the_reference_says() {
    let model = model(config(true));
    let rows = batch(1);
    let mut carry = Carry::new(&model, &rows).unwrap();
    carry.refill(|slot| rows[slot].clone());
    // Each step multiplies what was rounded before it: composed from candle's kernels or with ours, which agree to 1e-7 in every
    // step that begins the same, the fourth differs by 2e-5 when all four are done either way.
    let expected = [
        (2.618682704, -0.03730, 1e-6),
        (2.902435065, 0.03872, 1e-6),
        (2.779508413, 0.67724, 1e-5),
        (2.937320843, 0.86019, 5e-5),
    ];
    for (loss, halt, tolerance) in expected {
        let said = carry.think(&model, 1.0 / ROWS as f64, 0.0).unwrap();
        close("loss", number(said.loss.tensor()), loss, tolerance);
        let halts: Vec<f32> = said.thought.halt.tensor().to_vec1().unwrap();
        assert!(
            (f64::from(halts[0]) - halt).abs() < 100.0 * tolerance,
            "{halts:?} {halt}"
        );
    }
}

#[test]
fn other_switches_begin_as_in_the_reference() {
    let first = |config: TrmConfig| {
        let model = model(config);
        let rows = batch(1);
        let mut carry = Carry::new(&model, &rows).unwrap();
        carry.refill(|slot| rows[slot].clone());
        number(
            carry
                .think(&model, 1.0 / ROWS as f64, 0.0)
                .unwrap()
                .loss
                .tensor(),
        )
    };
    for (mlp_t, without, learned) in [(true, 2.816362, 2.897048), (false, 2.957212, 2.957551)] {
        let no_puzzles = TrmConfig {
            puzzle_emb_ndim: 0,
            puzzle_emb_len: 0,
            ..config(mlp_t)
        };
        close(
            "without vectors of puzzles",
            first(no_puzzles),
            without,
            1e-5,
        );
        let places = TrmConfig {
            pos_encodings: Positions::Learned,
            ..config(mlp_t)
        };
        close("with learned places", first(places), learned, 1e-5);
    }
    let count = |mlp_t| {
        let weights = config(mlp_t).weights().into_iter();
        let learned = weights.filter(|it| !it.0.ends_with("_init") && it.0 != PUZZLES);
        learned
            .map(|it| it.1.iter().product::<usize>())
            .sum::<usize>()
    };
    assert_eq!([count(true), count(false)], [77_570, 58_114]);
}

/// The loss of the first step of a model.
fn first_loss(dtype: DType, config: TrmConfig) -> f64 {
    let model = model_in(dtype, config);
    let rows = batch(1);
    let mut carry = Carry::new(&model, &rows).unwrap();
    carry.refill(|slot| rows[slot].clone());
    let said = carry.think(&model, 1.0 / ROWS as f64, 0.0).unwrap();
    number(said.loss.tensor())
}

#[test]
fn the_first_step_in_narrow_numbers_is_nearly_that_of_the_reference() {
    for (name, mlp_t) in [("mlp_t", true), ("attention", false)] {
        let expected = golden()[name]["bf16"].as_f64().unwrap();
        let found = first_loss(DType::BF16, config(mlp_t));
        close(name, found, expected, 3e-3);
        // As on a processor, where only what products multiply is narrow.
        let _narrowed = kernels::choose(&[], true).unwrap();
        let found = first_loss(DType::F32, config(mlp_t));
        close(name, found, expected, 3e-3);
    }
}

#[test]
fn no_number_of_places_leaves_as_many_as_a_vector_of_a_puzzle_takes() {
    for (name, mlp_t) in [("mlp_t", true), ("attention", false)] {
        let config = TrmConfig {
            puzzle_emb_ndim: 48,
            puzzle_emb_len: 0,
            ..config(mlp_t)
        };
        assert_eq!(config.places(), 18);
        let expected = golden()[name]["places_from_0"].as_f64().unwrap();
        close(name, first_loss(DType::F32, config), expected, 1e-5);
    }
}

#[test]
fn heads_that_can_not_be_turned_in_pairs_are_refused() {
    let odd = |mlp_t| TrmConfig {
        num_heads: config(mlp_t).hidden_size,
        ..config(mlp_t)
    };
    let refused = odd(false).check().unwrap_err().to_string();
    assert!(refused.contains("makes heads of 1 of"), "{refused}");
    // Nothing is turned along the grid where no layer attends.
    odd(true).check().unwrap();
}

#[test]
fn the_norm_along_97_places_is_that_of_the_reference() {
    let golden = &golden()["wide"];
    let model = model(TrmConfig {
        seq_len: 81,
        puzzle_emb_len: 16,
        hidden_size: 64,
        puzzle_emb_ndim: 64,
        ..config(true)
    });
    let mut carry = Carry::new(&model, &batch_of(81, 1)).unwrap();
    let said = step(&model, &mut carry, &batch_of(81, 1), &[0; ROWS]);
    close("loss", said.loss, golden["loss"].as_f64().unwrap(), 1e-5);
    for (name, expected) in golden["gradients"].as_object().unwrap() {
        let gradient = said.gradients.get(name).unwrap();
        close(name, norm(gradient), expected.as_f64().unwrap(), 1e-4);
    }
}

#[test]
fn exploring_delays_halting_as_in_the_reference() {
    let golden = &golden()["exploration"];
    let model = model(config(true));
    let (mut optimizer, _) = rules(model.parameters());
    let mut carry = Carry::new(&model, &batch(1)).unwrap();
    let draws = golden["draws"].as_array().unwrap();
    let steps = golden["steps"].as_array().unwrap();
    for (k, (draws, expected)) in (1..).zip(draws.iter().zip(steps)) {
        let least = draws.as_array().unwrap().iter();
        let least: Vec<u32> = least
            .map(|draw| match draw[0].as_bool().unwrap() {
                true => draw[1].as_u64().unwrap() as u32,
                false => 0,
            })
            .collect();
        let said = step(&model, &mut carry, &batch(k), &least);
        close("loss", said.loss, expected["loss"].as_f64().unwrap(), 1e-3);
        let found = [said.halted.as_str(), said.steps.as_str()];
        assert_eq!(found, [&expected["halted"], &expected["steps"]], "step {k}");
        let moved = optimizer.step(model.parameters(), &said.gradients, rate(k), 1.0);
        moved.unwrap();
    }
}

#[test]
fn slots_of_one_puzzle_move_its_vector_once_and_others_stay() {
    let golden = &golden()["equal_ids"];
    let ids = numbers(&golden["ids"]);
    let model = model(config(true));
    let (mut optimizer, _) = rules(model.parameters());
    let rows = |k| {
        let rows = batch(k).into_iter().zip(&ids);
        let row = |(row, id): (Arc<Row>, &f64)| {
            Arc::new(Row {
                puzzle: *id as u32,
                ..(*row).clone()
            })
        };
        rows.map(row).collect::<Vec<_>>()
    };
    let mut carry = Carry::new(&model, &rows(1)).unwrap();
    for (k, loss) in (1..).zip(numbers(&golden["losses"])) {
        let said = step(&model, &mut carry, &rows(k), &[0; ROWS]);
        close("loss", said.loss, loss, 1e-4);
        if k == 1 {
            let found = flat(said.gradients.get(PUZZLES).unwrap());
            for (found, expected) in found.iter().zip(numbers(&golden["gradient"])) {
                assert!((found - expected).abs() < 1e-6, "{found} {expected}");
            }
        }
        let moved = optimizer.step(model.parameters(), &said.gradients, rate(k), 1.0);
        moved.unwrap();
    }
    let table = flat(&model.parameters().get(PUZZLES).unwrap().tensor());
    for (found, expected) in table.iter().zip(numbers(&golden["table"])) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
}

#[test]
fn a_carried_puzzle_decays_also_when_nothing_is_learned_from_it() {
    let model = model(config(true));
    let parameters = model.parameters();
    // Without labels, and with a head of halting that hears nothing, no gradient reaches the table.
    let head = parameters.get("q_head.weight").unwrap();
    head.assign(&head.tensor().zeros_like().unwrap()).unwrap();
    let row = |row: Arc<Row>, puzzle| {
        Arc::new(Row {
            labels: vec![NO_LABEL; 16],
            puzzle,
            ..(*row).clone()
        })
    };
    let rows: Vec<_> = batch(1)
        .into_iter()
        .zip([1, 1, 0, 1])
        .map(|(it, id)| row(it, id))
        .collect();
    let mut carry = Carry::new(&model, &rows).unwrap();
    let said = step(&model, &mut carry, &rows, &[0; ROWS]);
    assert_eq!(norm(said.gradients.get(PUZZLES).unwrap()), 0.0);
    let table = parameters.get(PUZZLES).unwrap();
    let before = flat(&table.tensor());
    let (mut optimizer, _) = rules(parameters);
    optimizer
        .step(parameters, &said.gradients, 0.5, 1.0)
        .unwrap();
    for (index, (after, before)) in flat(&table.tensor()).iter().zip(before).enumerate() {
        let kept = if index / 32 == 2 { 1.0 } else { 0.95 };
        assert!(
            (after - before * kept).abs() < 1e-7,
            "{index}: {before} {after}"
        );
    }
}
