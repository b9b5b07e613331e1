//! Directions of probes: what they are, how a model is led along them, what that costs, and how other programs get them.

use std::{cell::RefCell, fs::File, ops::ControlFlow, rc::Rc};

use candle_core::{Device, Tensor, quantized::gguf_file};
use models::{
    Result,
    arch::{decoder::Input, kv_cache::KvCache, network::Network, sites::Site, steering::Steering},
    generate::{Answer, Generator, Limits, Watch, sample::SamplingSettings},
    tasks::{
        language::model::LanguageModel,
        probe::{
            control_vector,
            direction::{Direction, MadeOf},
            fitting::Solver,
            folder::Probes,
            split::Part,
            states::{About, Position},
            steer::{How, Measured, cost, steering},
            study::Settings,
        },
    },
};
use serde_json::json;

use crate::{
    capture::{model, open},
    hostile::repository,
    probe_study::{Made, about, quick},
};

/// Probes of made-up states, of one label, planted at the second of three sites.
fn planted(solver: Solver) -> (Made, Probes) {
    let made = Made::noise(600, 3, 16, 0.3, 6).plant(1, 2.5);
    let settings = Settings { solver, ..quick() };
    let states = About {
        sites: (0..3).map(Site::Block).collect(),
        width: 16,
        blocks: 3,
        position: Position::Last,
        ..about()
    };
    let probes = Probes::learned(&made.study(&settings), (&made.examples, &states));
    (made, probes)
}

fn direction(solver: Solver) -> Direction {
    let (_, probes) = planted(solver);
    probes.direction(probes.place_of(None).unwrap()).unwrap()
}

#[test]
fn a_probe_points_along_the_difference_of_means_or_along_its_weights() {
    let (made, probes) = planted(Solver::MeanDifference);
    let place = probes.place_of(Some("yes")).unwrap();
    let found = probes.direction(place).unwrap();
    assert_eq!(
        (found.site, found.made_of),
        (Site::Block(1), MadeOf::MeanDifference)
    );

    let rows = made.examples.of_part(Part::Train);
    let row = |row: usize| &made.sites[1][row * 16..][..16];
    let mean = |positive: bool, column: usize| {
        let own = rows
            .iter()
            .filter(|it| made.examples.positive[0][**it] == positive);
        let own: Vec<f64> = own.map(|it| f64::from(row(*it)[column])).collect();
        own.iter().sum::<f64>() / own.len() as f64
    };
    let difference: Vec<f64> = (0..16).map(|it| mean(true, it) - mean(false, it)).collect();
    let length = difference.iter().map(|it| it * it).sum::<f64>().sqrt();
    for (found, expected) in found.unit.iter().zip(&difference) {
        assert!((f64::from(*found) - expected / length).abs() < 1e-5);
    }

    let (_, probes) = planted(Solver::Exact);
    let place = probes.place_of(None).unwrap();
    let found = probes.direction(place).unwrap();
    assert_eq!(found.made_of, MadeOf::Weights);
    let (weights, _) = probes.weights(place);
    let length = weights.iter().map(|it| it * it).sum::<f32>().sqrt();
    for (found, weight) in found.unit.iter().zip(weights) {
        assert!((found - weight / length).abs() < 1e-6);
    }
    // An older folder does not say it.
    let mut older = probes;
    older.about.solver = None;
    assert_eq!(
        older.direction(place).unwrap().made_of,
        MadeOf::UnknownWeights
    );
    let refused = older.place_of(Some("no")).unwrap_err().to_string();
    assert_eq!(refused, "there is no probe of `no`; there are `yes`");
    older.about.states.position = Position::Max;
    let refused = older.direction(place).unwrap_err().to_string();
    assert!(refused.contains("reads the largest values"), "{refused}");
}

#[test]
fn a_control_vector_is_what_llama_cpp_adds_after_the_block_of_the_probe() {
    let (_, probes) = planted(Solver::Exact);
    let place = probes.place_of(None).unwrap();
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("yes.gguf");
    let written = control_vector::export(&probes, place, 7.5, &path).unwrap();
    let mut file = File::open(&path).unwrap();
    let content = gguf_file::Content::read(&mut file).unwrap();
    let text = |name: &str| content.metadata[name].to_string().unwrap().clone();
    assert_eq!(text("general.architecture"), "controlvector");
    assert_eq!(
        text("controlvector.model_hint"),
        probes.about.states.model.family
    );
    assert_eq!(
        content.metadata["controlvector.layer_count"]
            .to_i32()
            .unwrap(),
        2
    );
    assert_eq!(content.tensor_infos.len(), 1);
    let tensor = content
        .tensor(&mut file, "direction.1", &Device::Cpu)
        .unwrap();
    assert_eq!(tensor.shape().dims(), [16]);
    let numbers = tensor.dequantize(&Device::Cpu).unwrap();
    let numbers: Vec<f32> = numbers.to_vec1().unwrap();

    for (found, unit) in numbers.iter().zip(&written.unit) {
        assert!((found - unit * 7.5).abs() < 1e-5);
    }
    let refused = |probe: usize, expected: &str| {
        let refused = control_vector::export(&probes, probe, 1.0, &path).unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    };
    refused(
        0,
        "reads `block.0`, and a control vector can be added after the blocks from `block.1` on",
    );
}

/// Keeps the states of a site.
struct Seen {
    site: Site,
    states: Rc<RefCell<Vec<Vec<f32>>>>,
}

impl Watch for Seen {
    fn state(&mut self, site: Site, x: &Tensor) {
        if site == self.site {
            let states: Vec<Vec<f32>> = x.squeeze(0).unwrap().to_vec2().unwrap();
            self.states.borrow_mut().extend(states);
        }
    }

    fn read(&mut self, _: &[u32], _: bool, _: &Network, _: &mut KvCache) -> Result<()> {
        Ok(())
    }
}

struct Written {
    answers: Vec<Answer>,
    /// At the site of the direction.
    states: Vec<Vec<f32>>,
}

/// Two answers, the second of which goes on in the cache of the first.
fn written(model: &LanguageModel, changes: &[Steering]) -> Written {
    let mut generator = Generator::new(model.network.clone());
    generator.steer(changes.into());
    let states = Rc::default();
    generator.watch(Some(Box::new(Seen {
        site: Site::Block(1),
        states: Rc::clone(&states),
    })));
    let mut prompt = model
        .tokenizer
        .encode("What is the capital of France ?", true)
        .unwrap();
    let mut answers = Vec::new();
    for _ in 0..2 {
        let answer = answer(model, &mut generator, &prompt);
        prompt.extend(&answer.tokens);
        prompt.extend([40, 41]);
        answers.push(answer);
    }
    let states = states.borrow().clone();
    Written { answers, states }
}

fn answer(model: &LanguageModel, generator: &mut Generator, prompt: &[u32]) -> Answer {
    let sampling = SamplingSettings {
        temperature: 1.0,
        top_p: 1.0,
        ..SamplingSettings::default()
    };
    let limits = Limits {
        max_tokens: 24,
        ..Limits::default()
    };
    let mut go_on = |_: &str| ControlFlow::Continue(());
    let answer = generator.write(&model.tokenizer, prompt, &sampling, &limits, &mut go_on);
    answer.unwrap()
}

fn tokens(written: &Written) -> Vec<&[u32]> {
    written.answers.iter().map(|it| &it.tokens[..]).collect()
}

fn led(model: &LanguageModel, how: How) -> Vec<Steering> {
    steering(
        model,
        &[(direction(Solver::Exact), how)],
        &mut Measured::default(),
    )
    .unwrap()
    .0
}

#[test]
fn at_strength_zero_what_is_written_is_the_same_to_the_bit() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let plain = written(&model, &[]);
    let zero = written(&model, &led(&model, How::Add(0.0)));
    assert_eq!(tokens(&zero), tokens(&plain));
    assert_eq!(zero.states, plain.states);
    let more = written(&model, &led(&model, How::Add(3.0)));
    assert_ne!(tokens(&more), tokens(&plain));
}

#[test]
fn each_state_but_the_first_is_moved_by_so_many_times_their_usual_length() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let prompt = model
        .tokenizer
        .encode("What is the capital of France ?", true)
        .unwrap()
        .len();
    let found = direction(Solver::Exact);
    let (changes, told) = steering(
        &model,
        &[(found.clone(), How::Add(0.5))],
        &mut Measured::default(),
    )
    .unwrap();
    let (plain, moved) = (written(&model, &[]), written(&model, &changes));
    let length = 0.5 * told[0].usual_length as f32;
    let states = model
        .network
        .decoder()
        .unwrap()
        .hidden_at(Input::new(&held_out(&model), 1), &[found.site])
        .unwrap();
    let states: Vec<Vec<f32>> = states[0].squeeze(0).unwrap().to_vec2().unwrap();
    let long =
        |state: &&Vec<f32>| state.iter().map(|it| it * it).sum::<f32>().sqrt() > 2.0 * length;
    let longer = states[1..].iter().filter(long).count();
    assert!(
        longer.abs_diff(states.len() / 2) <= 1,
        "{longer} of {}",
        states.len()
    );
    // What comes before the site is the same while the prompt is read.
    for (at, (before, after)) in plain
        .states
        .iter()
        .zip(&moved.states)
        .take(prompt)
        .enumerate()
    {
        for ((before, after), unit) in before.iter().zip(after).zip(&found.unit) {
            let by = if at == 0 { 0.0 } else { unit * length };
            assert!(
                (after - before - by).abs() < 1e-4,
                "{at}: {before} {after} {by}"
            );
        }
    }
    let removed = written(&model, &led(&model, How::Remove));
    for (at, state) in removed.states.iter().enumerate() {
        let along: f32 = state.iter().zip(&found.unit).map(|(x, u)| x * u).sum();
        assert_eq!(along.abs() < 1e-4, at > 0, "{at}: {along}");
    }
}

#[test]
fn what_was_read_while_a_model_was_led_is_as_if_it_were_read_at_once() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let changes = led(&model, How::Add(0.7));
    let two = written(&model, &changes);
    assert!(two.answers[1].cached_tokens > 0);
    let mut prompt = model
        .tokenizer
        .encode("What is the capital of France ?", true)
        .unwrap();
    prompt.extend(&two.answers[0].tokens);
    prompt.extend([40, 41]);
    let mut generator = Generator::new(model.network.clone());
    generator.steer(changes.into());
    assert_eq!(
        answer(&model, &mut generator, &prompt).tokens,
        two.answers[1].tokens
    );
    // Led otherwise, nothing that it has read is of use.
    generator.steer(Rc::default());
    let plain = answer(&model, &mut generator, &prompt);
    assert_eq!(plain.cached_tokens, 0);
    let alone = answer(&model, &mut Generator::new(model.network.clone()), &prompt);
    assert_eq!(plain.tokens, alone.tokens);
}

#[test]
fn the_cost_is_the_perplexity_of_a_text_that_has_nothing_to_do_with_it() {
    let folder = model(json!({"max_position_embeddings": 512}));
    let model = open(folder.path());
    let tokens = held_out(&model);
    let loss = model
        .network
        .measured_loss(Input::new(&tokens[..511], 1), &tokens[1..])
        .unwrap();
    let mut measured = Measured::default();
    let mut cost_of = |how: How| cost(&model, &led(&model, how), &mut measured).unwrap();
    let found = cost_of(How::Add(0.0));
    assert_eq!((found.tokens, Some(found.plain)), (511, found.steered));
    let expected = (loss / 511.0).exp();
    assert!(
        (found.plain / expected - 1.0).abs() < 1e-4,
        "{found:?} {expected}"
    );
    let far = cost_of(How::Add(8.0));
    assert!(
        far.plain == found.plain && far.steered != Some(far.plain),
        "{far:?}"
    );
    let lost = cost_of(How::Add(1e39));
    assert_eq!(lost.steered, None);
}

#[test]
fn what_a_model_has_no_states_for_is_refused() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let refused = |direction: Direction, how: How, expected: &str| {
        let refused = steering(&model, &[(direction, how)], &mut Measured::default())
            .unwrap_err()
            .to_string();
        assert!(refused.contains(expected), "{refused}");
    };
    let own = direction(Solver::Exact);
    let elsewhere = Direction {
        site: Site::Block(9),
        ..own.clone()
    };
    refused(
        elsewhere,
        How::Remove,
        "reads `block.9`, and the model has no such site",
    );
    let short = Direction {
        unit: vec![1.0; 4],
        ..own.clone()
    };
    refused(
        short,
        How::Remove,
        "has 4 numbers, and a state of the model has 16",
    );
    refused(own, How::Add(f64::NAN), "which is no number");
}

/// The tokens over which everything is measured, as far as the model reads them.
fn held_out(model: &LanguageModel) -> Vec<u32> {
    let text = std::fs::read_to_string(repository("models/src/tasks/probe/held_out.txt")).unwrap();
    let mut tokens = model.tokenizer.encode(&text, true).unwrap();
    tokens.truncate(model.network.context());
    tokens
}
