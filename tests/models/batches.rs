//! Token rows to batches: order, resuming, and what stands where.

use models::{
    data::{
        encode::TokenRow,
        loader::{BatchSettings, Batches, TokenStream},
        pack::{IGNORE, Packing},
    },
    random::Random,
};

fn random_rows(count: usize) -> Vec<TokenRow> {
    let mut random = Random::new(3);
    (0..count)
        .map(|number| {
            let length = 2 + random.below(40);
            TokenRow {
                // A row's number is its first token, to know it again.
                tokens: std::iter::once(number as u32)
                    .chain((1..length).map(|_| 5000))
                    .collect(),
                learned: vec![true; length],
                full_length: length,
            }
        })
        .collect()
}

fn settings(packing: Packing) -> BatchSettings {
    BatchSettings {
        row_length: 64,
        packing,
        rows_per_batch: 4,
        rows_per_step: 8,
        pad: 9999,
        seed: 7,
    }
}

#[test]
fn an_epoch_has_every_row_once_in_an_order_of_its_own() {
    for packing in [Packing::Packed, Packing::Padded] {
        let mut batches = Batches::of_rows(random_rows(303), settings(packing)).unwrap();
        let mut epochs: Vec<Vec<u32>> = Vec::new();
        let rows = batches.rows_per_epoch();
        // Batches of one row, so that none lies in two epochs.
        batches.set_rows_per_batch(1);
        for _ in 0..2 {
            let seen = (0..rows).flat_map(|_| {
                let batch = batches.next_batch();
                batch
                    .tokens
                    .into_iter()
                    .filter(|&token| token < 1000)
                    .collect::<Vec<_>>()
            });
            epochs.push(seen.collect());
        }
        assert_ne!(epochs[0], epochs[1]);
        for mut epoch in epochs {
            epoch.sort_unstable();
            assert_eq!(epoch, (0..303).collect::<Vec<u32>>(), "{packing:?}");
        }
    }
}

#[test]
fn batches_go_on_exactly_from_a_saved_position() {
    let stream = || {
        let mut stream = TokenStream::default();
        stream.add((0..500).collect(), 500);
        stream
    };
    let make: [&dyn Fn() -> Batches; 3] = [
        &|| Batches::of_rows(random_rows(50), settings(Packing::Packed)).unwrap(),
        &|| Batches::of_rows(random_rows(50), settings(Packing::Padded)).unwrap(),
        &|| Batches::of_stream(stream(), settings(Packing::Packed)).unwrap(),
    ];
    for make in make {
        let mut straight = make();
        for _ in 0..9 {
            straight.next_batch();
        }
        let saved = serde_json::to_string(&straight.position()).unwrap();
        let mut resumed = make();
        resumed
            .resume(serde_json::from_str(&saved).unwrap())
            .unwrap();
        for _ in 0..9 {
            assert_eq!(straight.next_batch(), resumed.next_batch());
        }
        let mut other = Batches::of_rows(random_rows(49), settings(Packing::Packed)).unwrap();
        assert!(other.resume(straight.position()).is_err());
    }
}

#[test]
fn smaller_batches_bring_the_same_rows() {
    let firsts = |sizes: &[usize]| -> Vec<u32> {
        let mut batches = Batches::of_rows(random_rows(50), settings(Packing::Padded)).unwrap();
        let take = |&size: &usize| {
            batches.set_rows_per_batch(size);
            batches
                .next_batch()
                .tokens
                .into_iter()
                .filter(|&token| token < 1000)
                .collect::<Vec<_>>()
        };
        sizes.iter().flat_map(take).collect()
    };
    assert_eq!(firsts(&[8, 8, 8]), firsts(&[8, 4, 4, 2, 2, 2, 2]));
}

#[test]
fn padded_rows_of_like_length_come_together() {
    let rows = random_rows(400);
    let all: usize = rows.iter().map(|row| row.tokens.len()).sum();
    let mut batches = Batches::of_rows(rows, settings(Packing::Padded)).unwrap();
    let padded: usize = (0..100).map(|_| batches.next_batch().tokens.len()).sum();
    assert!(
        (all as f64 / padded as f64) > 0.7,
        "{all} tokens in {padded}"
    );
}

#[test]
fn a_stream_is_seen_whole_and_each_target_is_the_next_token() {
    for length in [2u32, 63, 64, 65, 130, 191, 500] {
        let mut stream = TokenStream::default();
        stream.add((0..length).collect(), 0);
        let mut batches = Batches::of_stream(stream, settings(Packing::Packed)).unwrap();
        let mut once: Vec<u32> = Vec::new();
        for batch in batches.once() {
            once.extend(batch.targets.iter().filter(|&&target| target != IGNORE));
        }
        assert_eq!(once, (1..length).collect::<Vec<_>>());
        let mut seen = vec![false; length as usize];
        for _ in 0..300 {
            let batch = batches.next_batch();
            for (&token, &target) in batch
                .tokens
                .iter()
                .zip(&batch.targets)
                .filter(|(_, target)| **target != IGNORE)
            {
                assert_eq!(target, token + 1);
                seen[target as usize] = true;
            }
        }
        assert_eq!(
            seen.iter().filter(|&&it| it).count() as u32,
            length - 1,
            "of {length} tokens"
        );
    }
}

#[test]
fn documents_of_a_stream_do_not_see_each_other() {
    let mut stream = TokenStream::default();
    stream.add(vec![1, 2, 3], 3);
    stream.add(vec![4, 5], 2);
    let batches = Batches::of_stream(stream, settings(Packing::Packed)).unwrap();
    let batch = batches.once().next().unwrap();
    assert_eq!(batch.targets, [2, 3, IGNORE, 5]);
    assert_eq!(batch.positions, [0, 1, 2, 0]);
    assert_eq!(batch.documents, [0, 0, 0, 1]);
}
