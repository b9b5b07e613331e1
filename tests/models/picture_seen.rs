//! How pictures are seen while a network learns from them.

use std::collections::BTreeMap;

use models::tasks::picture::{
    augment::{Augmentation, Border, Flip, write_plain, write_shifted},
    pixels::Shape,
};

use crate::picture_data::noise;

const MEAN: [f32; 3] = [0.5, 0.4, 0.3];

const STD: [f32; 3] = [0.2, 0.25, 0.3];

fn seen(
    augmentation: &Augmentation,
    shape: Shape,
    to: Shape,
    epoch: usize,
    row: usize,
) -> Vec<f32> {
    let mut out = vec![0.0; to.bytes()];
    augmentation.write(
        &noise(shape, row as u64),
        shape,
        to,
        &MEAN,
        &STD,
        9,
        epoch,
        row,
        &mut out,
    );
    out
}

#[test]
fn how_a_picture_is_seen_follows_from_its_epoch_and_row_alone() {
    let shape = Shape::new(12, 10, 3);
    for augmentation in [
        Augmentation {
            pad: 2,
            flip: Flip::Random,
            cutout: 3,
            ..Augmentation::default()
        },
        Augmentation {
            random_resized_crop: Some((0.3, 1.0)),
            jitter: 0.4,
            ..Augmentation::default()
        },
        Augmentation {
            pad: 4,
            border: Border::Zeros,
            flip: Flip::Alternating,
            jitter: 0.2,
            ..Augmentation::default()
        },
    ] {
        let forward: Vec<_> = (0..50)
            .map(|row| seen(&augmentation, shape, shape, 3, row))
            .collect();
        let backward: Vec<_> = (0..50)
            .rev()
            .map(|row| seen(&augmentation, shape, shape, 3, row))
            .collect();
        assert!(forward.iter().eq(backward.iter().rev()));
        let other: Vec<_> = (0..50)
            .map(|row| seen(&augmentation, shape, shape, 4, row))
            .collect();
        assert!(forward.iter().zip(&other).filter(|(a, b)| a != b).count() > 35);
        assert!(forward.iter().flatten().all(|it| it.is_finite()));
    }
}

#[test]
fn a_shift_with_a_border_is_the_part_of_the_picture_that_it_says() {
    // So wide that no part of it is the mirror of another.
    let shape = Shape::new(5, 7, 3);
    for border in [Border::Reflect, Border::Zeros] {
        let augmentation = Augmentation {
            pad: 2,
            border,
            flip: Flip::Random,
            ..Augmentation::default()
        };
        let (mut places, mut mirrored) = (BTreeMap::new(), 0);
        for row in 0..400 {
            let (found, pixels) = (
                seen(&augmentation, shape, shape, 0, row),
                noise(shape, row as u64),
            );
            let inside = |at: isize, count: usize| match border {
                _ if (0..count as isize).contains(&at) => Some(at as usize),
                Border::Zeros => None,
                Border::Reflect if at < 0 => Some(-at as usize),
                Border::Reflect => Some(2 * (count - 1) - at as usize),
            };
            let is = |top: isize, left: isize, is_mirrored: bool| {
                (0..5).all(|y: isize| {
                    (0..7).all(|x: isize| {
                        let column = if is_mirrored { 6 - x } else { x };
                        let place = inside(y + top, 5).zip(inside(column + left, 7));
                        (0..3).all(|channel| {
                            let byte = place.map_or(0, |(y, x)| pixels[(y * 7 + x) * 3 + channel]);
                            found[((y * 7 + x) * 3) as usize + channel] == number(byte, channel)
                        })
                    })
                })
            };
            let all = (-2..=2).flat_map(|top| (-2..=2).map(move |left| (top, left)));
            let place = all
                .clone()
                .find(|(top, left)| is(*top, *left, false))
                .map(|it| (it, false));
            let place = place.or_else(|| {
                all.clone()
                    .find(|(top, left)| is(*top, *left, true))
                    .map(|it| (it, true))
            });
            let (place, is_mirrored) = place.unwrap();
            *places.entry(place).or_insert(0) += 1;
            mirrored += usize::from(is_mirrored);
        }
        assert_eq!(places.len(), 25);
        assert!(places.values().all(|it| *it > 3));
        assert!((150..250).contains(&mirrored), "{mirrored}");
    }
}

/// What a byte is as a number of a channel.
fn number(byte: u8, channel: usize) -> f32 {
    (f32::from(byte) / 255.0 - MEAN[channel]) / STD[channel]
}

#[test]
fn every_picture_is_seen_both_ways_in_two_epochs_where_mirrors_alternate() {
    let shape = Shape::new(2, 3, 3);
    let augmentation = Augmentation {
        flip: Flip::Alternating,
        ..Augmentation::default()
    };
    let mut first = 0;
    for row in 0..200 {
        let mut plain = vec![0.0; shape.bytes()];
        write_plain(
            &noise(shape, row as u64),
            shape,
            shape,
            &MEAN,
            &STD,
            &mut plain,
        );
        let ways = [0, 1, 2, 3].map(|epoch| seen(&augmentation, shape, shape, epoch, row) == plain);
        assert!(ways[0] != ways[1] && ways[0] == ways[2] && ways[1] == ways[3]);
        first += usize::from(ways[0]);
    }
    assert!((70..130).contains(&first), "{first}");
}

#[test]
fn a_square_is_blotted_out_after_the_numbers_were_made() {
    let shape = Shape::square(8, 3);
    let augmentation = Augmentation {
        cutout: 4,
        ..Augmentation::default()
    };
    let mut sizes = BTreeMap::new();
    for row in 0..200 {
        let pixels = noise(shape, row as u64);
        let found = seen(&augmentation, shape, shape, 0, row);
        let blotted = |at: usize| (0..3).all(|channel| found[at * 3 + channel] == 0.0);
        let count = (0..64).filter(|at| blotted(*at)).count();
        *sizes.entry(count).or_insert(0) += 1;
        for at in (0..64).filter(|at| !blotted(*at)) {
            for channel in 0..3 {
                assert_eq!(
                    found[at * 3 + channel],
                    number(pixels[at * 3 + channel], channel)
                );
            }
        }
    }
    // A whole square, and those that the edges cut: two or three of four rows and columns are the least.
    assert!(
        sizes.keys().all(|it| [4, 6, 8, 9, 12, 16].contains(it)),
        "{sizes:?}"
    );
    assert!(sizes[&16] > 40);
}

#[test]
fn a_picture_is_measured_with_as_it_is() {
    let shape = Shape::new(4, 6, 1);
    let pixels: Vec<u8> = (0..24).collect();
    let mut out = vec![9.0; 2 * 3 * 3];
    write_plain(
        &pixels,
        shape,
        Shape::new(2, 3, 3),
        &[0.0],
        &[1.0 / 255.0],
        &mut out,
    );
    // Rows 1 and 2; (6 - 3) / 2 is 1.5, which goes to 2. Grey is in all channels.
    let expected = [8, 9, 10, 14, 15, 16].map(|it| (it as f32 / 255.0) / (1.0 / 255.0));
    assert!(
        out.chunks(3)
            .zip(expected)
            .all(|(pixel, it)| pixel == [it; 3])
    );
    let mut shifted = vec![9.0; 24];
    let mut mirrored = vec![9.0; 24];
    write_shifted(
        &pixels,
        shape,
        shape,
        (-1, 0),
        false,
        &[0.0],
        &[1.0],
        &mut shifted,
    );
    write_shifted(
        &pixels,
        shape,
        shape,
        (-1, 0),
        true,
        &[0.0],
        &[1.0],
        &mut mirrored,
    );
    let rows = [1, 0, 1, 2];
    for (at, row) in rows.into_iter().enumerate() {
        for column in 0..6 {
            let expected = (row * 6 + column) as f32 / 255.0;
            assert_eq!(
                (shifted[at * 6 + column], mirrored[at * 6 + 5 - column]),
                (expected, expected)
            );
        }
    }
    // One that is too small is scaled.
    let mut larger = vec![9.0; 64];
    write_plain(
        &[7; 24],
        shape,
        Shape::square(8, 1),
        &[0.0],
        &[1.0],
        &mut larger,
    );
    assert!(larger.iter().all(|it| *it == 7.0 / 255.0));
}
