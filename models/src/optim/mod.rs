//! From gradients to new weights: optimizers, schedule, clipping and averaging.
//!
//! State is f32 unless a rule says so, kept per parameter and saved under its name. On the CPU, and with AdamW on CUDA and Metal, a
//! step is one pass over each parameter; elsewhere it is one set of operations over all parameters joined into one vector. Each formula stands
//! in one file, once for either path, and a test holds them together.
//!
//! Deliberately absent: when to step and what to do with gradients that aren't finite (`train`), and how state is
//! written to files (`checkpoint`).

pub mod adam_atan2;
pub mod adamw;
pub mod adamw_8bit;
pub mod clip;
pub mod ema;
mod flat;
pub mod lookahead;
pub mod muon;
mod numbers;
mod owners;
mod rule;
pub mod schedule;
pub mod sgd;
pub mod sign_sgd;
#[cfg(test)]
mod testing;

use std::collections::BTreeMap;

use candle_core::{DType, Device, Shape, Tensor};
use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    ops::kernels::{self, Kernel},
    parameters::{Parameter, Parameters},
    tape::Gradients,
};
pub(crate) use flat::write_rows;
use flat::{Extent, Flat, Form, refuse_extra};
use muon::Muon;
pub use owners::Owners;
pub use rule::{OwnRule, OwnRules, Rule};

/// The name under which the number of steps taken is saved.
pub const STEP: &str = "step";

/// Which weights decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecayScope {
    /// Weights of layers: those of two or more dimensions that are not embeddings. Decay keeps products small, and a
    /// bias, a norm's scale or an embedding's row is in none.
    #[default]
    Matrices,
    /// All weights, as PyTorch does when nothing is said.
    All,
}

impl DecayScope {
    /// Whether this parameter decays.
    pub fn contains(self, parameter: &Parameter) -> bool {
        match self {
            Self::All => true,
            Self::Matrices => parameter.tensor().rank() >= 2 && !parameter.is_embedding(),
        }
    }
}

/// An optimizer with its state.
pub struct Optimizer {
    /// Steps taken.
    step: u64,
    groups: Vec<Group>,
    owners: Owners,
    /// The parameters whose state other ranks keep.
    elsewhere: Vec<(Rule, Flat)>,
}

/// Something that an optimizer keeps, on whichever rank that is.
pub struct KeptTensor {
    /// The name under which it is saved.
    pub name: String,
    /// The rank that has it.
    pub owner: usize,
    /// On its owner, the tensor: it shares memory with the optimizer.
    pub tensor: Option<Tensor>,
    /// Its shape.
    pub shape: Shape,
    /// Its kind of numbers.
    pub dtype: DType,
}

/// Parameters that are treated alike.
struct Group {
    rule: Rule,
    /// The learning rate, as a multiple of that of the step.
    rate_ratio: f64,
    weight_decay: f64,
    flat: Flat,
    /// One vector for each part of the rule's state.
    state: Vec<Tensor>,
}

/// Weights with their gradients, as a step needs them.
pub struct Prepared(Vec<Vec<Part>>);

/// One parameter in one step.
struct Part {
    weight: Tensor,
    /// f32 and contiguous, in the weight's shape.
    gradient: Tensor,
    /// Where its state lies in the group's vectors.
    place: Extent,
    /// Of a table: the rows that were used, where that was noted.
    rows: Option<Vec<u32>>,
}

/// What is the same for all parameters of a step.
#[derive(Debug, Clone, Copy)]
struct Update {
    learning_rate: f64,
    gradient_scale: f64,
    /// Counted from 1.
    step: u64,
}

impl Optimizer {
    /// An optimizer for the trainable parameters, with no step taken.
    ///
    /// Errors: [`Error::Setting`] when a setting is out of range, or a trainable weight is not f32.
    pub fn new(rule: Rule, scope: DecayScope, parameters: &Parameters) -> Result<Self> {
        Self::with_own_rules(rule, scope, parameters, &OwnRules::new(), Owners::default())
    }

    /// The same, with weights that learn by a rule of their own, and only of those that are this rank’s own.
    pub fn with_own_rules(
        rule: Rule,
        scope: DecayScope,
        parameters: &Parameters,
        own_rules: &OwnRules,
        owners: Owners,
    ) -> Result<Self> {
        let mut optimizer = Self {
            step: 0,
            groups: Vec::new(),
            owners,
            elsewhere: Vec::new(),
        };
        let (own, others): (Vec<_>, Vec<_>) = parameters
            .trainable()
            .partition(|it| own_rules.contains_key(it.name()));
        rule.check()?;
        let (rule, ratio, others) = match rule {
            Rule::Muon(muon) => {
                let (matrices, others): (Vec<_>, Vec<_>) =
                    others.into_iter().partition(|it| Muon::takes(it));
                optimizer.add(rule, 1.0, rule.weight_decay(), &matrices)?;
                (muon.others.into(), muon.others_rate_ratio, others)
            }
            rule => (rule, 1.0, others),
        };
        let (decayed, others): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|it| scope.contains(it));
        optimizer.add(rule, ratio, rule.weight_decay(), &decayed)?;
        optimizer.add(rule, ratio, 0.0, &others)?;
        // Those with the same rule learn together.
        let mut groups: Vec<(OwnRule, Vec<&Parameter>)> = Vec::new();
        for parameter in own {
            let rule = own_rules[parameter.name()];
            match groups.iter_mut().find(|it| it.0 == rule) {
                Some((_, members)) => members.push(parameter),
                None => groups.push((rule, vec![parameter])),
            }
        }
        for (OwnRule { rule, rate_ratio }, members) in groups {
            rule.check()?;
            optimizer.add(rule, rate_ratio, rule.weight_decay(), &members)?;
        }
        Ok(optimizer)
    }

    /// Adds a group of parameters, unless it is empty.
    fn add(
        &mut self,
        rule: Rule,
        rate_ratio: f64,
        weight_decay: f64,
        members: &[&Parameter],
    ) -> Result<()> {
        let mut members = members.to_vec();
        if let Rule::AdamW8Bit(adamw) = rule {
            let others = members.extract_if(.., |it| !adamw_8bit::takes(it));
            let others: Vec<_> = others.collect();
            self.add(adamw.into(), rate_ratio, weight_decay, &others)?;
        }
        let others = members.extract_if(.., |it| !self.owners.has(it.name()));
        let others: Vec<_> = others.collect();
        if !others.is_empty() {
            self.elsewhere.push((rule, Flat::new(others.into_iter())?));
        }
        if !members.is_empty() {
            let flat = Flat::new(members.into_iter())?;
            let state = rule.state().iter().map(|kept| flat.zeros(kept.form));
            self.groups.push(Group {
                rule,
                rate_ratio,
                weight_decay,
                state: state.collect::<Result<_>>()?,
                flat,
            });
        }
        Ok(())
    }

    /// Steps taken.
    pub fn steps_taken(&self) -> u64 {
        self.step
    }

    /// Who keeps what, and changes it.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Changes its own weights by one step. Each gradient is multiplied by `gradient_scale` first: see
    /// [`clip_scale`](clip::clip_scale).
    ///
    /// Gradients have to be finite; one that isn't ruins its weight for good. No weight has changed when a gradient is
    /// missing or misshapen, which is an [`Error::Data`] that names it.
    pub fn step(
        &mut self,
        parameters: &Parameters,
        gradients: &Gradients,
        learning_rate: f64,
        gradient_scale: f64,
    ) -> Result<()> {
        self.step_prepared(
            &self.prepare(parameters, gradients)?,
            learning_rate,
            gradient_scale,
        )
    }

    /// Finds what a step needs, while a device may still be computing the gradients.
    ///
    /// Errors: [`Error::Data`] naming a gradient that is missing or misshapen.
    pub fn prepare(&self, parameters: &Parameters, gradients: &Gradients) -> Result<Prepared> {
        let groups = self.groups.iter();
        let parts = groups.map(|group| group.parts(parameters, gradients));
        Ok(Prepared(parts.collect::<Result<_>>()?))
    }

    /// [`Optimizer::step`] with what was found before.
    pub fn step_prepared(
        &mut self,
        prepared: &Prepared,
        learning_rate: f64,
        gradient_scale: f64,
    ) -> Result<()> {
        for (group, parts) in self.groups.iter_mut().zip(&prepared.0) {
            let update = Update {
                learning_rate: learning_rate * group.rate_ratio,
                gradient_scale,
                step: self.step + 1,
            };
            match group.rule {
                Rule::AdamW(adamw) => adamw.step(group, parts, update)?,
                Rule::AdamW8Bit(adamw) => adamw_8bit::step(&adamw, group, parts, update)?,
                Rule::AdamAtan2(adam) => adam.step(group, parts, update)?,
                Rule::Muon(muon) => muon.step(group, parts, update)?,
                Rule::Sgd(sgd) => sgd.step(group, parts, update)?,
                Rule::SignSgd(sign) => sign.step(group, parts, update)?,
            }
        }
        self.step += 1;
        Ok(())
    }

    /// Everything that the next step depends on besides the weights: `layer.weight.first_moment` and so on, and `step`. What other
    /// ranks keep is missing.
    ///
    /// The tensors share memory with the optimizer: save or copy them before the next step.
    pub fn state(&self) -> Result<BTreeMap<String, Tensor>> {
        let own = self.kept()?.into_iter();
        let own = own.filter_map(|it| Some((it.name, it.tensor?)));
        let mut state: BTreeMap<String, Tensor> = own.collect();
        let step = i64::try_from(self.step).unwrap_or(i64::MAX);
        state.insert(STEP.to_owned(), Tensor::new(step, &Device::Cpu)?);
        Ok(state)
    }

    /// All that is kept of the weights, by all ranks, in an order that is the same on each.
    pub fn kept(&self) -> Result<Vec<KeptTensor>> {
        let mut all = Vec::new();
        let own = self.groups.iter();
        let own = own.map(|it| (it.rule, &it.flat, Some(&it.state)));
        let others = self.elsewhere.iter();
        let others = others.map(|(rule, flat)| (*rule, flat, None));
        for (rule, flat, state) in own.chain(others) {
            for (index, kept) in rule.state().iter().enumerate() {
                let vector = state.and_then(|it| it.get(index));
                for slice in &flat.slices {
                    let tensor = vector.map(|it| slice.of(it, kept.form)).transpose()?;
                    all.push(KeptTensor {
                        name: format!("{}.{}", slice.name, kept.name),
                        owner: self.owners.of(&slice.name),
                        tensor,
                        shape: slice.dims(kept.form).into(),
                        dtype: kept.form.dtype(),
                    });
                }
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Continues from a saved state, bit for bit. What others keep is left to them. That of before the first step may be [`STEP`] alone.
    ///
    /// Errors: [`Error::Data`] naming a tensor that is missing, left over or of another shape. The optimizer is then
    /// no longer usable.
    pub fn load_state(&mut self, mut state: BTreeMap<String, Tensor>) -> Result<()> {
        let step = state
            .remove(STEP)
            .ok_or_else(|| Error::Data(format!("`{STEP}` is missing from the saved state")))?;
        let step = step.to_dtype(DType::I64)?.flatten_all()?.to_vec1::<i64>()?;
        let [step] = step.as_slice() else {
            return Err(Error::Data(format!(
                "`{STEP}` in the saved state is not one number"
            )));
        };
        self.step = u64::try_from(*step)
            .map_err(|_| Error::Data(format!("`{STEP}` in the saved state is {step}")))?;
        if self.step == 0 && state.is_empty() {
            return self.begin_anew();
        }
        for group in &self.groups {
            for (kept, vector) in group.rule.state().iter().zip(&group.state) {
                let suffix = format!(".{}", kept.name);
                group.flat.load(vector, kept.form, &suffix, &mut state)?;
            }
        }
        for (rule, flat) in &self.elsewhere {
            for kept in rule.state() {
                for slice in &flat.slices {
                    slice.take(kept.form, &format!(".{}", kept.name), &mut state)?;
                }
            }
        }
        refuse_extra(&state)
    }

    /// Forgets all steps.
    fn begin_anew(&mut self) -> Result<()> {
        for group in &self.groups {
            for (kept, vector) in group.rule.state().iter().zip(&group.state) {
                flat::write(vector, &group.flat.zeros(kept.form)?)?;
            }
        }
        Ok(())
    }
}

/// How a step is computed.
enum Backend {
    /// In one pass over each parameter, on all cores.
    InPlace,
    /// In one launch for all parameters.
    #[cfg(feature = "cuda")]
    OnCuda,
    /// In one launch for several parameters.
    OnMetal,
    /// By candle's kernels, over all parameters at once.
    Composed,
}

impl Group {
    fn is_on_cpu(&self) -> bool {
        self.flat.device().is_cpu()
    }

    /// How a rule with this kernel is computed here.
    fn way(&self, kernel: Kernel) -> Backend {
        if !kernels::enabled(kernel) {
            return Backend::Composed;
        }
        if kernels::metal::serves(kernel, &self.state.iter().collect::<Vec<_>>()) {
            return Backend::OnMetal;
        }
        #[cfg(feature = "cuda")]
        if self.flat.device().is_cuda() {
            return Backend::OnCuda;
        }
        match self.is_on_cpu() {
            true => Backend::InPlace,
            false => Backend::Composed,
        }
    }

    /// What is kept of one parameter. It shares the numbers of the group's vectors.
    fn state_of(&self, part: &Part) -> Result<Vec<Tensor>> {
        let kept = self.rule.state().iter().zip(&self.state);
        kept.map(|(kept, vector)| part.place.of(vector, kept.form))
            .collect()
    }

    /// The weights and the gradients of all parameters as two vectors, the gradients scaled.
    fn gather(&self, parts: &[Part], gradient_scale: f64) -> Result<[Tensor; 2]> {
        let weight = self.flat.gather(parts.iter().map(|part| &part.weight))?;
        let gradient = self.flat.gather(parts.iter().map(|part| &part.gradient))?;
        Ok([weight, gradient.affine(gradient_scale, 0.0)?])
    }

    /// Overwrites the weights of all parameters with their parts of a vector.
    fn write(&self, parts: &[Part], weight: &Tensor) -> Result<()> {
        for (part, slice) in parts.iter().zip(&self.flat.slices) {
            flat::write(&part.weight, &slice.of(weight, Form::Number)?)?;
        }
        Ok(())
    }

    fn parts(&self, parameters: &Parameters, gradients: &Gradients) -> Result<Vec<Part>> {
        let mut parts = Vec::with_capacity(self.flat.slices.len());
        for slice in &self.flat.slices {
            let name = slice.name.as_str();
            let missing =
                |what| Error::Data(format!("`{name}` is trained, but there is no {what}"));
            let weight = parameters
                .get(name)
                .ok_or_else(|| missing("such weight"))?
                .tensor();
            let gradient = gradients
                .get(name)
                .ok_or_else(|| missing("gradient for it"))?;
            if gradient.dims() != slice.shape || weight.dims() != slice.shape {
                return Err(Error::Data(format!(
                    "`{name}` is {:?} with a gradient of {:?}, and was {:?} when the optimizer was made",
                    weight.dims(),
                    gradient.dims(),
                    slice.shape
                )));
            }
            parts.push(Part {
                weight,
                gradient: gradient.to_dtype(DType::F32)?.contiguous()?,
                place: slice.place.clone(),
                rows: gradients
                    .rows(name)
                    .map(|rows| rows.iter().copied().collect()),
            });
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        adamw::AdamW,
        sgd::Sgd,
        testing::{golden, golden_gradients, initial_parameters, numbers_of},
        *,
    };

    fn optimizer(parameters: &Parameters) -> Optimizer {
        Optimizer::new(AdamW::default().into(), DecayScope::Matrices, parameters).unwrap()
    }

    #[test]
    fn a_saved_state_continues_with_the_same_bits() {
        let sgd = Sgd {
            momentum: 0.9,
            ..Sgd::default()
        };
        for rule in [AdamW::default().into(), sgd.into()] {
            let golden = golden();
            let gradients = golden_gradients(&golden);
            let (straight, restarted) = (initial_parameters(), initial_parameters());
            let scope = DecayScope::Matrices;
            let mut first = Optimizer::new(rule, scope, &straight).unwrap();
            for gradients in &gradients {
                first.step(&straight, gradients, 0.1, 1.0).unwrap();
            }

            let mut before = Optimizer::new(rule, scope, &restarted).unwrap();
            for gradients in &gradients[..3] {
                before.step(&restarted, gradients, 0.1, 1.0).unwrap();
            }
            let mut after = Optimizer::new(rule, scope, &restarted).unwrap();
            after.load_state(before.state().unwrap()).unwrap();
            assert_eq!(after.steps_taken(), 3);
            for gradients in &gradients[3..] {
                after.step(&restarted, gradients, 0.1, 1.0).unwrap();
            }
            assert_eq!(numbers_of(&straight), numbers_of(&restarted));
            // Back to before the first step, with nothing but that.
            let (again, fresh) = (initial_parameters(), initial_parameters());
            let mut unused = Optimizer::new(rule, scope, &fresh).unwrap();
            let mut nothing = unused.state().unwrap();
            nothing.retain(|name, _| name == STEP);
            after.load_state(nothing).unwrap();
            after.step(&again, &gradients[0], 0.1, 1.0).unwrap();
            unused.step(&fresh, &gradients[0], 0.1, 1.0).unwrap();
            assert_eq!(numbers_of(&again), numbers_of(&fresh));
        }
    }

    #[test]
    fn a_state_that_does_not_fit_is_refused_by_name() {
        let parameters = initial_parameters();
        let state = optimizer(&parameters).state().unwrap();
        let check = |change: &dyn Fn(&mut BTreeMap<String, Tensor>), expected: &str| {
            let mut state = state.clone();
            change(&mut state);
            let error = optimizer(&parameters).load_state(state).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            &|state| drop(state.remove("layer.bias.first_moment")),
            "`layer.bias.first_moment` is missing from the saved state",
        );
        check(
            &|state| drop(state.remove("step")),
            "`step` is missing from the saved state",
        );
        check(
            &|state| {
                let other = state["layer.bias.first_moment"].clone();
                state.insert("layer.weight.second_moment".to_owned(), other);
            },
            "`layer.weight.second_moment` is [5] in the saved state and [3, 4] in the model",
        );
        check(
            &|state| {
                let other = state["layer.bias.first_moment"].clone();
                state.insert("other.bias.first_moment".to_owned(), other);
            },
            "`other.bias.first_moment` is in the saved state, with 1 tensors in all that this model doesn’t train",
        );
    }

    #[test]
    fn a_missing_gradient_is_named_and_nothing_changes() {
        let parameters = initial_parameters();
        let before = numbers_of(&parameters);
        let mut gradients = golden_gradients(&golden()).swap_remove(0);
        gradients.remove("layer.bias");
        let error = optimizer(&parameters)
            .step(&parameters, &gradients, 0.1, 1.0)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "`layer.bias` is trained, but there is no gradient for it"
        );
        assert_eq!(numbers_of(&parameters), before);
    }

    #[test]
    fn weights_that_are_not_f32_are_refused() {
        let mut parameters = Parameters::default();
        let half = Tensor::zeros((2, 2), DType::BF16, &Device::Cpu).unwrap();
        parameters.insert(Parameter::new("layer.weight", &half, true).unwrap());
        let made = Optimizer::new(AdamW::default().into(), DecayScope::All, &parameters);
        let error = made.err().unwrap().to_string();
        assert_eq!(
            error,
            "`layer.weight` is bf16; weights that are trained must be f32"
        );
    }

    #[test]
    fn decay_leaves_out_vectors_and_what_says_that_it_is_an_embedding() {
        let parameter = |name: &str, shape: &[usize]| {
            let zeros = Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
            Parameter::new(name, &zeros, true).unwrap()
        };
        let matrix = parameter("layer.weight", &[2, 2]);
        let filter = parameter("conv1.weight", &[1, 2, 2, 2]);
        let norm = parameter("norm.weight", &[2]);
        let table = parameter("anything.weight", &[2, 2]).as_embedding();
        let decaying = |scope: DecayScope| {
            [&matrix, &filter, &norm, &table].map(|parameter| scope.contains(parameter))
        };
        assert_eq!(decaying(DecayScope::Matrices), [true, true, false, false]);
        assert_eq!(decaying(DecayScope::All), [true; 4]);
        // A name alone decides nothing.
        let named = parameter("embedding.projection.weight", &[2, 2]);
        assert!(DecayScope::Matrices.contains(&named));
    }

    #[test]
    fn a_frozen_weight_has_no_state() {
        let mut parameters = initial_parameters();
        let frozen = Tensor::zeros((2, 2), DType::F32, &Device::Cpu).unwrap();
        parameters.insert(Parameter::new("frozen.weight", &frozen, false).unwrap());
        let state = optimizer(&parameters).state().unwrap();
        assert!(!state.keys().any(|name| name.starts_with("frozen")));
        assert_eq!(state.len(), 3 * 2 + 1);
    }
}
