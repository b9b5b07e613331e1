//! The pictures that a run keeps of what was said of them: its surest mistakes, and some of each cell of its confusion.

use super::PictureTask;
use crate::{
    Result,
    tasks::picture::{
        classifier::heat_maps,
        evaluate::{Called, Said},
    },
    train::exhibit::{Example, Exhibit},
};

/// How many mistakes are shown.
pub(super) const SHOWN: usize = 8;
/// The longest side of a picture that is shown: what a run shows stays in its list of events.
const SHOWN_SIDE: usize = 64;
/// How many mistakes, and how many that are right, are kept as examples of what the confusion counts, and the longest side of each:
/// together they take some 200 kB of the list.
const EXAMPLES: [usize; 2] = [40, 12];
const EXAMPLE_SIDE: usize = 32;

impl PictureTask {
    /// Pictures that were called by a wrong class, with what speaks for it.
    pub(super) fn mistakes(&self, said: &Said) -> Result<Vec<Exhibit>> {
        let mistakes = said.surest_mistakes(self.temperature, SHOWN);
        if mistakes.is_empty() {
            return Ok(Vec::new());
        }
        let view = self.settings.view();
        let pixels: Vec<&[u8]> = mistakes
            .iter()
            .map(|it| self.set.pixels(it.picture))
            .collect();
        let numbers = view.plain(&pixels, self.set.shape, &self.device)?;
        let answers: Vec<u32> = mistakes.iter().map(|it| it.answer).collect();
        let mut maps = heat_maps(&self.network, &numbers, &answers)?
            .into_iter()
            .flatten();
        let class = |at: u32| self.set.classes[at as usize].clone();
        let exhibit = |it: &Called| {
            let shown = self.set.picture(it.picture).at_most(SHOWN_SIDE);
            Exhibit::Image {
                title: self.set.names[it.picture].clone(),
                label: class(it.answer),
                expected: Some(class(it.label)),
                width: shown.shape.width,
                pixels: shown.colours(),
                confidence: Some(it.confidence as f32),
                map: maps.next(),
            }
        };
        Ok(mistakes.iter().map(exhibit).collect())
    }

    /// Some of the pictures of each cell of the confusion.
    pub(super) fn examples(&self, said: &Said) -> Vec<Example> {
        let [mistakes, right] = EXAMPLES;
        let called = said.examples(self.temperature, mistakes, right);
        let example = |it: &Called| {
            let shown = self.set.picture(it.picture).at_most(EXAMPLE_SIDE);
            Example {
                row: it.label as usize,
                column: it.answer as usize,
                title: self.set.names[it.picture].clone(),
                confidence: it.confidence as f32,
                width: shown.shape.width,
                pixels: shown.colours(),
            }
        };
        called.iter().map(example).collect()
    }
}
