//! Benchmarks of made-up figures: what follows from them, and what is refused.

use models::{
    bench::{Measured, StepWork, cases},
    device::{DeviceKind, dtype::Dtype},
};

use super::*;

/// A report of a processor whose steps all take so many milliseconds.
fn report(time: &str, millis: f64) -> BenchReport {
    let rows = cases(Size::Small, DeviceKind::Cpu, &[Dtype::F32]).into_iter();
    let rows = rows.map(|case| BenchRow {
        unit: case.workload().unwrap().unit,
        measured: Some(Measured {
            first_millis: 2.1 * millis,
            median_millis: millis,
            low_millis: millis - 0.12,
            high_millis: millis + 0.12,
            steps: 20,
            step_millis: vec![millis; 20],
            step: StepWork {
                amount: 512.0,
                operations: 1e9,
                bytes: 0.0,
                estimated_bytes: Some(1 << 27),
            },
            peak_bytes: Some(1 << 28),
        }),
        case,
        config: "a \"shape\", 4 x 128 tokens".to_owned(),
        problem: None,
    });
    BenchReport {
        format: FORMAT,
        time: time.to_owned(),
        version: "0.1.0".to_owned(),
        system: "Linux 6".to_owned(),
        size: Size::Small,
        seconds: 61.7,
        power: Power::default(),
        warnings: Vec::new(),
        imported: false,
        devices: vec![MeasuredDevice {
            device: FoundDevice::named(DeviceKind::Cpu, 0, "a processor"),
            sustained: Some(0.99),
            rows: rows.collect(),
        }],
    }
}

const EARLIER: &str = "2026-11-14T09:30:00.000Z";
const LATER: &str = "2026-11-21T09:30:00.000Z";

#[test]
fn a_benchmark_is_exported_and_imported_with_the_same_figures() {
    let folder = tempfile::tempdir().unwrap();
    let paths = Paths::new(Some(folder.path())).unwrap();
    let mut exported = report(LATER, 3.0);
    let case = exported.devices[0].rows[2].case.clone();
    exported.devices[0].rows.push(BenchRow::not_measured(
        case,
        "it needs about 9.0 GB, and 1.0 GB are free",
    ));
    for name in ["a.json", "b.csv"] {
        let path = folder.path().join(name);
        export(&exported, &path).unwrap();
        let mut read = import(&paths, &path).unwrap();
        assert!(read.imported);
        read.imported = false;
        if name == "b.csv" {
            // A table has no single steps.
            for row in &mut read.devices[0].rows {
                if let Some(measured) = &mut row.measured {
                    measured.step_millis = vec![3.0; 20];
                }
            }
        }
        assert_eq!(read, exported);
        let again = import(&paths, &path).unwrap_err();
        assert!(again.message.contains("is here already"), "{again}");
        delete(&paths, &exported.id()).unwrap();
    }
    let path = folder.path().join("c.md");
    export(&exported, &path).unwrap();
    let page = fs::read_to_string(path).unwrap();
    assert!(
        page.contains("| LoRA step, a \"shape\", 4 x 128 tokens, f32 | 3.00 | 2.88 to 3.12 |"),
        "{page}"
    );
}

#[test]
fn figures_that_are_read_back_have_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let paths = Paths::new(Some(folder.path())).unwrap();
    let mut exported = report(LATER, 3.0);
    let measured = exported.devices[0].rows[0].measured.as_mut().unwrap();
    let millis = (1..4000).map(|at| f64::from(at).sqrt() / 7.0);
    measured.step_millis = millis.collect();
    let path = folder.path().join("a.json");
    export(&exported, &path).unwrap();
    import(&paths, &path).unwrap();
    let bits = |report: &BenchReport| -> Vec<u64> {
        let measured = report.devices[0].rows[0].measured.as_ref().unwrap();
        measured.step_millis.iter().map(|it| it.to_bits()).collect()
    };
    assert_eq!(bits(&list(&paths)[0]), bits(&exported));
}

#[test]
fn a_file_that_is_no_benchmark_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let paths = Paths::new(Some(folder.path())).unwrap();
    let refused = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        import(&paths, &path).unwrap_err().message
    };
    assert!(refused("a.json", "{}").starts_with("not a benchmark: missing field"));
    assert!(refused("a.csv", "").starts_with("not a benchmark: it has no lines"));
    assert!(refused("a.txt", "").contains("ends in .json, .csv or .md"));
    let text = serde_json::to_string(&report(LATER, 3.0)).unwrap();
    let newer = text.replace("\"format\":1", "\"format\":9");
    assert!(refused("b.json", &newer).contains("its layout is version 9"));
    let negative = text.replace("\"median_millis\":3.0", "\"median_millis\":-3.0");
    assert!(refused("c.json", &negative).contains("a time that is none"));
    let outside = text.replace(LATER, "../../outside");
    assert!(refused("d.json", &outside).contains("is no time"));
    assert!(list(&paths).is_empty());
}

#[test]
fn a_benchmark_is_compared_with_the_last_of_the_same_machine_and_size() {
    let (earlier, later) = (report(EARLIER, 3.0), report(LATER, 6.0));
    let mut other_size = report("2026-11-20T09:30:00.000Z", 1.0);
    other_size.size = Size::Medium;
    let mut imported = report("2026-11-20T10:30:00.000Z", 1.0);
    imported.imported = true;
    let kept = [later.clone(), imported, other_size, earlier.clone()];
    assert_eq!(before(&later, &kept), Some(&earlier));
    assert_eq!(before(&earlier, &kept), None);

    let message = later.since_messages(&earlier);
    assert_eq!(
        message,
        [
            "a processor: 2.00x slower than on 14 November 2026 (16 of 16 cases by more than the spread of their steps)."
        ]
    );
    let same = report(LATER, 3.0625);
    assert_eq!(
        same.since_messages(&earlier),
        [
            "a processor: as fast as on 14 November 2026, within the spread of the steps (0 of 16 cases by more than the spread of their steps)."
        ]
    );
}

#[test]
fn what_slowed_the_machine_is_said() {
    let mut hot = report(LATER, 3.0);
    assert!(hot.all_warnings().is_empty());
    hot.power.on_battery = Some(true);
    hot.devices[0].sustained = Some(0.7);
    let measured = hot.devices[0].rows[2].measured.as_mut().unwrap();
    measured.median_millis = 400.0;
    measured.step_millis = (0..20).map(|at| 300.0 + 10.0 * f64::from(at)).collect();
    let warnings = hot.all_warnings().join("\n");
    for message in [
        "Measured on battery",
        "30 % slower at the end",
        "Slowed down on the CPU while being measured: LoRA step",
    ] {
        assert!(warnings.contains(message), "{message}: {warnings}");
    }
}

#[test]
fn rates_have_three_figures_and_a_unit() {
    use models::bench::Unit::{Bytes, Operations, Tokens};
    let said = [
        rate(41_234.4, Tokens),
        rate(9.876, Tokens),
        rate(1.24e12, Operations),
        rate(98.7e9, Operations),
        rate(3.81e10, Bytes),
    ];
    assert_eq!(
        said,
        [
            "41,234 tokens/s",
            "9.88 tokens/s",
            "1.24 TFLOP/s",
            "98.7 GFLOP/s",
            "38.1 GB/s"
        ]
    );
}
