//! What settings of pictures can't be together.

use crate::{
    arch::picture::{Architecture, NetConfig, Stem},
    tasks::picture::{
        PictureFacts,
        request::{Head, Settings},
    },
};

/// A setting, whether it can't be, and what is wrong then.
type Contradiction = (&'static str, bool, String);

/// What does not fit together, or to the data.
pub(super) fn contradictions(settings: &Settings, facts: &PictureFacts) -> Vec<Contradiction> {
    let published = facts.published.as_ref().map(|it| &it.net);
    let of_network = of_network(settings, published).into_iter();
    of_network.chain(of_pictures(settings, facts)).collect()
}

/// What does not fit to the network.
fn of_network(settings: &Settings, published: Option<&NetConfig>) -> [Contradiction; 5] {
    let net = settings.net(published);
    let (side, least) = (settings.side, least_side(&net));
    let of_vit = net.transformer.and(published);
    let kept = settings.head == Head::Kept;
    [
        (
            "head",
            kept && published.is_none_or(|it| it.classes != settings.classes),
            "is kept, and there is no published network that tells as many classes apart".to_owned(),
        ),
        (
            "architecture",
            published.is_some_and(|it| it.architecture != net.architecture),
            format!(
                "is {}, and the published network is another",
                net.architecture.title()
            ),
        ),
        (
            "architecture",
            published.is_none() && net.architecture == Architecture::Vit,
            "is ViT, which learns little from scratch without millions of pictures: name a published one as the model"
                .to_owned(),
        ),
        (
            "side",
            of_vit.is_some_and(|it| it.sides[0] != side),
            format!(
                "is {side}, and the published ViT knows the places of pictures of {} pixels alone",
                of_vit.map_or(side, |it| it.sides[0])
            ),
        ),
        (
            "side",
            side < least,
            format!("is {side}, and this network needs at least {least} pixels"),
        ),
    ]
}

/// What does not fit to the pictures.
fn of_pictures(settings: &Settings, facts: &PictureFacts) -> [Contradiction; 7] {
    let (side, found) = (settings.side, facts.classes.len());
    let is_odd = |it: &f64| !it.is_finite();
    let is_no_deviation = |it: &f64| is_odd(it) || *it <= 0.0;
    [
        (
            "short_side",
            settings.short_side < side,
            format!(
                "is {}, which is less than the side of {side}",
                settings.short_side
            ),
        ),
        (
            "channels",
            !matches!(settings.channels, 1 | 3),
            format!("is {}, and has to be 1 or 3", settings.channels),
        ),
        (
            "classes",
            settings.classes != found,
            format!("is {}, and the data has {found}", settings.classes),
        ),
        (
            "pad",
            settings.pad >= side,
            format!(
                "is {}, which is no less than the side of {side}",
                settings.pad
            ),
        ),
        (
            "cutout",
            settings.cutout > side,
            format!(
                "is {}, which is more than the side of {side}",
                settings.cutout
            ),
        ),
        (
            "mean",
            settings.mean.is_empty() || settings.mean.iter().any(is_odd),
            "has to be a number for each channel".to_owned(),
        ),
        (
            "std",
            settings.std.is_empty() || settings.std.iter().any(is_no_deviation),
            "has to be a number above 0 for each channel".to_owned(),
        ),
    ]
}

/// The smallest side that a network has places for. That of a ViT is said by the published one.
fn least_side(net: &NetConfig) -> usize {
    if net.architecture == Architecture::Vit {
        return 1;
    }
    let fits = |side: &usize| {
        let config = NetConfig {
            architecture: net.architecture,
            stem: Stem::Small,
            sides: [*side, *side],
            channels: 3,
            classes: 2,
            transformer: None,
        };
        config.problem().is_none()
    };
    (1..=64).find(fits).unwrap_or(64)
}
