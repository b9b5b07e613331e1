//! What is read, where, and how weights are found.

use serde_json::json;

use super::{
    Probe,
    cross_validation::{FEWEST, MOST},
    fitting::SolverName,
    kind::ProbeFacts,
    request::{ProbeDataPlan, ProbePlan, SettingsPlan},
    states::Position,
    study::PENALTIES,
};
use crate::{
    arch::sites::Site,
    figures::counted,
    train::{
        kind::{Basis, ONE_DEVICE},
        plan::Chosen,
        resolve::Resolver as AnyResolver,
    },
};

type Resolver<'a> = AnyResolver<'a, Probe>;

/// Steps in which texts are read, at most, and the fewest texts in one.
const READING_STEPS: usize = 40;
const FEWEST_TEXTS: usize = 16;

/// The folds that rows are cross-validated in where they are few.
const FOLDS: usize = 5;
/// Rows with a label from which on a part of them is enough to report on.
const MANY: usize = 100;
/// Texts that are still few: for more, folds take long.
const FEW_ROWS: usize = 1_000;

/// The part of a plan that is about probes, and what the rest is chosen by.
pub(super) fn resolve(resolver: &mut Resolver) -> (ProbePlan, Basis) {
    let facts = resolver.facts.task.clone();
    let request = &resolver.request.task;
    if request.data.files.is_empty() {
        let problem = "is missing: name a file with labelled text, or a folder of captured states";
        resolver.problem("data.files", problem);
    } else if facts.states.is_none() && request.model.is_none() {
        resolver.problem("model", "is missing: name the model whose states are read");
    }
    let run = &resolver.request.run;
    if run.steps.is_some() || run.epochs.is_some() {
        let field = if run.steps.is_some() {
            "steps"
        } else {
            "epochs"
        };
        resolver.problem(
            field,
            "is given, and follows from the texts and the sites of a probe",
        );
    }
    let data = resolver.data();
    let (probe, steps) = resolver.settings(&facts);
    let plan = ProbePlan {
        model: request.model.clone().filter(|_| facts.states.is_none()),
        data,
        probe,
    };
    let none = || Chosen::new(0.0, "");
    let basis = Basis {
        length: 1,
        rows: steps.value,
        held_out_rows: 1,
        units_per_step: 1,
        batch_rows: None,
        is_normalized: false,
        why_one_device: Some(ONE_DEVICE),
        epochs: Chosen::new(1.0, ""),
        learning_rate: Chosen::new(1.0, ""),
        weight_decay: none(),
        beta2: none(),
        usual: vec![
            ("steps", Chosen::new(json!(steps.value), steps.why)),
            (
                "save.every",
                Chosen::new(
                    json!(steps.value.div_ceil(20)),
                    "twenty times in the run; texts that were read are kept in any case",
                ),
            ),
            (
                "save.keep_best",
                Chosen::new(json!(false), "the last one has the probes of all sites"),
            ),
        ],
    };
    (plan, basis)
}

impl Resolver<'_> {
    fn data(&mut self) -> ProbeDataPlan {
        let request = &self.request.task.data;
        // Columns that are found have their names in what is said of the data.
        for (field, asked) in [
            ("data.text_column", &request.text_column),
            ("data.label_column", &request.label_column),
            ("data.group_column", &request.group_column),
        ] {
            if let Some(column) = asked {
                self.note(field, column, "your setting", false);
            }
        }
        let skip_bad_rows = self.take("data.skip_bad_rows", &request.skip_bad_rows, || {
            Chosen::new(
                false,
                "a row that can’t be used is no accident to pass over",
            )
        });
        ProbeDataPlan {
            skip_bad_rows,
            ..request.planned()
        }
    }

    /// Which states are kept, what follows the text, and whether it is a turn of a chat.
    fn shown(&mut self, facts: &ProbeFacts) -> (Position, String, bool) {
        let request = &self.request.task.probe;
        let captured = facts.states.as_ref();
        let as_captured = "so the states were captured";
        if captured.is_some()
            && (request.suffix.is_some() || request.chat.is_some() || request.position.is_some())
        {
            self.problem(
                "probe.position",
                "and how a text is shown can’t be changed after states were captured",
            );
        }
        let position = self.take("probe.position", &request.position, || match captured {
            Some(about) => Chosen::new(about.position, as_captured),
            None => Chosen::new(
                Position::Mean,
                "it can be read token by token while a model writes",
            ),
        });
        if position == Position::Tokens {
            self.problem(
                "probe.position",
                "is tokens, and a probe learns from one state a text",
            );
        }
        let suffix = match (&request.suffix, captured) {
            // Nothing follows the text, and nothing is said of it.
            (None, None) => String::new(),
            (asked, about) => self.take("probe.suffix", asked, || {
                let pattern = about.map(|it| it.prompt.pattern.clone());
                Chosen::new(pattern.unwrap_or_default(), as_captured)
            }),
        };
        let chat = self.take("probe.chat", &request.chat, || match captured {
            Some(about) => Chosen::new(about.prompt.template.is_some(), as_captured),
            None => Chosen::new(false, "the text alone"),
        });
        (position, suffix, chat)
    }

    fn settings(&mut self, facts: &ProbeFacts) -> (SettingsPlan, Chosen<usize>) {
        let request = &self.request.task.probe;
        let (position, suffix, chat) = self.shown(facts);
        let sites = self.sites(facts);
        let labels = self.take("probe.labels", &request.labels, || {
            Chosen::new(
                Vec::new(),
                format!("all: {}", counted(facts.labels.len() as u64, "label")),
            )
        });
        if let Some(unknown) = labels
            .iter()
            .find(|it| !facts.labels.is_empty() && !facts.labels.contains(*it))
        {
            self.problem("probe.labels", format!("has `{unknown}`, which no row has"));
        }
        let solver = self.take("probe.solver", &request.solver, || {
            Chosen::new(
                Default::default(),
                "the same answer every time, and no rate to choose",
            )
        });
        let mut penalties = self.take("probe.penalties", &request.penalties, || {
            Chosen::new(PENALTIES.to_vec(), "validation rows choose among them")
        });
        penalties.sort_by(f64::total_cmp);
        if penalties.is_empty() || penalties.iter().any(|c| !(1e-9..=1e9).contains(c)) {
            self.problem(
                "probe.penalties",
                "has to have values from 1e-9 to 1e9, at least one",
            );
        }
        let balanced = self.take("probe.balanced", &request.balanced, || {
            Chosen::new(false, "probabilities keep the base rate")
        });
        let folds = self.folds(facts, solver);
        let texts_per_step = facts.rows.div_ceil(READING_STEPS).max(FEWEST_TEXTS);
        let steps = steps(facts, texts_per_step, sites.len());
        let settings = SettingsPlan {
            suffix,
            chat,
            position,
            sites,
            labels,
            solver,
            penalties,
            balanced,
            folds,
            texts_per_step,
        };
        (settings, steps)
    }

    /// In how many folds all rows are cross-validated: in some where they are few.
    fn folds(&mut self, facts: &ProbeFacts, solver: SolverName) -> usize {
        let asked = self.request.task.probe.folds;
        let rarest = || {
            format!(
                "the rarest label has {}",
                counted(facts.rarest as u64, "row")
            )
        };
        let folds = self.take("probe.folds", &asked, || {
            if solver == SolverName::Adamw {
                Chosen::new(0, "AdamW stops by validation rows, which folds have none of")
            } else if facts.names_parts {
                Chosen::new(0, "the data itself says which rows to report on")
            } else if facts.rarest >= MANY {
                Chosen::new(0, format!("{}, enough for a part to report on", rarest()))
            } else if facts.rows > FEW_ROWS {
                let why = "they would take long for so many texts; ask for 5 if the rarest label matters";
                Chosen::new(0, why)
            } else {
                let why = format!("{}, too few for a part of them to say much: every row is judged, by probes that never saw it", rarest());
                Chosen::new(FOLDS, why)
            }
        });
        if folds != 0 && !(FEWEST..=MOST).contains(&folds) {
            let problem = format!("has to be 0 for none, or from {FEWEST} to {MOST}");
            self.problem("probe.folds", &problem);
        }
        if folds != 0 && solver == SolverName::Adamw {
            let problem = "can’t be used with `probe.solver: adamw`, which stops by validation rows; take 0, or another solver";
            self.problem("probe.folds", problem);
        }
        folds
    }

    fn sites(&mut self, facts: &ProbeFacts) -> Vec<Site> {
        let asked = &self.request.task.probe.sites;
        let mut sites = self.take("probe.sites", asked, || {
            Chosen::new(
                facts.sites.clone(),
                "everywhere: which one says most is not known before",
            )
        });
        sites.sort_unstable();
        sites.dedup();
        if let Some(unknown) = sites
            .iter()
            .find(|it| !facts.sites.is_empty() && !facts.sites.contains(it))
        {
            let (first, last) = (facts.sites.first(), facts.sites.last());
            let ends = first.zip(last).map_or(String::new(), |(a, b)| {
                format!(": there are `{a}` to `{b}`")
            });
            self.problem(
                "probe.sites",
                format!("has `{unknown}`, which is not there{ends}"),
            );
        }
        sites
    }
}

/// Steps of the whole run: to read what is not captured yet, to learn each site, and to judge them.
fn steps(facts: &ProbeFacts, texts_per_step: usize, sites: usize) -> Chosen<usize> {
    let of_sites = format!(
        "one for each of {}, and one to judge them",
        counted(sites as u64, "site")
    );
    if facts.states.is_some() {
        return Chosen::new(sites + 1, of_sites);
    }
    let reading = facts.rows.div_ceil(texts_per_step);
    let texts = counted(facts.rows as u64, "text");
    Chosen::new(
        reading + sites + 1,
        format!("{reading} to read {texts}, {of_sites}"),
    )
}
