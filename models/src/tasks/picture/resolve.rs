//! What learns, and from what: the method, the recipe, the network, how pictures are seen.

mod choices;
mod contradictions;

use serde_json::{Map, Value, json};

use super::{
    Picture, PictureFacts,
    augment::Flip,
    classifier::Looks,
    fields::FIELDS,
    recipe::{Recipe, recipe, recipes},
    request::{Head, Method, PictureDataPlan, PicturePlan, Settings},
};
use crate::train::{kind::Basis, plan::Chosen, resolve::Resolver as AnyResolver};
use choices::{Choices, IN_PUBLISHED, learned, loader, looks, network, seen_otherwise, view};
use contradictions::contradictions;

type Resolver<'a> = AnyResolver<'a, Picture>;

/// The share of pictures that is kept aside to measure with.
pub(super) const HELD_OUT: f64 = 0.1;
/// The side that larger pictures are scaled to for a network from scratch: shapes are told at it, and a processor learns in minutes.
pub(super) const SIDE: usize = 64;
/// Held-out pictures that are measured with during a run.
const EVALUATED: usize = 2000;
/// An epoch has so many steps at least, where there are enough pictures for the smallest batch.
const STEPS_OF_EPOCH: usize = 16;
/// The smallest batch that is chosen.
const FEWEST_ROWS: usize = 32;
/// A run sees so many pictures at least, each of them at most [`MAX_EPOCHS`] times.
const FEWEST_SEEN: f64 = 30_000.0;
/// See [`FEWEST_SEEN`].
const MAX_EPOCHS: f64 = 60.0;
/// Pictures of every class with which learning all of a network may gain over a head alone.
const ENOUGH_TO_FINE_TUNE: usize = 50;
/// The recipe of what starts from a published network.
const OF_PUBLISHED: &str = "fine-tune";

/// The part of a plan that is about pictures, and what the rest is chosen by.
pub(super) fn resolve(resolver: &mut Resolver) -> (PicturePlan, Basis) {
    let request = &resolver.request.task;
    let facts = resolver.facts.task.clone();
    if request.data.files.is_empty() {
        resolver.problem(
            "data.files",
            "is missing: name a folder with a folder of pictures for each class",
        );
    }
    let method = resolver.method();
    let recipe = resolver.recipe(method);
    if method == Method::Features {
        resolver.refuse_length();
    }
    if let Some(published) = &facts.published {
        resolver.warnings.extend(published.notes.iter().cloned());
    }
    let held_out = resolver.take("data.held_out", &request.data.held_out, || {
        Chosen::new(
            HELD_OUT,
            "enough to measure with; a part that the data itself keeps aside is taken as it is",
        )
    });
    resolver.within("data.held_out", held_out, 0.0, 0.5);
    let length = Length::of(resolver, recipe, facts.rows);
    let picture = resolver.settings(method, recipe, &facts, &length);
    let is_normalized = picture.follows_batches();
    let plan = PicturePlan {
        model: request.model.clone(),
        data: PictureDataPlan {
            files: request.data.files.clone(),
            held_out,
        },
        picture,
    };
    let rate = recipe.learning_rate * length.rows as f64 / recipe.rows as f64;
    let rate = (rate * 1e6).round() / 1e6;
    let why = match length.rows == recipe.rows {
        true => of(recipe),
        false => format!("{}, for {} pictures at once", of(recipe), length.rows),
    };
    let basis = Basis {
        length: 1,
        rows: facts.rows,
        held_out_rows: facts.held_out_rows,
        units_per_step: length.rows,
        batch_rows: Some(Chosen::new(length.rows, length.why_rows.clone())),
        is_normalized,
        why_one_device: is_normalized.then_some(
            "the rows of a batch are normalized together, which devices can’t share; choose one device",
        ),
        epochs: Chosen::new(length.epochs, length.why_epochs.clone()),
        learning_rate: Chosen::new(rate, why),
        weight_decay: Chosen::new(recipe.weight_decay, of(recipe)),
        beta2: Chosen::new(0.99, of(recipe)),
        usual: match method {
            Method::Features => usual_of_features(facts.rows, length.rows),
            _ => usual(recipe, resolver, &length),
        },
    };
    (plan, basis)
}

fn of(recipe: &Recipe) -> String {
    format!("the recipe “{}”", recipe.name)
}

/// Features are read in some steps, and the last one finds the head.
fn usual_of_features(pictures: usize, rows: usize) -> Choices {
    let steps = pictures.div_ceil(rows.max(1)) + 1;
    let why = format!("{rows} pictures are read in each, and the last one finds the head");
    let once = || Chosen::new(json!(steps), "when the head is found");
    vec![
        ("steps", Chosen::new(json!(steps), why)),
        ("evaluate.every", once()),
        (
            "evaluate.batches",
            Chosen::new(json!(0), "all that is kept aside"),
        ),
        ("sample.every", once()),
        ("save.every", once()),
    ]
}

/// What a recipe says of every run. Of another optimizer than its own it knows no settings.
fn usual(recipe: &'static Recipe, resolver: &Resolver, length: &Length) -> Choices {
    let asked = resolver.request.run.optimizer.kind.map(|kind| json!(kind));
    let is_another = asked.is_some_and(|kind| Some(&kind) != recipe.run.get("optimizer.kind"));
    let is_of_optimizer = |name: &str| name.starts_with("optimizer.");
    let all = recipe
        .run
        .iter()
        .map(|(name, value)| (name.as_str(), value));
    let batches = EVALUATED.div_ceil(length.rows.max(1));
    let measured = match resolver.facts.task.held_out_rows <= EVALUATED {
        true => Chosen::new(json!(0), "all that is kept aside"),
        false => Chosen::new(
            json!(batches),
            "enough to see the trend; all of them are measured at the end",
        ),
    };
    all.filter(|(name, _)| !(is_another && is_of_optimizer(name)))
        .map(|(name, value)| (name, Chosen::new(value.clone(), of(recipe))))
        .chain([
            (
                "schedule.warmup_steps",
                Chosen::new(json!(length.warmup), of(recipe)),
            ),
            ("evaluate.batches", measured),
        ])
        .collect()
}

/// How long a run is, as far as its recipe and its data say so.
struct Length {
    rows: usize,
    why_rows: String,
    epochs: f64,
    why_epochs: String,
    /// Steps in which the learning rate rises.
    warmup: usize,
    /// Steps in a pass over the data.
    steps_of_epoch: f64,
}

impl Length {
    fn of(resolver: &Resolver, recipe: &Recipe, pictures: usize) -> Self {
        let run = &resolver.request.run;
        let room = (pictures / STEPS_OF_EPOCH).max(1);
        let power = 1usize << room.ilog2();
        let fewer = power.max(FEWEST_ROWS).min(pictures.max(1));
        let (rows, why_rows) = match (run.batch.rows, pictures) {
            (Some(rows), _) => (rows, "your setting".to_owned()),
            (None, 1..) if fewer < recipe.rows => {
                let why = format!("so few pictures make {STEPS_OF_EPOCH} steps of a pass so");
                (fewer, why)
            }
            _ => (recipe.rows, of(recipe)),
        };
        let more = (FEWEST_SEEN / pictures.max(1) as f64).min(MAX_EPOCHS);
        let (epochs, why_epochs) = match more > recipe.epochs && pictures > 0 {
            true => (more.ceil(), "few pictures are seen more often".to_owned()),
            false => (recipe.epochs, of(recipe)),
        };
        let accumulated = rows * run.batch.accumulate.unwrap_or(1);
        let steps_of_epoch = pictures as f64 / accumulated.max(1) as f64;
        let all = run.epochs.unwrap_or(epochs) * steps_of_epoch;
        let steps = run.steps.unwrap_or(all.ceil() as usize);
        Self {
            rows,
            why_rows,
            epochs,
            why_epochs,
            warmup: (recipe.warmup * steps as f64).round() as usize,
            steps_of_epoch,
        }
    }
}

impl Resolver<'_> {
    /// Notes that nobody says how long features are read.
    fn refuse_length(&mut self) {
        let run = &self.request.run;
        for (field, is_given) in [
            ("steps", run.steps.is_some()),
            ("epochs", run.epochs.is_some()),
        ] {
            if is_given {
                self.problem(field, "is given, and follows from the number of pictures where a published network stays as it is");
            }
        }
    }

    fn method(&mut self) -> Method {
        let request = &self.request.task;
        let has_model = request.model.is_some();
        let fewest = self.facts.task.fewest;
        let method = self.take(
            "picture.method",
            &request.picture.method,
            || match has_model {
                true => Chosen::new(Method::Features, why_features(fewest)),
                false => Chosen::new(Method::Scratch, "there is no network to start from"),
            },
        );
        match (method, has_model) {
            (Method::Scratch, true) => self.problem("model", "is given, and a network from scratch starts from none"),
            (Method::Features | Method::FineTune, false) => self.problem(
                "model",
                "is missing: name the published network to start from, a folder with config.json or a .pth file",
            ),
            _ => {}
        }
        method
    }

    fn recipe(&mut self, method: Method) -> &'static Recipe {
        let all = recipes();
        let (name, why) = match method {
            Method::Scratch => (
                all[0].name.as_str(),
                format!("for a network from scratch; {}", all[0].source),
            ),
            _ => (
                OF_PUBLISHED,
                "for what starts from a published network".to_owned(),
            ),
        };
        let asked = &self.request.task.picture.recipe;
        let name = self.take("picture.recipe", asked, || {
            Chosen::new(name.to_owned(), why)
        });
        if let Some(found) = recipe(&name) {
            return found;
        }
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        self.problem(
            "picture.recipe",
            format!("is {name}, and has to be one of {}", names.join(", ")),
        );
        &all[0]
    }

    /// All settings: what was asked, and what is chosen for the rest.
    fn settings(
        &mut self,
        method: Method,
        recipe: &'static Recipe,
        facts: &PictureFacts,
        length: &Length,
    ) -> Settings {
        let asked = serde_json::to_value(&self.request.task.picture).unwrap_or_default();
        let mut settings = Map::new();
        settings.insert("method".to_owned(), json!(method));
        settings.insert("recipe".to_owned(), json!(recipe.name));
        for choices in [
            vec![("head", head(method, facts))],
            network(recipe, facts, &self.facts.device.device),
            view(facts),
            seen_otherwise(method, recipe, facts),
            learned(method, recipe, length.steps_of_epoch),
            loader(method, self.facts.device.device.kind),
        ] {
            for (name, chosen) in choices {
                let asked = Some(asked[name].clone()).filter(|it| !it.is_null());
                let value = self.take(&format!("picture.{name}"), &asked, || chosen);
                settings.insert(name.to_owned(), value);
            }
        }
        // What follows from others that may have been asked for.
        for (name, from) in [("short_side", "side"), ("looks", "flip")] {
            let asked = Some(asked[name].clone()).filter(|it| !it.is_null());
            let view = facts.published.as_ref().map(|it| &it.view);
            let kept = settings["head"] == json!(Head::Kept);
            let chosen = match (name, view.and_then(|it| it.short_side)) {
                ("looks", _) if kept => Chosen::new(
                    json!(view.map_or(Looks::One, |it| it.looks)),
                    "as before, so that what it gains can be seen",
                ),
                ("short_side", Some(side)) => Chosen::new(json!(side), IN_PUBLISHED),
                ("short_side", None) => {
                    Chosen::new(settings[from].clone(), "all of the short side is seen")
                }
                _ => looks(method, recipe, &settings[from]),
            };
            let value = self.take(&format!("picture.{name}"), &asked, || chosen);
            settings.insert(name.to_owned(), value);
        }
        match serde_json::from_value(settings.into()) {
            Ok(settings) => {
                self.check(&settings, facts);
                settings
            }
            Err(error) => {
                self.problem("picture", error.to_string());
                Settings::default()
            }
        }
    }

    /// Notes what can’t be.
    fn check(&mut self, settings: &Settings, facts: &PictureFacts) {
        self.check_bounds(settings);
        if facts.side == 0 {
            // Without data there is no shape, which is said of the data.
            return;
        }
        for (name, is_wrong, problem) in contradictions(settings, facts) {
            if is_wrong {
                self.problem(&format!("picture.{name}"), problem);
            }
        }
        let is_asked = self.request.task.picture.flip.is_some();
        if settings.flip != Flip::None && settings.augment && !is_asked {
            self.warnings.push(
                "pictures are mirrored while it learns; where a mirrored picture means something else, set picture.flip to none"
                    .to_owned(),
            );
        }
    }

    /// Notes what is out of the bounds of its field.
    fn check_bounds(&mut self, settings: &Settings) {
        let tree = serde_json::to_value(settings).unwrap_or_default();
        for field in FIELDS {
            let value = field
                .name
                .strip_prefix("picture.")
                .and_then(|it| tree[it].as_f64());
            let (Some(bounds), Some(value)) = (field.bounds, value) else {
                continue;
            };
            // What is absent without data is said of the data.
            let is_absent = value == 0.0 && self.facts.task.side == 0;
            if !(is_absent || bounds.contain(value)) {
                self.problem(field.name, format!("is {value}, and has to be {bounds}"));
            }
        }
    }
}

/// What the head begins with. Whatever tells these very classes apart goes on from what it has found.
fn head(method: Method, facts: &PictureFacts) -> Chosen<Value> {
    let classes = facts.published.as_ref().and_then(|it| it.classes.as_ref());
    let knows_them = !facts.classes.is_empty() && classes == Some(&facts.classes);
    match method {
        Method::FineTune if knows_them => Chosen::new(
            json!(Head::Kept),
            "the network tells these classes apart already; what it reached is measured first, and kept where learning gains nothing",
        ),
        Method::FineTune => Chosen::new(json!(Head::New), "the network knows other classes"),
        Method::Features => Chosen::new(json!(Head::New), "the run finds it"),
        Method::Scratch => Chosen::new(json!(Head::New), "there is no network to start from"),
    }
}

/// Why a published network stays as it is, and what can follow where there are enough pictures.
fn why_features(fewest: usize) -> String {
    let why = "a published network tells classes apart by a few pictures, in seconds";
    match fewest >= ENOUGH_TO_FINE_TUNE {
        true => format!(
            "{why}; every class has {ENOUGH_TO_FINE_TUNE} pictures, so a second run that starts from this one with `picture.method: \
             fine_tune` may go further"
        ),
        false => why.to_owned(),
    }
}
