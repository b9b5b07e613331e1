//! Every workload on the processor, and what follows from made-up figures.

use super::{
    advice::{OnDevice, advice, headrooms, ratios, roofline_share},
    compare::{changes, describe, mean},
    published::PUBLISHED,
    *,
};
use crate::{
    device::{FoundDevice, choose},
    tasks::language::request::Method,
};

/// The processor, as a place.
fn processor() -> BenchDevice {
    let found = [FoundDevice::named(DeviceKind::Cpu, 0, "a processor")];
    BenchDevice {
        device: Device::Cpu,
        choice: choose(Default::default(), &found).unwrap(),
        avoid_kernels: Vec::new(),
    }
}

/// A row with a median of so many milliseconds, on steps that differ by a tenth.
fn row(
    workload: &str,
    dtype: Option<Dtype>,
    variation: Variation,
    millis: f64,
    [amount, operations, bytes]: [f64; 3],
) -> BenchRow {
    let case = BenchCase {
        workload: workload.to_owned(),
        size: Size::Small,
        dtype,
        variation,
    };
    let steps = (0..23).map(|at| millis * (0.9 + 0.1 * (at % 3) as f64));
    let steps: Vec<f64> = steps.collect();
    let step = StepWork {
        amount,
        operations,
        bytes,
        estimated_bytes: None,
    };
    let measured = Measured::new(&steps, step, Some(1000)).unwrap();
    BenchRow {
        measured: Some(measured),
        problem: None,
        ..BenchRow::not_measured(case, "")
    }
}

fn rows(rows: usize) -> Variation {
    Variation {
        rows: Some(rows),
        ..Variation::default()
    }
}

fn workers(workers: usize) -> Variation {
    Variation {
        workers: Some(workers),
        ..Variation::default()
    }
}

fn on<'a>(name: &'a str, setting: &'a str, rows: &'a [BenchRow]) -> OnDevice<'a> {
    OnDevice {
        name,
        setting,
        rows,
    }
}

const F32: Option<Dtype> = Some(Dtype::F32);
const BF16: Option<Dtype> = Some(Dtype::Bf16);

#[test]
fn every_workload_is_measured_on_a_processor() {
    let place = processor();
    for case in cases(Size::Small, DeviceKind::Cpu, &[Dtype::F32]) {
        let row = measure(case, &place, 0.0, &|| false);
        assert_eq!(row.problem, None, "{row:?}");
        let measured = row.measured.unwrap();
        assert!(measured.per_second() > 0.0 && measured.per_second().is_finite());
        assert!(measured.low_millis <= measured.median_millis);
        assert!(measured.median_millis <= measured.high_millis);
        assert!(measured.peak_bytes.is_none_or(|bytes| bytes > 10 << 20));
        assert!(!row.config.is_empty());
    }
}

#[test]
fn cases_have_each_dtype_and_batches_have_none() {
    let cases = cases(Size::Medium, DeviceKind::Cuda, &[Dtype::F32, Dtype::Bf16]);
    let of = |name: &str| cases.iter().filter(|it| it.workload == name).count();
    assert_eq!((of("lora_step"), of("full_step"), of(MATMUL)), (6, 2, 2));
    assert_eq!(of("loader"), 3);
    let loader = cases.iter().find(|it| it.workload == "loader").unwrap();
    assert_eq!(loader.dtype, None);
}

#[test]
fn what_is_made_for_a_step_is_compared_with_what_the_step_takes() {
    let rows = [
        row(
            "picture_step",
            F32,
            Variation::default(),
            100.0,
            [128.0, 1.0, 0.0],
        ),
        row("picture_loader", None, workers(1), 25.0, [128.0, 0.0, 0.0]),
        row("picture_loader", None, workers(2), 12.5, [128.0, 0.0, 0.0]),
    ];
    let said = headrooms(&[on("CPU", "cpu", &rows)]);
    assert_eq!(
        said,
        ["Making batches of pictures on CPU: 8.0 times as fast as a step needs, with 2 workers."]
    );
    assert_eq!(headrooms(&[on("CPU", "cpu", &rows[..1])]), [""; 0]);
}

#[test]
fn what_passed_the_check_in_bf16_learns_in_bf16() {
    let metal = [FoundDevice::named(DeviceKind::Metal, 0, "Apple M3")];
    let place = BenchDevice {
        choice: choose(Default::default(), &metal).unwrap(),
        ..processor()
    };
    for case in cases(Size::Small, DeviceKind::Metal, &[Dtype::F32, Dtype::Bf16]) {
        if case.workload == "lora_step" {
            let plan = learning::plan(&case, &place, Method::Lora).unwrap();
            assert_eq!(Some(plan.run.dtype.compute), case.dtype);
            assert_eq!(Some(plan.run.batch.rows), case.variation.rows);
        }
    }
}

#[test]
fn what_does_not_fit_or_is_unknown_is_a_row_with_a_reason() {
    let place = processor();
    let case = BenchCase {
        workload: "full_step".to_owned(),
        size: Size::Large,
        dtype: F32,
        variation: rows(100_000),
    };
    let row = measure(case.clone(), &place, 0.0, &|| false);
    let problem = row.problem.unwrap();
    assert!(problem.contains("it needs about "), "{problem}");
    let unknown = BenchCase {
        workload: "dreams".to_owned(),
        ..case
    };
    let problem = measure(unknown, &place, 0.0, &|| false).problem.unwrap();
    assert_eq!(problem, "this version does not know `dreams`");
}

#[test]
fn a_device_is_said_to_be_as_much_faster_as_it_is() {
    let work = [1024.0, 0.0, 0.0];
    let cpu = [row("lora_step", F32, rows(4), 169.0, work)];
    let metal = [row("lora_step", F32, rows(4), 100.0, work)];
    let devices = [on("the CPU", "cpu", &cpu), on("Metal", "metal", &metal)];
    assert_eq!(
        ratios(&devices),
        ["LoRA step: Metal is 1.69x faster than the CPU."]
    );
    let cpu = [row("lora_step", F32, rows(2), 169.0, work)];
    assert_eq!(
        ratios(&[devices[1], on("the CPU", "cpu", &cpu)]),
        ["LoRA step: Metal (f32, 4 rows) is 1.69x faster than the CPU (f32, 2 rows)."]
    );
    let chosen = &advice(&devices)[0];
    assert_eq!((chosen.setting, chosen.value.as_str()), ("device", "metal"));
    assert!(chosen.why.contains("1.69 times"), "{}", chosen.why);
}

#[test]
fn advice_follows_from_the_figures() {
    let work = |rows: f64| [rows * 128.0, 0.0, 0.0];
    let measured = [
        row("lora_step", F32, rows(1), 20.0, work(1.0)),
        row("lora_step", F32, rows(4), 40.0, work(4.0)),
        row("lora_step", F32, rows(8), 79.0, work(8.0)),
        row("lora_step", BF16, rows(4), 80.0, work(4.0)),
        row("loader", None, workers(0), 1.0, [64.0, 0.0, 0.0]),
        row("loader", None, workers(4), 0.5, [64.0, 0.0, 0.0]),
    ];
    let only = [on("the CPU", "cpu", &measured)];
    let found = advice(&only);
    let chosen = |setting: &str| {
        let found = found.iter().find(|it| it.setting == setting);
        found.map(|it| it.value.as_str())
    };
    // 8 rows are a hundredth faster than 4, and take twice the memory.
    assert_eq!(chosen("batch.rows"), Some("4"));
    assert_eq!(chosen("dtype.compute"), Some("f32"));
    assert_eq!(chosen("workers"), Some("0"));
    assert_eq!(chosen("device"), None);
    assert!(ratios(&only).is_empty());
}

#[test]
fn the_share_of_the_roofline_is_that_of_the_scarcer_ceiling() {
    let measured = [
        row(MATMUL, F32, rows(1), 1.0, [100.0, 100.0, 0.0]),
        row(BANDWIDTH, F32, rows(1), 1.0, [1e9, 0.0, 1e9]),
        // At best 0.5 ms of arithmetic and 2 ms of memory.
        row("generation", F32, rows(1), 4.0, [1.0, 50.0, 2e9]),
        row("generation", BF16, rows(1), 4.0, [1.0, 50.0, 2e9]),
        row("generation", F32, rows(4), 4.0, [1.0, 50.0, 2e6]),
    ];
    let share = |at: usize| roofline_share(&measured[at], &measured);
    assert!((share(2).unwrap() - 0.5).abs() < 1e-9);
    for at in [0, 1, 3, 4] {
        assert_eq!(share(at), None, "row {at}");
    }
}

#[test]
fn a_change_within_the_spread_is_none() {
    let work = [128.0, 0.0, 0.0];
    let case = |millis| vec![row("lora_step", F32, rows(4), millis, work)];
    let (before, twice, close) = (case(100.0), case(200.0), case(103.0));
    let slower = changes(&before, &twice).remove(0);
    assert!(slower.is_clear);
    assert_eq!(slower.describe(), "2.00x slower");
    let same = changes(&before, &close).remove(0);
    assert!(!same.is_clear);
    assert_eq!(same.describe(), "no clear change");
    let other = vec![row("lora_step", F32, rows(8), 100.0, work)];
    assert!(changes(&before, &other).is_empty());
}

#[test]
fn ratios_are_said_as_people_say_them() {
    for (ratio, said) in [
        (1.69, "1.69x faster"),
        (1.031, "3 % faster"),
        (1.001, "as fast"),
        (0.97, "3 % slower"),
        (0.5, "2.00x slower"),
    ] {
        assert_eq!(describe(ratio), said);
    }
    assert_eq!(mean(&[]), None);
    assert!((mean(&[4.0, 0.25]).unwrap() - 1.0).abs() < 1e-12);
}

#[test]
fn a_row_is_read_back_as_it_was_written() {
    let row = row("lora_step", BF16, rows(4), 3.0, [1.0, 2.0, 0.0]);
    let text = serde_json::to_string(&row).unwrap();
    assert!(text.starts_with(r#"{"workload":"lora_step","size":"small","dtype":"bf16","rows":4"#));
    assert_eq!(serde_json::from_str::<BenchRow>(&text).unwrap(), row);
}

#[test]
fn what_others_published_names_its_work_its_hardware_and_its_source() {
    assert_eq!(PUBLISHED.len(), 16);
    for published in PUBLISHED.iter() {
        assert!(published.source.starts_with("https://"));
        assert!(!published.work.is_empty() && !published.hardware.is_empty());
        assert!(published.tokens_per_second > 0.0);
        assert!(WORKLOADS.iter().any(|it| it.name == published.workload));
    }
}
