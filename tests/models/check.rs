//! The device check, on the CPU: a device that is right, one that is made to fail, and what a plan makes of it.

use std::ops::ControlFlow;

use models::{
    check::{
        CheckCase, CheckRow, Fallback, Fault, FaultKind, GENERATION, GROUPS, MEMORY, TRAINING,
        Verdict, cases, dtypes, fallback, run_cases,
    },
    device::{
        Checked, Device,
        dtype::{DeviceClass, Dtype},
    },
    ops::kernels,
};

#[test]
fn every_operation_of_the_cpu_is_right() {
    // The CPU can be asked for what a GPU computes in, though no plan does so.
    for class in [DeviceClass::Cpu, DeviceClass::CpuBf16, DeviceClass::Cuda80] {
        for group in GROUPS {
            let rows = rows(group.name, class, &[]);
            let cases = cases(group.name, class).unwrap();
            assert_eq!(rows.len(), cases.len());
            for (row, case) in rows.into_iter().zip(cases) {
                assert_eq!(
                    (row.operation.as_str(), row.dtype),
                    (case.operation, case.dtype)
                );
                assert_eq!(row.verdict, Verdict::Ok, "{row:?}");
                // Enough is left for devices that sum in another order. The CPU has no kernels for f16, and products of
                // candle are several roundings off.
                let usual = if row.dtype == Dtype::F16 { 1.0 } else { 0.5 };
                assert!(row.error.unwrap() <= row.tolerance * usual, "{row:?}");
                assert_eq!((row.message, row.fallback), (None, None));
                let is_timed = row.operation != MEMORY;
                assert_eq!(row.device_millis.is_some(), is_timed, "{}", row.operation);
                assert_eq!(row.cpu_millis, None, "the CPU has nothing to compare with");
            }
        }
    }
}

#[test]
fn every_kernel_is_checked_under_its_name() {
    let checked: Vec<&str> = GROUPS.iter().flat_map(|it| it.operations()).collect();
    for name in kernels::NAMES {
        assert!(checked.contains(name), "{name}");
    }
}

#[test]
fn each_device_is_checked_in_the_dtypes_a_plan_may_choose() {
    assert_eq!(dtypes(DeviceClass::Cpu), [Dtype::F32]);
    assert_eq!(dtypes(DeviceClass::CpuBf16), [Dtype::F32, Dtype::Bf16]);
    assert_eq!(dtypes(DeviceClass::CudaBefore80), [Dtype::F32, Dtype::F16]);
    for class in [
        DeviceClass::Metal,
        DeviceClass::MetalChecked,
        DeviceClass::Cuda80,
    ] {
        let all = [Dtype::F32, Dtype::Bf16, Dtype::F16];
        assert_eq!(dtypes(class), all);
        let of = |group| cases(group, class).unwrap();
        let named = |group| of(group).into_iter().map(|it| (it.operation, it.dtype));
        let attention = all.map(|dtype| ("attention", dtype));
        assert!(named("attention").eq(attention));
        // What learns is f32 everywhere.
        assert!(of("optimizer").iter().all(|it| it.dtype == Dtype::F32));
    }
}

#[test]
fn an_unknown_group_is_named_with_the_known_ones() {
    let error = cases("magic", DeviceClass::Cpu).unwrap_err().to_string();
    let begin = "`group` is `magic`; there is `gates and sums`, `norms`, ";
    assert!(error.starts_with(begin), "{error}");
}

#[test]
fn a_wrong_result_is_inexact_by_the_size_of_its_error() {
    let row = faulty("norms", "rms_norm", FaultKind::Wrong);
    assert_eq!(row.verdict, Verdict::Inexact);
    let error = row.error.unwrap();
    assert!((error - 0.25).abs() < 1e-3, "{error}");
    let words = row.message.unwrap();
    assert!(words.contains(" is off by 2.5e-1 on x ["), "{words}");
    // The kernel is wrong, and without it all is well.
    assert_eq!(row.fallback, Some(Fallback::Composed));
    assert_eq!((row.device_millis, row.cpu_millis), (None, None));
}

#[test]
fn a_refusal_is_missing_with_the_words_of_the_device() {
    let row = faulty("positions", "rope", FaultKind::Missing);
    assert_eq!((row.verdict, row.error), (Verdict::Missing, None));
    let words = "the device refused, because a fault was asked for";
    assert_eq!(row.message.as_deref(), Some(words));
    assert_eq!(row.fallback, Some(Fallback::Composed));
}

#[test]
fn what_has_no_kernel_falls_back_to_the_cpu() {
    for (group, operation) in [
        ("gates and sums", "convert"),
        ("training", MEMORY),
        ("training", TRAINING),
        ("generation", GENERATION),
    ] {
        for kind in [FaultKind::Wrong, FaultKind::Missing] {
            let row = faulty(group, operation, kind);
            assert_eq!(row.fallback, Some(Fallback::Cpu), "{row:?}");
        }
    }
}

#[test]
fn a_fault_is_one_operations_and_leaves_the_others_well() {
    let fault = fault("rms_norm", FaultKind::Wrong);
    let verdicts = rows("norms", DeviceClass::Cpu, &[fault])
        .into_iter()
        .map(|it| it.verdict);
    assert!(verdicts.eq([Verdict::Inexact, Verdict::Ok, Verdict::Ok]));
}

#[test]
fn wrong_products_of_bf16_on_the_cpu_cost_f32_nothing() {
    let class = DeviceClass::CpuBf16;
    let mut cases: Vec<CheckCase> = GROUPS
        .iter()
        .flat_map(|it| cases(it.name, class).unwrap())
        .collect();
    cases.retain(|it| it.operation == "linear" && it.dtype == Dtype::Bf16);
    let rows = rows_of(&cases, class, &[fault("linear", FaultKind::Wrong)]);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].fallback, Some(Fallback::Cpu));
    let checked = Checked::from_rows(&rows);
    assert_eq!(checked.refused_dtypes, [Dtype::Bf16]);
    assert!(checked.composed.is_empty(), "{checked:?}");
}

#[test]
fn who_listens_can_stop_after_a_row_and_go_on_with_the_rest_elsewhere() {
    let class = DeviceClass::Cpu;
    let all = cases("norms", class).unwrap();
    let mut heard = Vec::new();
    run_cases(&all, &Device::Cpu, class, &[], &mut |row| {
        heard.push(row.operation);
        ControlFlow::Break(())
    })
    .unwrap();
    assert_eq!(heard, ["rms_norm"]);
    let rest = rows_of(&all[heard.len()..], class, &[]);
    let rest = rest.into_iter().map(|row| row.operation);
    assert!(rest.eq(["layer_norm", "residual_norm"]));
}

#[test]
fn a_case_whose_process_ended_is_tried_without_its_kernel() {
    let class = DeviceClass::Cpu;
    let case = &cases("norms", class).unwrap()[0];
    // A crash would end this process, if the kernel were tried again.
    let crash = fault("rms_norm", FaultKind::Crash);
    let works = fallback(case, &Device::Cpu, class, &[crash]).unwrap();
    assert_eq!(works, Fallback::Composed);
    let row = CheckRow::crashed(case, "it was killed", Some(works)).unwrap();
    assert_eq!(
        (row.group.as_str(), row.operation.as_str()),
        ("norms", "rms_norm")
    );
    assert_eq!((row.verdict, row.error), (Verdict::Crashed, None));
    assert_eq!(Checked::from_rows(&[row]).composed, ["rms_norm"]);
}

#[test]
fn a_row_is_written_in_words_and_read_back() {
    let row = faulty("positions", "rope", FaultKind::Wrong);
    let json = serde_json::to_value(&row).unwrap();
    assert_eq!(
        (&json["verdict"], &json["fallback"]),
        (&"inexact".into(), &"composed".into())
    );
    assert_eq!(serde_json::from_value::<CheckRow>(json).unwrap(), row);
}

#[test]
fn a_device_that_is_right_or_slow_changes_nothing_but_what_is_known_of_bf16() {
    let mut rows = whole_check();
    let checked = known(true, &[], &[]);
    assert_eq!(Checked::from_rows(&rows), checked);
    rows[3].verdict = Verdict::Slow;
    assert_eq!(Checked::from_rows(&rows), checked);
    // The memory's figures are shown, and no reason to compute elsewhere.
    fail(&mut rows, MEMORY, Dtype::F32, Some(Fallback::Cpu));
    assert_eq!(Checked::from_rows(&rows), checked);
    // A check that was broken off has not passed.
    rows.retain(|row| row.operation != GENERATION);
    assert_eq!(Checked::from_rows(&rows), Checked::default());
    assert_eq!(Checked::from_rows(&[]), Checked::default());
}

#[test]
fn an_operation_that_needs_no_kernel_does_without_it() {
    let mut rows = whole_check();
    fail(&mut rows, "rope", Dtype::Bf16, Some(Fallback::Composed));
    fail(&mut rows, "rms_norm", Dtype::F32, Some(Fallback::Composed));
    let composed = known(true, &[], &["rms_norm", "rope"]);
    assert_eq!(Checked::from_rows(&rows), composed);
    // Nobody knows which kernel it is that a whole model can't stand.
    fail(&mut rows, TRAINING, Dtype::F32, Some(Fallback::Composed));
    assert_eq!(Checked::from_rows(&rows).composed, kernels::NAMES);
}

#[test]
fn a_dtype_in_which_something_does_not_work_is_refused() {
    let mut rows = whole_check();
    fail(&mut rows, "attention", Dtype::Bf16, Some(Fallback::Cpu));
    assert_eq!(Checked::from_rows(&rows), known(false, &[Dtype::Bf16], &[]));
    // Then f32 too, in a process that ended.
    fail(&mut rows, "linear", Dtype::F32, None);
    let checked = Checked::from_rows(&rows);
    assert_eq!(checked.refused_dtypes, [Dtype::F32, Dtype::Bf16]);
    let words = "linear in f32: the output is off";
    assert_eq!(checked.training_failed.as_deref(), Some(words));
}

#[test]
fn what_is_always_f32_counts_in_every_dtype() {
    let mut rows = whole_check();
    fail(&mut rows, "adamw", Dtype::F32, Some(Fallback::Cpu));
    let checked = Checked::from_rows(&rows);
    let all = [Dtype::F32, Dtype::Bf16, Dtype::F16];
    assert_eq!(checked.refused_dtypes, all);
    assert!(checked.training_failed.unwrap().starts_with("adamw in f32"));
}

#[test]
fn for_f16_no_other_dtype_loses_a_kernel() {
    let mut rows = whole_check();
    fail(&mut rows, "rope", Dtype::F16, Some(Fallback::Composed));
    assert_eq!(Checked::from_rows(&rows), known(true, &[Dtype::F16], &[]));
}

/// What is known of a device on which something can be trained.
fn known(bf16: bool, refused_dtypes: &[Dtype], composed: &[&str]) -> Checked {
    Checked {
        bf16,
        refused_dtypes: refused_dtypes.to_vec(),
        composed: composed.iter().map(|&it| it.to_owned()).collect(),
        training_failed: None,
    }
}

/// What the check of a group on the CPU says, as if it were a device of this class.
fn rows(group: &str, class: DeviceClass, faults: &[Fault]) -> Vec<CheckRow> {
    rows_of(&cases(group, class).unwrap(), class, faults)
}

fn rows_of(cases: &[CheckCase], class: DeviceClass, faults: &[Fault]) -> Vec<CheckRow> {
    let mut rows = Vec::new();
    let mut keep = |row| {
        rows.push(row);
        ControlFlow::Continue(())
    };
    run_cases(cases, &Device::Cpu, class, faults, &mut keep).unwrap();
    rows
}

/// The row of an operation that fails as asked.
fn faulty(group: &str, operation: &str, kind: FaultKind) -> CheckRow {
    let class = DeviceClass::Cpu;
    let mut cases = cases(group, class).unwrap();
    cases.retain(|case| case.operation == operation);
    let mut rows = rows_of(&cases, class, &[fault(operation, kind)]);
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

fn fault(operation: &str, kind: FaultKind) -> Fault {
    Fault {
        operation: operation.to_owned(),
        kind,
    }
}

/// All rows of a GPU that is right.
fn whole_check() -> Vec<CheckRow> {
    let cases = GROUPS
        .iter()
        .flat_map(|it| cases(it.name, DeviceClass::Cuda80).unwrap());
    let row = |case| CheckRow {
        verdict: Verdict::Ok,
        message: None,
        ..CheckRow::crashed(&case, "", None).unwrap()
    };
    cases.map(row).collect()
}

/// Makes one of the rows inexact.
fn fail(rows: &mut [CheckRow], operation: &str, dtype: Dtype, fallback: Option<Fallback>) {
    let mut rows = rows.iter_mut();
    let row = rows.find(|row| row.operation == operation && row.dtype == dtype);
    let row = row.unwrap();
    row.verdict = Verdict::Inexact;
    row.message = Some("the output is off".to_owned());
    row.fallback = fallback;
}
