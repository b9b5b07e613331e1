//! Fewer cycles in the first parts of a run: shallow thinking learns faster at first (CGAR, <https://arxiv.org/abs/2511.08653>).
//!
//! In a run file it is text: `1x2:0.3 2x4:0.6` is one answer cycle of two thought cycles for the first 30 % of the steps, two of four
//! up to 60 %, and from there on what the model has. Held-out puzzles are thought about with all cycles at any time.

use crate::{
    Error, Result,
    arch::trm::{Cycles, TrmConfig},
};

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// Its cycles.
    pub cycles: Cycles,
    /// The share of the run at which it ends.
    pub until: f64,
}

/// The parts of a run, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curriculum(Vec<Stage>);

impl Curriculum {
    /// Reads it from a run file.
    pub fn read(text: &str, config: &TrmConfig) -> Result<Self> {
        let stage = |word: &str| -> Option<Stage> {
            let (cycles, until) = word.split_once(':')?;
            let (answer, thought) = cycles.split_once('x')?;
            Some(Stage {
                cycles: Cycles {
                    answer: answer.parse().ok()?,
                    thought: thought.parse().ok()?,
                },
                until: until.parse().ok()?,
            })
        };
        let mut stages: Vec<Stage> = Vec::new();
        for word in text.split_whitespace() {
            let wrong =
                |problem: &str| Error::setting("curriculum", format!("has {word}, {problem}"));
            let stage = stage(word).ok_or_else(|| {
                wrong("where each part is cycles and where it ends, such as 1x2:0.3")
            })?;
            let Cycles { answer, thought } = stage.cycles;
            if !(1..=config.h_cycles).contains(&answer) || !(1..=config.l_cycles).contains(&thought)
            {
                let (h, l) = (config.h_cycles, config.l_cycles);
                return Err(wrong(&format!(
                    "and the cycles are from 1x1 to the model’s {h}x{l}"
                )));
            }
            let before = stages.last().map_or(0.0, |it| it.until);
            if !(stage.until > before && stage.until <= 1.0) {
                return Err(wrong(
                    "which does not end after the part before it and by 1",
                ));
            }
            stages.push(stage);
        }
        Ok(Self(stages))
    }

    /// The cycles at a share of the run, where they are not the model's own.
    pub fn at(&self, share: f64) -> Option<Cycles> {
        let stage = self.0.iter().find(|it| share < it.until);
        stage.map(|it| it.cycles)
    }

    /// The mean over the run of what a step of thinking takes, where `cost` says that of cycles.
    pub fn mean(&self, own: Cycles, cost: impl Fn(Cycles) -> f64) -> f64 {
        let mut before = 0.0;
        let mut mean = 0.0;
        for stage in &self.0 {
            mean += (stage.until - before) * cost(stage.cycles);
            before = stage.until;
        }
        mean + (1.0 - before) * cost(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::puzzle::recipe::recipes;

    fn config() -> TrmConfig {
        TrmConfig {
            vocab_size: 11,
            seq_len: 81,
            num_puzzle_identifiers: 1,
            hidden_size: 32,
            num_heads: 2,
            expansion: 4.0,
            l_layers: 2,
            h_cycles: 3,
            l_cycles: 6,
            mlp_t: true,
            pos_encodings: crate::arch::trm::Positions::None,
            puzzle_emb_ndim: 32,
            puzzle_emb_len: 1,
            halt_max_steps: 16,
            halt_exploration_prob: 0.1,
            rms_norm_eps: 1e-5,
            rope_theta: 1e4,
            loss: crate::arch::trm::Squash::Stablemax,
        }
    }

    #[test]
    fn each_part_of_a_run_has_its_cycles() {
        let curriculum = Curriculum::read("1x2:0.3 2x4:0.6", &config()).unwrap();
        let at = |share| curriculum.at(share).map(|it| (it.answer, it.thought));
        let found = [0.0, 0.29, 0.3, 0.59, 0.6, 1.0].map(at);
        let (first, second) = (Some((1, 2)), Some((2, 4)));
        assert_eq!(found, [first, first, second, second, None, None]);
        let own = Cycles {
            answer: 3,
            thought: 6,
        };
        let calls = curriculum.mean(own, |it| (it.answer * (it.thought + 1)) as f64);
        assert!((calls - (0.3 * 3.0 + 0.3 * 10.0 + 0.4 * 21.0)).abs() < 1e-9);
        assert_eq!(Curriculum::read("", &config()).unwrap().at(0.0), None);
    }

    #[test]
    fn what_is_no_curriculum_is_refused() {
        let check = |text: &str, expected: &str| {
            let error = Curriculum::read(text, &config()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("1x2", "`curriculum` has 1x2, where each part");
        check("4x6:0.5", "from 1x1 to the model’s 3x6");
        check("0x6:0.5", "from 1x1");
        check("1x2:0.5 2x2:0.4", "has 2x2:0.4, which does not end after");
        check("1x2:1.5", "by 1");
        check("1x2:NaN", "by 1");
    }

    #[test]
    fn recipes_have_curricula_that_can_be_read() {
        for recipe in recipes() {
            let model = &recipe.model;
            let config = TrmConfig {
                h_cycles: model.h_cycles.unwrap(),
                l_cycles: model.l_cycles.unwrap(),
                ..config()
            };
            Curriculum::read(&recipe.curriculum, &config).unwrap();
        }
    }
}
