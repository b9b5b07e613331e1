//! How it learns: the size and number of steps, the optimizer, and what happens between steps.

use serde_json::json;

use super::Resolver;
use crate::{
    device::defaults::device_defaults,
    figures::counted,
    optim::muon::MAX_STEPS as MAX_STEPS_OF_MUON,
    train::{
        defaults,
        fields::{MAX_ACCUMULATE, MAX_DEVICES, MAX_ROWS, MAX_STEPS},
        kind::{Basis, Kind, ONE_DEVICE},
        plan::*,
        request::{MuonRequest, OptimizerKind},
        tree::is_in,
    },
};

/// The batches of held-out data that a look takes.
const EVALUATED_BATCHES: usize = 20;
/// The field of the warm-up.
const WARMUP: &str = "schedule.warmup_steps";

impl<K: Kind> Resolver<'_, K> {
    pub(super) fn batch(&mut self, basis: &Basis) -> BatchPlan {
        let request = &self.request.run.batch;
        let length = basis.length;
        // A kind that knows how many rows suit it takes some again in a step where there are fewer: they look otherwise.
        let available = match basis.batch_rows {
            Some(_) => usize::MAX,
            None => basis.rows,
        };
        let device = device_defaults(self.facts.device.device.kind).batch_rows;
        let of_device = || Chosen::new(device.value, device.reason);
        let at_once = basis.batch_rows.clone().unwrap_or_else(of_device);
        let suits = (basis.units_per_step / length.max(1)).max(1);
        let usual = match available.max(1) {
            rows if rows < at_once.value.min(suits) => Chosen::new(rows, "there is no more data"),
            _ if suits < at_once.value => {
                Chosen::new(suits, "more would be too much for one update")
            }
            _ => at_once,
        };
        let batches = |rows: usize| {
            let wanted = basis.units_per_step / (rows * length).max(1);
            wanted.min(available / rows.max(1)).max(1)
        };
        // Rows of an update: what memory says about rows at once must not change what is learned.
        let whole = usual.value * batches(usual.value);
        let most = self.limits.most_rows.as_ref();
        let most = most.map(|it| (it.rows, it.why.clone()));
        let capped = most.is_some() && request.rows.is_none();
        let rows = self.take("batch.rows", &request.rows, || match most {
            Some((rows, why)) => fewer(rows, why, usual.value, whole, basis.is_normalized),
            None => usual,
        });
        self.counted("batch.rows", rows, MAX_ROWS);
        let rows = rows.min(MAX_ROWS);
        let accumulate = self.take("batch.accumulate", &request.accumulate, || match capped {
            true => Chosen::new(
                whole / rows.max(1),
                format!(
                    "so that an update still sees {}",
                    counted(whole as u64, "row")
                ),
            ),
            false => Chosen::new(
                batches(rows),
                format!(
                    "about {} {} per update suit this method",
                    basis.units_per_step,
                    K::UNIT
                ),
            ),
        });
        self.counted("batch.accumulate", accumulate, MAX_ACCUMULATE);
        BatchPlan {
            normalized: basis.is_normalized,
            rows,
            length,
            accumulate: accumulate.min(MAX_ACCUMULATE),
        }
    }

    /// How many devices share a step. A batch is split so that each has as many.
    pub(super) fn devices(&mut self, batch: &mut BatchPlan, why_one_device: Option<&str>) -> usize {
        let asked = self.request.run.devices;
        let Some(devices) = asked.filter(|devices| *devices != 1) else {
            return 1;
        };
        self.counted("devices", devices, MAX_DEVICES);
        let devices = devices.clamp(1, MAX_DEVICES);
        let devices = self.take("devices", &Some(devices), || Chosen::new(devices, ""));
        let of_kind = is_in("batch.accumulate", self.unread).then_some(ONE_DEVICE);
        if let Some(why) = why_one_device.or(of_kind) {
            self.problem("devices", format!("is {devices}, and {why}"));
        }
        let before = batch.clone();
        // What nobody asked for is made to fit.
        if self.request.run.batch.accumulate.is_none()
            && !(batch.rows * batch.accumulate).is_multiple_of(devices)
        {
            batch.accumulate = batch
                .accumulate
                .next_multiple_of(devices)
                .min(MAX_ACCUMULATE);
        }
        if let Err(rows) = batch.share_among(devices) {
            let problem = format!(
                "gives {rows} rows in a step, which can’t be shared by {devices} devices; make `batch` a multiple of {devices}"
            );
            self.problem("batch.rows", problem);
        }
        if before.rows != batch.rows {
            self.note_again(
                "batch.rows",
                batch.rows,
                &format!("{devices} devices share a step: each batch is one of theirs"),
            );
        }
        if before.accumulate != batch.accumulate {
            let rows = counted((batch.rows * batch.accumulate) as u64, "row");
            self.note_again(
                "batch.accumulate",
                batch.accumulate,
                &format!("so that an update sees {rows}, and each device as many batches"),
            );
        }
        devices
    }

    /// Whether each of these devices keeps only a part of what the optimizer keeps.
    pub(super) fn shard(&mut self, devices: usize) -> bool {
        let asked = self.request.run.shard;
        if devices == 1 {
            if asked == Some(true) {
                let problem = "is true, and one device has none to share with; say how many there are in `devices`";
                self.problem("shard", problem);
            }
            return false;
        }
        match (self.limits.shard.clone(), asked) {
            // All of it on each device is fastest, and what one device does.
            (None, None) => false,
            (why, asked) => self.take("shard", &asked, || {
                Chosen::new(true, why.unwrap_or_default())
            }),
        }
    }

    pub(super) fn steps(&mut self, basis: &Basis, batch: &BatchPlan) -> usize {
        let request = &self.request.run;
        let per_epoch = basis.rows as f64 / (batch.rows * batch.accumulate).max(1) as f64;
        let epochs = request.epochs.unwrap_or(basis.epochs.value);
        if request.steps.is_some() && request.epochs.is_some() {
            self.problem(
                "epochs",
                "is given together with `steps`; remove one of the two",
            );
        }
        if !(epochs > 0.0 && epochs.is_finite()) {
            self.problem("epochs", format!("is {epochs}, and has to be above 0"));
        }
        let steps = self.take("steps", &request.steps, || {
            let steps = (epochs * per_epoch).ceil().max(1.0) as usize;
            let pass = passes(epochs, per_epoch);
            match request.epochs {
                Some(_) => Chosen::new(steps, pass),
                None => Chosen::new(steps, format!("{pass}; {}", basis.epochs.why)),
            }
        });
        self.counted("steps", steps, MAX_STEPS);
        let steps = steps.min(MAX_STEPS);
        let passes = steps as f64 / per_epoch.max(f64::MIN_POSITIVE);
        // Some kinds show each row in another look each time, and go through them far more often.
        if request.steps.is_some() && passes > basis.epochs.value.max(100.0) {
            self.warnings.push(format!(
                "{steps} steps see the data {passes:.0} times, which tends to memorize it"
            ));
        }
        steps
    }

    pub(super) fn schedule(&mut self, steps: usize) -> SchedulePlan {
        let request = &self.request.run.schedule;
        let kind = self.take("schedule.kind", &request.kind, || {
            Chosen::new(
                defaults::SCHEDULE,
                "small steps at the end settle what was learned",
            )
        });
        // What is usual for a kind suits a run of its usual length.
        for (field, usual) in &mut self.usual {
            if *field == WARMUP && usual.value.as_u64() > Some(steps as u64 / 2) {
                *usual = Chosen::new(json!(steps / 2), "half of so short a run");
            }
        }
        let warmup_steps = self.take(WARMUP, &request.warmup_steps, || {
            let warmup = (steps * 3 / 100).clamp(5, 200).min(steps / 2);
            Chosen::new(
                warmup,
                "3 % of the run and 5 steps at least, so that the first ones don’t break anything",
            )
        });
        if warmup_steps > steps {
            self.problem(
                WARMUP,
                format!(
                    "is {warmup_steps}, longer than the whole run of {}",
                    counted(steps as u64, "step")
                ),
            );
        }
        let start_ratio = self.first_rate(warmup_steps);
        let min_ratio = self.take("schedule.min_ratio", &request.min_ratio, || {
            Chosen::new(
                defaults::MIN_RATIO,
                "a tenth of the highest rate still learns",
            )
        });
        self.within("schedule.min_ratio", min_ratio, 0.0, 1.0);
        SchedulePlan {
            kind,
            warmup_steps,
            start_ratio,
            min_ratio,
        }
    }

    /// Where a warm-up begins. At nothing, which needs no reason, unless somebody says otherwise.
    fn first_rate(&mut self, warmup_steps: usize) -> f64 {
        const FIELD: &str = "schedule.start_ratio";
        let asked = &self.request.run.schedule.start_ratio;
        let is_usual = self.usual.iter().any(|(field, _)| *field == FIELD);
        if warmup_steps == 0 || asked.is_none() && !is_usual {
            return 0.0;
        }
        let ratio = self.take(FIELD, asked, || Chosen::new(0.0, "it rises from zero"));
        self.within(FIELD, ratio, 0.0, 1.0);
        ratio
    }

    pub(super) fn optimizer(&mut self, basis: &Basis) -> OptimizerPlan {
        let request = &self.request.run.optimizer;
        let usual = "the usual value";
        let chosen = self.optimizer_kind();
        let kind = self.take("optimizer.kind", &request.kind, || chosen);
        let beta1 = self.take("optimizer.beta1", &request.beta1, || {
            Chosen::new(defaults::BETA1, usual)
        });
        self.within("optimizer.beta1", beta1, 0.0, 0.9999);
        let beta2 = self.take("optimizer.beta2", &request.beta2, || basis.beta2.clone());
        self.within("optimizer.beta2", beta2, 0.0, 0.999_999);
        let epsilon = self.take("optimizer.epsilon", &request.epsilon, || {
            Chosen::new(defaults::EPSILON, usual)
        });
        self.within("optimizer.epsilon", epsilon, 1e-20, 1.0);
        let weight_decay = self.take("optimizer.weight_decay", &request.weight_decay, || {
            basis.weight_decay.clone()
        });
        self.within("optimizer.weight_decay", weight_decay, 0.0, 1.0);
        let momentum = self.take("optimizer.momentum", &request.momentum, || match kind {
            OptimizerKind::Muon => Chosen::new(defaults::MUON_MOMENTUM, usual),
            _ => Chosen::new(defaults::MOMENTUM, "the usual value; only SGD reads it"),
        });
        self.within("optimizer.momentum", momentum, 0.0, 0.9999);
        let nesterov = self.nesterov(kind);
        let muon = self.muon(kind, basis);
        OptimizerPlan {
            kind,
            beta1,
            beta2,
            epsilon,
            weight_decay,
            momentum,
            nesterov,
            muon,
        }
    }

    fn nesterov(&mut self, kind: OptimizerKind) -> bool {
        const FIELD: &str = "optimizer.nesterov";
        let asked = &self.request.run.optimizer.nesterov;
        if kind != OptimizerKind::Sgd {
            if asked.is_some() {
                self.problem(FIELD, "is given, and only `optimizer.kind: sgd` reads it");
            }
            return false;
        }
        self.take(FIELD, asked, || {
            Chosen::new(false, "plain momentum is the usual one")
        })
    }

    /// The optimizer that was asked for, or is usual for the kind of learning.
    pub(super) fn optimizer_kind(&self) -> Chosen<OptimizerKind> {
        let otherwise = || {
            let why = "It learns well with the settings of published recipes, on every device.";
            let usual = self.usual("optimizer.kind");
            usual.unwrap_or_else(|| Chosen::new(OptimizerKind::Adamw, why))
        };
        match self.request.run.optimizer.kind {
            Some(kind) => Chosen::new(kind, "your setting"),
            None => otherwise(),
        }
    }

    fn muon(&mut self, kind: OptimizerKind, basis: &Basis) -> Option<MuonPlan> {
        let request = &self.request.run.optimizer.muon;
        if kind != OptimizerKind::Muon {
            if *request != MuonRequest::default() {
                let problem = "is given, and only `optimizer.kind: muon` reads it";
                self.problem("optimizer.muon", problem);
            }
            return None;
        }
        let nesterov = self.take("optimizer.muon.nesterov", &request.nesterov, || {
            Chosen::new(true, "the usual value")
        });
        let name = "optimizer.muon.newton_schulz_steps";
        let newton_schulz_steps = self.take(name, &request.newton_schulz_steps, || {
            Chosen::new(defaults::MUON_STEPS, "the usual value")
        });
        self.counted(name, newton_schulz_steps, MAX_STEPS_OF_MUON);
        let name = "optimizer.muon.adamw_learning_rate";
        let adamw_learning_rate = self.take(name, &request.adamw_learning_rate, || {
            basis.learning_rate.clone()
        });
        self.within(name, adamw_learning_rate, 0.0, 10.0);
        let name = "optimizer.muon.adamw_weight_decay";
        let adamw_weight_decay = self.take(name, &request.adamw_weight_decay, || {
            basis.weight_decay.clone()
        });
        self.within(name, adamw_weight_decay, 0.0, 1.0);
        Some(MuonPlan {
            nesterov,
            newton_schulz_steps,
            adamw_learning_rate,
            adamw_weight_decay,
        })
    }

    pub(super) fn step_switches(&mut self) -> (f64, f64, bool) {
        let request = &self.request.run;
        let clip_norm = self.take("clip_norm", &request.clip_norm, || {
            Chosen::new(
                defaults::CLIP_NORM,
                "one strange batch can’t undo many good ones",
            )
        });
        self.within("clip_norm", clip_norm, 0.0, 1e6);
        let ema = self.take("ema", &request.ema, || {
            Chosen::new(0.0, "off: it doubles the memory of what learns")
        });
        self.within("ema", ema, 0.0, 0.999_999);
        let device = device_defaults(self.facts.device.device.kind).gradient_checkpointing;
        let gradient_checkpointing = self.take(
            "gradient_checkpointing",
            &request.gradient_checkpointing,
            || Chosen::new(device.value, device.reason),
        );
        (clip_norm, ema, gradient_checkpointing)
    }

    pub(super) fn evaluate(
        &mut self,
        steps: usize,
        batch_rows: usize,
        held_out_rows: usize,
    ) -> EvaluatePlan {
        let (request, rows) = (&self.request.run.evaluate, held_out_rows);
        let every = self.take("evaluate.every", &request.every, || match rows {
            0 => Chosen::new(0, "no row is held out"),
            _ => Chosen::new(steps.div_ceil(10), "ten times in the run"),
        });
        if every > 0 && rows == 0 {
            self.problem(
                "evaluate.every",
                format!("is {every}, but no row is held out; raise `data.held_out`"),
            );
        }
        let before = self.limits.most_rows.as_ref().map(|most| most.before);
        let batches = self.take("evaluate.batches", &request.batches, || match before {
            Some(before) => Chosen::new(
                (EVALUATED_BATCHES * before).div_ceil(batch_rows.max(1)),
                format!("as many rows as {EVALUATED_BATCHES} batches of {before}"),
            ),
            None => Chosen::new(EVALUATED_BATCHES, "enough to see the trend, and short"),
        });
        EvaluatePlan { every, batches }
    }

    pub(super) fn sample(&mut self, steps: usize) -> SamplePlan {
        let request = &self.request.run.sample;
        let every = self.take("sample.every", &request.every, || {
            Chosen::new(
                steps.div_ceil(5),
                "five times in the run, and after some of its first steps",
            )
        });
        self.reasons.append(&mut self.reasons_of_samples);
        SamplePlan { every }
    }

    pub(super) fn save(&mut self, steps: usize, evaluate: &EvaluatePlan) -> SavePlan {
        let request = &self.request.run.save;
        let every = self.take("save.every", &request.every, || match evaluate.every {
            0 => Chosen::new(steps.div_ceil(10), "ten times in the run"),
            every => Chosen::new(every, "whenever it is measured"),
        });
        let keep_last = self.take("save.keep_last", &request.keep_last, || {
            Chosen::new(2, "the newest, and one before it")
        });
        self.positive("save.keep_last", keep_last);
        let keep_every = self.take("save.keep_every", &request.keep_every, || {
            Chosen::new(0, "off: a long run would fill the disk")
        });
        let keep_best = self.take("save.keep_best", &request.keep_best, || {
            Chosen::new(true, "later is not always better")
        });
        SavePlan {
            every,
            keep_last,
            keep_every,
            keep_best,
        }
    }
}

/// So many rows at once at most, of those that are `usual`, of which all batches of an update have `whole`.
fn fewer(
    most: usize,
    why: String,
    usual: usize,
    whole: usize,
    is_normalized: bool,
) -> Chosen<usize> {
    let (least, why) = match is_normalized {
        true => (
            BatchPlan::MIN_NORMALIZED.min(usual),
            format!("{why}; it changes what batch norm sees"),
        ),
        false => (1, why),
    };
    let divides = |rows: &usize| whole.is_multiple_of(*rows);
    let rows = (least..=most.max(least).min(usual)).rev().find(divides);
    Chosen::new(rows.unwrap_or(least), why)
}

/// How often the data is seen, and what that takes: `6 passes over the data of 1.1 steps each`.
fn passes(epochs: f64, per_epoch: f64) -> String {
    let steps = match format!("{per_epoch:.1}") {
        one if one == "1.0" => "1 step".to_owned(),
        some => format!("{} steps", some.trim_end_matches(".0")),
    };
    match epochs == 1.0 {
        true => format!("1 pass over the data, {steps}"),
        false => format!("{epochs} passes over the data, {steps} each"),
    }
}

#[cfg(test)]
mod tests {
    use super::passes;

    #[test]
    fn passes_and_steps_agree_with_their_numbers() {
        let said = [(1.0, 0.6), (1.0, 1.0), (6.0, 1.14), (3.0, 40.0)].map(|(a, b)| passes(a, b));
        let expected = [
            "1 pass over the data, 0.6 steps",
            "1 pass over the data, 1 step",
            "6 passes over the data, 1.1 steps each",
            "3 passes over the data, 40 steps each",
        ];
        assert_eq!(said, expected);
    }
}
