//! What pictures say as a kind of learning.

use std::{
    collections::BTreeMap,
    path::{self, Path, PathBuf},
    sync::Arc,
};

use super::{
    PictureFacts, PublishedFacts,
    fields::FIELDS,
    footprint,
    published::Published,
    recognize,
    request::{Method, PicturePlan, PictureRequest},
    resolve::{self, HELD_OUT, SIDE},
    source::{Choice, PictureSet},
    task::PictureTask,
};
use crate::{
    Error, Result,
    arch::picture::{Architecture, NetConfig},
    data::source::{Changed, changed, places},
    random::{Random, stable_hash},
    train::{
        TrainPlan, TrainRequest, defaults,
        estimate::Estimate,
        fields::Field,
        kind::{Basis, Kind, RunPlace, Subject, Tiny},
        resolve::Resolver,
    },
};

/// Networks learn to tell what pictures show.
pub enum Picture {}

/// Pictures that were read for a plan.
pub struct ReadPictures {
    key: Key,
    facts: PictureFacts,
    warnings: Vec<String>,
}

/// What was read: the same key means the same pictures.
#[derive(PartialEq)]
struct Key {
    files: Vec<PathBuf>,
    changed: Vec<Changed>,
    choice: Choice,
}

impl Kind for Picture {
    const NAME: &'static str = "picture";
    const UNIT: &'static str = "pictures";
    const FIELDS: &'static [Field] = FIELDS;
    const SHAPED_BY: &'static [&'static str] = &[
        "picture.architecture",
        "picture.stem",
        "picture.side",
        "picture.channels",
        "picture.classes",
    ];
    const ORDERED_BY: &'static [&'static str] = &["data", "picture.subsample_size"];
    const NAMES_OF_FILES: &'static [&'static str] = &["model", "data.files"];
    const TINY: Option<Tiny> = Some(Tiny {
        files: tiny_files,
        request: r#"{"picture": {"recipe": "small"}, "data": {"held_out": 0.25}, "batch": {"rows": 8}}"#,
    });

    type Request = PictureRequest;
    type Plan = PicturePlan;
    type Facts = PictureFacts;
    type Read = ReadPictures;
    type Shape = NetConfig;
    type Task = PictureTask;

    fn recognizes(path: &Path) -> bool {
        recognize::holds_pictures(path)
    }

    fn files(request: &mut PictureRequest) -> &mut Vec<PathBuf> {
        &mut request.data.files
    }

    fn data(plan: &PicturePlan) -> &[PathBuf] {
        &plan.data.files
    }

    fn resolve(resolver: &mut Resolver<Self>) -> (PicturePlan, Basis) {
        resolve::resolve(resolver)
    }

    fn shape(plan: &PicturePlan, facts: &PictureFacts) -> Option<NetConfig> {
        let published = facts.published.as_ref();
        Some(plan.picture.net(published.map(|it| &it.net)))
    }

    fn read_shape(plan: &PicturePlan) -> Result<NetConfig> {
        let is_vit = plan.picture.architecture == Architecture::Vit;
        let published = plan.model.as_ref().filter(|_| is_vit);
        let published = published.map(|it| Published::open(it)).transpose()?;
        let net = plan.picture.net(published.as_ref().map(|it| &it.net));
        // A person can have changed the sizes of a plan that was made here.
        match net.problem() {
            Some(problem) => Err(Error::setting("picture", problem)),
            None => Ok(net),
        }
    }

    fn estimate(plan: &TrainPlan<PicturePlan>, shape: &NetConfig) -> Estimate {
        footprint::estimate(plan, shape)
    }

    fn model(request: &mut PictureRequest) -> Option<&mut PathBuf> {
        request.model.as_mut()
    }

    fn find_files(request: &mut PictureRequest) -> Result<()> {
        for file in &mut request.data.files {
            *file = path::absolute(&file).map_err(Error::file("find the pictures", &file))?;
        }
        Ok(())
    }

    fn read(
        request: &TrainRequest<PictureRequest>,
        known: Option<&Arc<ReadPictures>>,
    ) -> Result<Option<Arc<ReadPictures>>> {
        let data = &request.task.data;
        if data.files.is_empty() {
            return Ok(None);
        }
        let settings = &request.task.picture;
        let key = Key {
            files: data.files.clone(),
            changed: changed(places(&data.files).values()),
            choice: Choice {
                held_out: data.held_out.unwrap_or(HELD_OUT).clamp(0.0, 0.5),
                side: settings.side,
                usual_side: Some(SIDE),
                channels: settings.channels,
                seed: request.run.seed.unwrap_or(defaults::SEED),
                ..Choice::default()
            },
        };
        if let Some(known) = known.filter(|known| known.key == key) {
            return Ok(Some(known.clone()));
        }
        let set = PictureSet::read(&key.files, &key.choice, None)?;
        Ok(Some(Arc::new(ReadPictures {
            facts: PictureFacts::of(&set),
            warnings: set.warnings(),
            key,
        })))
    }

    fn facts(
        request: &TrainRequest<PictureRequest>,
        read: Option<&ReadPictures>,
    ) -> Result<PictureFacts> {
        let mut facts = read.map(|it| it.facts.clone()).unwrap_or_default();
        if let Some(subsample) = request.task.picture.subsample_size.filter(|it| *it > 0) {
            facts.fewest = facts.fewest * facts.rows.min(subsample) / facts.rows.max(1);
            facts.rows = facts.rows.min(subsample);
        }
        if let Some(model) = &request.task.model {
            facts.published = Some(PublishedFacts::open(model)?);
        }
        Ok(facts)
    }

    fn warnings(_: &TrainPlan<PicturePlan>, read: &ReadPictures) -> Result<Vec<String>> {
        Ok(read.warnings.clone())
    }

    fn open(plan: &TrainPlan<PicturePlan>, place: &RunPlace) -> Result<PictureTask> {
        PictureTask::open(plan, place)
    }

    fn smaller(plan: &PicturePlan) -> Option<String> {
        let side = plan.picture.side;
        Some(format!(
            "start it with smaller pictures than {side} x {side} (`picture.side`)"
        ))
    }

    fn sources(plan: &PicturePlan) -> BTreeMap<String, PathBuf> {
        let mut sources = places(&plan.data.files);
        let model = plan.model.clone();
        sources.extend(model.map(|it| ("model/network".to_owned(), it)));
        sources
    }

    fn uses(_: &PicturePlan) -> &'static [&'static str] {
        &["predict"]
    }

    fn subject(plan: &PicturePlan) -> Subject {
        let picture = &plan.picture;
        let name = match picture.architecture {
            Architecture::Small => "a small network",
            other => other.title(),
        };
        let config = serde_json::to_string(&picture.net(None)).unwrap_or_default();
        let how = match picture.method {
            Method::Scratch => format!("{name} from scratch"),
            Method::FineTune => format!("all of {name}"),
            Method::Features => format!("a head for {name}"),
        };
        Subject {
            model: format!("{:016x}", stable_hash(0, config.as_bytes())),
            method: match picture.method {
                Method::Scratch => "scratch",
                Method::FineTune => "fine_tune",
                Method::Features => "features",
            }
            .to_owned(),
            what: how,
            base: plan.model.clone(),
        }
    }
}

/// A few pictures of noise, of two classes.
fn tiny_files() -> Vec<(&'static str, Vec<u8>)> {
    const COUNT: u8 = 64;
    const SIDE: u8 = 16;
    let mut random = Random::new(1);
    let mut pictures = vec![0, 0, 8, 3, 0, 0, 0, COUNT, 0, 0, 0, SIDE, 0, 0, 0, SIDE];
    let pixels = usize::from(COUNT) * usize::from(SIDE) * usize::from(SIDE);
    pictures.extend((0..pixels).map(|_| random.below(256) as u8));
    let mut labels = vec![0, 0, 8, 1, 0, 0, 0, COUNT];
    labels.extend((0..COUNT).map(|it| it % 2));
    vec![
        ("train-labels-idx1-ubyte", labels),
        ("train-images-idx3-ubyte", pictures),
    ]
}
