//! Which pictures are kept aside, decided by what they show and by nothing else.
//!
//! The hash of its pixels decides where a picture goes, so that equal pictures are on one side whatever they are called, and
//! adding pictures moves none of the others. Where pictures belong together (the photos of one person, of one minute), their
//! group decides for all of them, and what holds the same picture counts as one group.

use std::collections::HashMap;

use crate::{data::split::are_held_out, random::stable_hash};

/// Which of these are kept aside: a part of them on average. `groups` has one for each picture, or none at all.
pub(super) fn held_out(
    identities: &[u64],
    groups: Option<&[u64]>,
    part: f64,
    seed: u64,
) -> Vec<bool> {
    if part == 0.0 {
        return vec![false; identities.len()];
    }
    let joined;
    let units = match groups {
        Some(groups) => {
            joined = join(identities, groups);
            &joined
        }
        None => identities,
    };
    let hash = |unit: &u64| stable_hash(seed, &unit.to_le_bytes());
    let hashes: Vec<u64> = units.iter().map(hash).collect();
    are_held_out(&hashes, part)
}

/// The group of each picture, where groups with a picture in common are one: the smallest of them.
fn join(identities: &[u64], groups: &[u64]) -> Vec<u64> {
    let mut above: HashMap<u64, u64> = groups.iter().map(|it| (*it, *it)).collect();
    let top = |above: &HashMap<u64, u64>, mut group: u64| {
        while above[&group] != group {
            group = above[&group];
        }
        group
    };
    let mut first: HashMap<u64, u64> = HashMap::new();
    for (identity, group) in identities.iter().zip(groups) {
        let other = *first.entry(*identity).or_insert(*group);
        let (one, other) = (top(&above, *group), top(&above, other));
        above.insert(one.max(other), one.min(other));
    }
    groups.iter().map(|it| top(&above, *it)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_with_a_picture_in_common_are_one() {
        let joined = join(&[1, 2, 3, 2, 4, 5, 3], &[70, 50, 60, 40, 30, 70, 50]);
        assert_eq!(joined, [70, 40, 40, 40, 30, 70, 40]);
    }

    #[test]
    fn equal_pictures_and_groups_are_on_one_side() {
        let identities: Vec<u64> = (0..1000).map(|it| it % 700).collect();
        let groups: Vec<u64> = (0..1000).map(|it| it / 10 % 70).collect();
        for groups in [None, Some(groups.as_slice())] {
            let sides = held_out(&identities, groups, 0.2, 3);
            for at in 700..1000 {
                assert_eq!(sides[at], sides[at - 700]);
            }
            let kept = sides.iter().filter(|it| **it).count();
            assert!((100..300).contains(&kept), "{kept}");
            if groups.is_some() {
                assert!(
                    sides
                        .chunks(10)
                        .all(|it| it.iter().all(|side| *side == it[0]))
                );
            }
        }
    }
}
