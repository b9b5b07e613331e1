//! What the starter's data promises, for several seeds.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const SEEDS: [u64; 3] = [0, 1, 42];

/// Calls the check with each seed's exchanges: those to learn, and those held out.
#[track_caller]
fn check(expect: impl Fn(&[Exchange], &[Exchange])) {
    for seed in SEEDS {
        let data = starter_data(seed);
        expect(&data.train.concat(), &data.held_out);
    }
}

#[test]
fn a_held_out_question_is_never_read() {
    check(|train, held_out| {
        let read: BTreeSet<String> = train.iter().map(|it| question_key(&it.question)).collect();
        for exchange in held_out {
            assert!(
                !read.contains(&question_key(&exchange.question)),
                "{exchange:?}"
            );
        }
    });
}

#[test]
fn no_question_is_there_twice_or_has_two_answers() {
    check(|train, held_out| {
        let all: Vec<String> = [train, held_out]
            .concat()
            .iter()
            .map(|it| question_key(&it.question))
            .collect();
        let mut seen = BTreeSet::new();
        let twice: Vec<&String> = all.iter().filter(|&it| !seen.insert(it)).collect();
        assert!(twice.is_empty(), "{twice:?}");
    });
}

#[test]
fn a_conversation_has_one_to_six_turns() {
    for seed in SEEDS {
        let train = starter_data(seed).train;
        let with = |turns: usize| train.iter().filter(|it| it.len() == turns).count();
        assert_eq!((1..=6).map(with).sum::<usize>(), train.len());
        assert!(with(1) > train.len() * 2 / 5);
        assert!((2..=6).all(|turns| with(turns) > train.len() / 20));
    }
}

#[test]
fn a_seed_decides_everything() {
    assert_eq!(starter_data(7), starter_data(7));
    assert_ne!(starter_data(7).held_out, starter_data(8).held_out);
}

#[test]
fn at_least_a_tenth_of_every_category_is_held_out() {
    check(|train, held_out| {
        assert!((3000..6000).contains(&train.len()), "{}", train.len());
        let count = |them: &[Exchange]| {
            let mut counts: BTreeMap<Category, usize> = BTreeMap::new();
            them.iter()
                .for_each(|it| *counts.entry(it.category).or_default() += 1);
            counts
        };
        let (learned, asked) = (count(train), count(held_out));
        assert_eq!(learned.len(), 9);
        for (category, learned) in learned {
            let asked = asked.get(&category).copied().unwrap_or(0);
            assert!(
                asked * 10 >= learned + asked,
                "{category:?}: {asked} of {}",
                learned + asked
            );
        }
    });
}

#[test]
fn a_held_out_sum_is_held_out_in_every_phrasing() {
    let operands = |exchange: &Exchange| {
        let is_sum = exchange.category == Category::Arithmetic;
        let minus = exchange.question.contains('-') || exchange.question.contains("minus");
        is_sum.then(|| (minus, numbers_in(&exchange.question)))
    };
    check(|train, held_out| {
        let read: BTreeSet<_> = train.iter().filter_map(operands).collect();
        assert!(
            held_out
                .iter()
                .filter_map(operands)
                .all(|it| !read.contains(&it))
        );
    });
}

#[test]
fn every_held_out_answer_but_a_sum_was_read_with_another_question() {
    check(|train, held_out| {
        let read: BTreeSet<_> = train.iter().map(|it| (it.category, &it.answer)).collect();
        for exchange in held_out {
            let calculated = matches!(exchange.category, Category::Arithmetic | Category::Counting);
            assert!(
                calculated || read.contains(&(exchange.category, &exchange.answer)),
                "{exchange:?}"
            );
        }
    });
}

#[test]
fn sums_and_counts_are_right() {
    check(|train, held_out| {
        for exchange in train.iter().chain(held_out) {
            let question = exchange.question.to_lowercase();
            let (asked, answered) = (numbers_in(&question), numbers_in(&exchange.answer));
            match (exchange.category, asked.as_slice()) {
                (Category::Arithmetic, &[first, second]) => {
                    let is_rest = question.contains('-') || question.contains("minus");
                    let sign = if is_rest { -1 } else { 1 };
                    assert_eq!(answered, [first + sign * second], "{question}");
                }
                (Category::Counting, &[from, to]) => {
                    let counted: Vec<i64> = (from..=to).collect();
                    assert_eq!(answered, counted, "{question}");
                }
                (Category::Counting, &[number]) => {
                    assert_eq!(answered, [number + step_asked_for(&question)], "{question}");
                }
                (Category::Arithmetic | Category::Counting, _) => panic!("{question}"),
                _ => {}
            }
        }
    });
}

/// Against the calendar itself: 1 January 2024 was a Monday, and 2023 had 365 days.
#[test]
fn days_and_months_follow_each_other_as_in_a_calendar() {
    let days = [
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ];
    // How many days before the first of January each month begins, counted backwards through 2023.
    let months = [
        ("December", 31),
        ("November", 61),
        ("October", 92),
        ("September", 122),
        ("August", 153),
        ("July", 184),
        ("June", 214),
        ("May", 245),
        ("April", 275),
        ("March", 306),
        ("February", 334),
        ("January", 365),
    ];
    let place = |text: &str| -> Option<(i64, i64)> {
        let find = |name: &str| text.to_lowercase().contains(&name.to_lowercase());
        let day = days
            .iter()
            .position(|name| find(name))
            .map(|it| (it as i64, 7));
        day.or_else(|| {
            months
                .iter()
                .position(|(name, _)| find(name))
                .map(|it| (11 - it as i64, 12))
        })
    };
    check(|train, held_out| {
        for exchange in train.iter().chain(held_out) {
            if !matches!(exchange.category, Category::Days | Category::Months) {
                continue;
            }
            let question = exchange.question.to_lowercase();
            let (asked, circle) = place(&question).unwrap();
            if let Some((answered, _)) = place(&exchange.answer) {
                let step = step_asked_for(&question);
                assert_eq!(answered, (asked + step).rem_euclid(circle), "{question}");
            } else {
                let begins = |place: i64| months.get((11 - place) as usize).map_or(0, |it| it.1);
                let length = begins(asked) - begins(asked + 1);
                assert_eq!(numbers_in(&exchange.answer)[0], length, "{question}");
            }
        }
    });
}

fn step_asked_for(question: &str) -> i64 {
    let back = ["before", "precede", "yesterday"];
    if back.iter().any(|it| question.contains(it)) {
        -1
    } else {
        1
    }
}

fn numbers_in(text: &str) -> Vec<i64> {
    let words = text.split(|it: char| !it.is_ascii_digit());
    words.filter_map(|it| it.parse().ok()).collect()
}
