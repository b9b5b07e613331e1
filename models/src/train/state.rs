//! Everything the loop owns besides the model: what a checkpoint must hold for a run to continue exactly.
//!
//! There is no random state: every draw of a step is a function of the plan's seed and the step's number, and the
//! order of the data is a function of the seed and the position, which the task keeps.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use candle_core::Tensor;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

#[cfg(feature = "cuda")]
use super::recorded::RecordedPasses;
use super::{
    event::Observer,
    group::{GroupControl, Together},
    loss_scale::LossScale,
    plan::{OptimizerPlan, RunPlan, TrainPlan},
    request::OptimizerKind,
    share::Share,
    spike::Norms,
    task::Task,
    tree::Part,
    unused_memory::device_of,
};
use crate::{
    Error, Result,
    checkpoint::{
        keep::{Checkpoint, Checkpoints},
        save::{self, write_safetensors},
        tensors::read_tensors,
        whole::{self, STATE},
    },
    device::dtype::Dtype,
    optim::{
        Optimizer, Owners, Rule, STEP, adam_atan2::AdamAtan2, adamw::AdamW, ema::Ema, muon::Muon,
        sgd::Sgd,
    },
};

/// The field of `state.json` with the plan that the run had.
const PLAN: &str = "plan";
const OPTIMIZER: &str = "optimizer.safetensors";
const AVERAGE: &str = "ema.safetensors";
/// The weights that learn, where the model that is saved is their average.
const LEARNING: &str = "learning.safetensors";

/// The loop's own state.
pub struct TrainState {
    /// What can be read in `state.json`.
    pub progress: Progress,
    /// The optimizer's moments, by parameter.
    pub optimizer: Optimizer,
    /// The running average of the weights, if the plan keeps one.
    pub ema: Option<Ema>,
    /// What of each step is computed here.
    pub share: Share,
    /// The other ranks that train this run, where there are any.
    pub(super) together: Option<Together>,
    /// What they keep for the optimizer, while it is saved here.
    gathered: BTreeMap<String, Tensor>,
    /// The whole plan, so that a checkpoint says what made it.
    plan: Json,
    /// What the GPU can play again. No checkpoint has it.
    #[cfg(feature = "cuda")]
    pub(super) recorded: RecordedPasses,
}

/// What `state.json` says of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// How far it was.
    pub progress: Progress,
    /// What it was going to do: a plan of its kind. Absent in checkpoints from before it was kept there.
    pub plan: Option<Json>,
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The last step done.
    pub step: usize,
    /// Units learned from so far.
    #[serde(alias = "tokens")]
    pub units: u64,
    /// Seconds of training so far, in all processes.
    pub seconds: f64,
    /// Whether held-out data is still to be measured after the last step: it took long, and the run was stopped meanwhile.
    #[serde(default)]
    pub is_unmeasured: bool,
    /// The best evaluation so far.
    pub best: Option<Best>,
    /// What the learning rate is multiplied with: halved at each rollback.
    pub rate_factor: f64,
    /// How often the run went back because a number was not finite.
    pub rollbacks: usize,
    /// Where it went back to the last time.
    #[serde(default)]
    pub rolled_back_to: Option<usize>,
    /// The steps for whose spikes the run went back.
    #[serde(default)]
    pub spikes: Vec<usize>,
    /// What gradient norms are usual.
    #[serde(default)]
    pub norms: Norms,
    /// What the loss is multiplied with, where it is computed in f16.
    #[serde(default)]
    pub loss_scale: Option<LossScale>,
    /// The task's own state.
    pub task: Json,
}

/// The best evaluation of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The step that was measured.
    pub step: usize,
    /// Its loss.
    pub loss: f64,
    /// What it is judged by, where that is not the loss: more is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

impl Best {
    /// Whether it has the higher score, or with the same one the lower loss.
    pub fn is_better_than(&self, other: &Self) -> bool {
        match (self.score, other.score) {
            (Some(score), Some(others)) if score != others => score > others,
            _ => self.loss < other.loss,
        }
    }
}

impl TrainState {
    /// The state before the first step.
    pub fn new<T: Task, P: Part>(whole_plan: &TrainPlan<P>, task: &T) -> Result<Self> {
        Self::of_rank(whole_plan, task, Share::ALL)
    }

    /// The same for one of several ranks, which [join](Self::join) before they train.
    pub fn of_rank<T: Task, P: Part>(
        whole_plan: &TrainPlan<P>,
        task: &T,
        share: Share,
    ) -> Result<Self> {
        let plan = &whole_plan.run;
        let owners = match plan.shard {
            true => Owners::among(share.world, share.rank, task.parameters()),
            false => Owners::default(),
        };
        let progress = Progress {
            step: 0,
            units: 0,
            seconds: 0.0,
            is_unmeasured: false,
            best: None,
            rate_factor: 1.0,
            rollbacks: 0,
            rolled_back_to: None,
            spikes: Vec::new(),
            norms: Norms::default(),
            loss_scale: (plan.dtype.compute == Dtype::F16).then(LossScale::default),
            task: task.state(),
        };
        let ema = (plan.ema > 0.0)
            .then(|| Ema::without(&task.own_rules(), plan.ema, task.parameters()))
            .transpose()?;
        Ok(Self {
            progress,
            optimizer: Optimizer::with_own_rules(
                rule(plan)?,
                task.decays(),
                task.parameters(),
                &task.own_rules(),
                owners,
            )?,
            ema,
            share,
            together: None,
            gathered: BTreeMap::new(),
            plan: serde_json::to_value(whole_plan)
                .map_err(|error| Error::setting("plan", error.to_string()))?,
            #[cfg(feature = "cuda")]
            recorded: RecordedPasses::default(),
        })
    }

    /// Has the run trained together with the other ranks, each of which computes its part of every step.
    ///
    /// What losses of the task leave behind on one rank alone, such as a carry, has to come to the one that saves by
    /// [`Task::gather`].
    pub fn join(&mut self, together: Together) {
        self.share = together.share();
        self.together = Some(together);
    }

    /// The checkpoint that rank 0 finds, on every rank: one that is put aside must not be read by another at that moment.
    pub(super) fn of_first(
        &mut self,
        checkpoints: &Checkpoints,
        find: impl FnOnce(&Self) -> Result<Option<Checkpoint>>,
    ) -> Result<Option<Checkpoint>> {
        let Some(mut together) = self.together.take() else {
            return find(self);
        };
        // 0 is none.
        let number = || find(self).map(|found| found.map_or(0, |it| it.step + 1));
        let number = together.of_first(number);
        self.together = Some(together);
        let step = number?.checked_sub(1);
        Ok(step.map(|step| Checkpoint {
            step,
            path: checkpoints.path(step),
        }))
    }

    /// What is wished of the run, on any of its ranks.
    pub(super) fn control(&mut self, observer: &dyn Observer) -> Result<GroupControl> {
        let own = GroupControl {
            pause: observer.should_pause(),
            stop: observer.should_stop(),
        };
        match &mut self.together {
            Some(together) => together.control(own),
            None => Ok(own),
        }
    }

    /// Brings what ranks have of the state of the task to the one that saves, and returns whether this is it. All ranks call it at
    /// once.
    pub(super) fn gather_for_saving<T: Task>(&mut self, task: &mut T) -> Result<bool> {
        if let Some(together) = &mut self.together {
            task.gather(together)?;
            let is_elsewhere =
                self.optimizer.owners().are_several() && self.optimizer.steps_taken() > 0;
            if let Some(device) = device_of(task).filter(|_| is_elsewhere) {
                self.gathered = together.gather(self.optimizer.kept()?, &device)?;
            }
        }
        Ok(self.share.is_first())
    }

    /// Writes the model and this state into `folder`, whole or not at all. Returns the bytes written.
    ///
    /// Of a run that keeps an average of its weights, the model is the average, since that is what was measured; the
    /// weights that keep learning stand beside it.
    pub fn save<T: Task>(&mut self, task: &T, folder: &Path) -> Result<u64> {
        self.progress.task = task.state();
        save::replace_folder(folder, |folder| {
            match &mut self.ema {
                None => task.save(folder)?,
                Some(ema) => {
                    let learning = task.parameters().trainable();
                    let learning = learning
                        .map(|it| (it.name().to_owned(), it.tensor()))
                        .collect();
                    write_safetensors(&folder.join(LEARNING), &learning, HashMap::new())?;
                    ema.swap(task.parameters())?;
                    let saved = task.save(folder);
                    ema.swap(task.parameters())?;
                    saved?;
                    write_safetensors(&folder.join(AVERAGE), &ema.state()?, HashMap::new())?;
                }
            }
            let mut kept = self.optimizer.state()?;
            if self.optimizer.steps_taken() == 0 {
                // All else is 0.
                kept.retain(|name, _| name == STEP);
            }
            kept.extend(
                self.gathered
                    .iter()
                    .map(|(name, it)| (name.clone(), it.clone())),
            );
            write_safetensors(&folder.join(OPTIMIZER), &kept, HashMap::new())?;
            let mut fields = self.progress_fields(folder)?;
            fields.insert(PLAN.to_owned(), self.plan.clone());
            whole::write_state(folder, fields)
        })?;
        save::folder_bytes(folder)
    }

    /// Forgets what others keep: it is saved.
    pub(super) fn saved(&mut self) {
        self.gathered.clear();
    }

    /// Writes how far the run is into the checkpoint `folder` anew. The rest of it stays what it was.
    pub(super) fn write_progress(&self, folder: &Path) -> Result<()> {
        whole::change_state(folder, self.progress_fields(folder)?)
    }

    fn progress_fields(&self, folder: &Path) -> Result<Map<String, Json>> {
        match serde_json::to_value(&self.progress) {
            Ok(Json::Object(fields)) => Ok(fields),
            Ok(_) => Ok(Map::new()),
            Err(error) => Err(Error::format(folder, error.to_string())),
        }
    }

    /// Puts the model and this state back to what `folder` holds, which is expected to be whole.
    pub fn restore<T: Task>(&mut self, task: &mut T, folder: &Path) -> Result<()> {
        let progress = self.saved_progress(folder)?;
        task.restore(&progress.task)?;
        self.restore_weights(task, folder)?;
        self.progress = progress;
        Ok(())
    }

    /// The same, but the task begins where it does before the first step: its data is not what it was.
    pub fn restore_on_other_data<T: Task>(&mut self, task: &mut T, folder: &Path) -> Result<()> {
        let progress = self.saved_progress(folder)?;
        self.restore_weights(task, folder)?;
        self.progress = Progress {
            task: task.state(),
            ..progress
        };
        Ok(())
    }

    fn saved_progress(&self, folder: &Path) -> Result<Progress> {
        let Saved { mut progress, .. } = read_saved(folder)?;
        // A plan that was changed to another dtype begins or ends to scale.
        let planned = self.progress.loss_scale;
        progress.loss_scale = planned.and(progress.loss_scale.or(planned));
        Ok(progress)
    }

    fn restore_weights<T: Task>(&mut self, task: &mut T, folder: &Path) -> Result<()> {
        task.load(folder)?;
        self.optimizer
            .load_state(read_tensors(&folder.join(OPTIMIZER))?)?;
        if let Some(ema) = &mut self.ema {
            ema.load_state(read_tensors(&folder.join(AVERAGE))?)?;
            let mut learning = read_tensors(&folder.join(LEARNING))?;
            for parameter in task.parameters().trainable() {
                let missing = || {
                    Error::format(
                        folder.join(LEARNING),
                        format!("`{}` is missing", parameter.name()),
                    )
                };
                parameter.assign(&learning.remove(parameter.name()).ok_or_else(missing)?)?;
            }
        }
        Ok(())
    }
}

/// Reads what the checkpoint in `folder` says of its run.
pub fn read_saved(folder: &Path) -> Result<Saved> {
    let mut fields = whole::read_state(folder)?;
    let plan = fields.remove(PLAN);
    let progress = serde_json::from_value(Json::Object(fields));
    let wrong = |error| Error::format(folder.join(STATE), format!("not a run’s state: {error}"));
    Ok(Saved {
        progress: progress.map_err(wrong)?,
        plan,
    })
}

/// Saves so many bytes of the weights that learn, or as few more as there have to be, just as a checkpoint is saved. Returns
/// how many there were.
pub fn save_piece(task: &impl Task, folder: &Path, most: u64) -> Result<u64> {
    let mut piece = BTreeMap::new();
    let mut bytes = 0;
    for weight in task.parameters().trainable() {
        if bytes >= most {
            break;
        }
        bytes += weight.tensor().elem_count() as u64 * 4;
        piece.insert(weight.name().to_owned(), weight.tensor());
    }
    save::replace_folder(folder, |folder| {
        write_safetensors(&folder.join("piece.safetensors"), &piece, HashMap::new())?;
        whole::write_state(folder, Map::new())
    })?;
    Ok(bytes)
}

/// The update rule of a plan.
fn rule(run: &RunPlan) -> Result<Rule> {
    let plan = &run.optimizer;
    let OptimizerPlan {
        beta1,
        beta2,
        epsilon,
        weight_decay,
        momentum,
        ..
    } = *plan;
    let adamw = AdamW {
        beta1,
        beta2,
        epsilon,
        weight_decay,
    };
    Ok(match plan.kind {
        OptimizerKind::Adamw => adamw.into(),
        OptimizerKind::Adamw8Bit => Rule::AdamW8Bit(adamw),
        OptimizerKind::AdamAtan2 => AdamAtan2 {
            beta1,
            beta2,
            weight_decay,
        }
        .into(),
        OptimizerKind::Muon => {
            let missing = || Error::setting("optimizer.muon", "is missing from the plan");
            let muon = plan.muon.as_ref().ok_or_else(missing)?;
            Muon {
                momentum,
                nesterov: muon.nesterov,
                newton_schulz_steps: muon.newton_schulz_steps,
                weight_decay,
                others: AdamW {
                    weight_decay: muon.adamw_weight_decay,
                    ..adamw
                },
                others_rate_ratio: muon.adamw_learning_rate / run.learning_rate,
            }
            .into()
        }
        OptimizerKind::Sgd => Sgd {
            momentum,
            nesterov: plan.nesterov,
            weight_decay,
        }
        .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_score_is_better_and_with_the_same_score_a_lower_loss() {
        let best = |loss, score| Best {
            step: 1,
            loss,
            score,
        };
        let cases = [
            (best(2.0, Some(0.5)), best(1.0, Some(0.4)), true),
            (best(1.0, Some(0.4)), best(2.0, Some(0.5)), false),
            (best(1.0, Some(0.4)), best(2.0, Some(0.4)), true),
            (best(1.0, None), best(2.0, None), true),
            // One that was saved before there were scores has its loss.
            (best(2.0, Some(0.4)), best(1.0, None), false),
        ];
        for (one, other, expected) in cases {
            assert_eq!(one.is_better_than(&other), expected, "{one:?} {other:?}");
        }
    }
}
