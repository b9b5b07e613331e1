//! Optimizers that nobody chose, against what `tests/goldens/random_kept.py` has of PyTorch, bitsandbytes and papers.

use std::{collections::HashSet, fs, mem};

use models::optim::Rule;
use serde::Deserialize;

use crate::{descent::Descent, hostile::repository};

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

/// What is asked of an optimizer, and what it reaches elsewhere.
#[derive(Deserialize)]
struct Case {
    #[serde(flatten)]
    descent: Descent,
    /// One in so many of the numbers is known.
    every: usize,
    weights: Vec<f32>,
}

#[test]
fn drawn_optimizers_of_every_kind_end_within_1e_4_of_where_the_reference_does() {
    let golden = fs::read(repository("tests/goldens/random/optimizers.json")).unwrap();
    let golden: Golden = serde_json::from_slice(&golden).unwrap();
    let mut kinds = HashSet::new();
    for Case {
        descent,
        every,
        weights,
    } in golden.cases
    {
        let found = descent.weights().unwrap();
        let found: Vec<f32> = found.into_iter().step_by(every).collect();
        assert_eq!(found.len(), weights.len(), "{:?}", descent.rule);
        let largest = weights.iter().fold(1f32, |most, it| most.max(it.abs()));
        for (found, expected) in found.iter().zip(&weights) {
            let off = (found - expected).abs() / largest;
            // Not a number is near to none.
            let is_near = off <= 1e-4;
            assert!(is_near, "{found}, not {expected}: {:?}", descent.rule);
        }
        kinds.insert(mem::discriminant::<Rule>(&descent.rule));
    }
    assert_eq!(kinds.len(), 6);
}
