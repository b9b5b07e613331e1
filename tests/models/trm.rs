//! Tiny Recursive Models learn as the reference does. The numbers are those of its own modules (`models/` of
//! `SamsungSAILMontreal/TinyRecursiveModels` at e7b6871) in PyTorch on the CPU, from weights and batches that a formula makes.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use models::{
    Result,
    arch::{
        WeightRequest, Weights,
        trm::{PUZZLES, Positions, Squash, Trm, TrmConfig},
    },
    optim::{
        DecayScope, Optimizer, OwnRule, OwnRules, adam_atan2::AdamAtan2, ema::Ema,
        sign_sgd::SignSgd,
    },
    tape::{Gradients, Tape},
    tasks::puzzle::halting::{Carry, NO_LABEL, Row},
};

const ROWS: usize = 4;

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
struct Formula(Vec<String>);

impl Formula {
    fn of(config: &TrmConfig) -> Self {
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
    let mut weights = Formula::of(&config);
    Trm::new(config, &mut weights, DType::F32, &Device::Cpu).unwrap()
}

/// Batch k, counted from 1.
fn batch(k: usize) -> Vec<Arc<Row>> {
    let row = |b: usize| {
        let cells = (0..16).map(|s| 1 + ((7 * b + 3 * s + k) % 10) as u32);
        let label = |s: usize| match b == 2 && s.is_multiple_of(5) {
            true => NO_LABEL,
            false => 1 + ((5 * b + 2 * s + 3 * k) % 10) as u32,
        };
        Arc::new(Row {
            cells: cells.collect(),
            labels: (0..16).map(label).collect(),
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

fn number(tensor: &Tensor) -> f64 {
    let all = tensor.to_dtype(DType::F64).unwrap().sum_all().unwrap();
    all.to_scalar().unwrap()
}

fn norm(tensor: &Tensor) -> f64 {
    number(&tensor.to_dtype(DType::F64).unwrap().sqr().unwrap()).sqrt()
}

#[track_caller]
fn close(what: &str, found: f64, expected: f64, tolerance: f64) {
    let error = (found - expected).abs() / expected.abs();
    assert!(
        error <= tolerance,
        "{what}: {found}, and should be {expected}"
    );
}

/// Ten steps: losses, who halts, and the norms of some gradients of the first.
fn check(mlp_t: bool, expected: &[Step; 10], norms: &[(&str, f64)], sums: [f64; 3]) {
    let model = model(config(mlp_t));
    let parameters = model.parameters();
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
    let mut optimizer =
        Optimizer::with_own_rules(rule.into(), DecayScope::All, parameters, &own).unwrap();
    let mut average = Ema::without(&own, 0.999, parameters).unwrap();
    let mut carry = Carry::new(&model, &batch(1)).unwrap();
    for (k, (loss, halted, steps)) in (1..).zip(expected) {
        carry.refill(&model, &batch(k)).unwrap();
        let tape = Tape::new(0);
        let said = carry
            .think(Some(&tape), &model, 1.0 / ROWS as f64, 0.0)
            .unwrap();
        carry.halt(&model, &said, &vec![0; ROWS]).unwrap();
        let tolerance = if k == 1 { 1e-5 } else { 1e-3 };
        close(
            &format!("loss of step {k}"),
            number(said.loss.tensor()),
            *loss,
            tolerance,
        );
        let digits = |it: &[u32]| it.iter().map(u32::to_string).collect::<String>();
        let now: Vec<u32> = carry.halted.iter().map(|it| u32::from(*it)).collect();
        assert_eq!(
            (digits(&now).as_str(), digits(&carry.steps).as_str()),
            (*halted, *steps),
            "step {k}"
        );

        let mut gradients = Gradients::default();
        tape.backward(&said.loss, 1.0, &mut gradients).unwrap();
        if k == 1 {
            for (name, expected) in norms {
                close(name, norm(gradients.get(name).unwrap()), *expected, 1e-4);
            }
        }
        let rate = 1e-3 * k.min(4) as f64 / 4.0;
        optimizer.step(parameters, &gradients, rate, 1.0).unwrap();
        average.update(parameters).unwrap();
    }
    let size = |tensor: &Tensor| number(&tensor.abs().unwrap());
    let learned = parameters.trainable().filter(|it| it.name() != PUZZLES);
    close(
        "weights",
        learned.map(|it| size(&it.tensor())).sum(),
        sums[0],
        1e-3,
    );
    let averages = average.state().unwrap();
    close("average", averages.values().map(size).sum(), sums[1], 1e-3);
    close(
        "table",
        number(&parameters.get(PUZZLES).unwrap().tensor()),
        sums[2],
        2e-2,
    );
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
    check(true, &MLP, &norms, [10586.069, 10595.449, -0.0338955]);
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
    check(false, &ATTENTION, &norms, [7489.388, 7495.386, -0.0519103]);
}

#[test]
fn thinking_longer_without_learning_says_what_the_reference_says() {
    let model = model(config(true));
    let rows = batch(1);
    let mut carry = Carry::new(&model, &rows).unwrap();
    carry.refill(&model, &rows).unwrap();
    let expected = [
        (2.618682704, -0.03730),
        (2.902435065, 0.03872),
        (2.779508413, 0.67724),
        (2.937320843, 0.86019),
    ];
    for (loss, halt) in expected {
        let said = carry.think(None, &model, 1.0 / ROWS as f64, 0.0).unwrap();
        close("loss", number(said.loss.tensor()), loss, 1e-5);
        let halts: Vec<f32> = said.thought.halt.tensor().to_vec1().unwrap();
        assert!(
            (f64::from(halts[0]) - halt).abs() < 1e-4,
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
        carry.refill(&model, &rows).unwrap();
        number(
            carry
                .think(None, &model, 1.0 / ROWS as f64, 0.0)
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
