//! Models whose weights bitsandbytes or MLX packed into few bits: they compute what those programs say, and what is packed otherwise is
//! refused by its name. `tests/goldens/packed.py` wrote them.

use std::{collections::HashMap, fs};

use candle_core::{Device, Tensor};
use models::{
    arch::decoder::Input,
    checkpoint::{
        folder::{CONFIG, ModelFolder, WEIGHTS, read_json},
        load::{LoadDtypes, load_decoder},
        merged::MergedWeights,
        save::write_safetensors,
        tensors::read_tensors,
    },
    limits,
};
use serde_json::{Value as Json, json};

use crate::{decoder::logits, hostile::repository};

const FOLDERS: [&str; 4] = ["nf4", "nf4-nested", "mlx-4", "mlx-8"];

#[test]
fn packed_models_compute_what_the_programs_that_packed_them_say() {
    for name in FOLDERS {
        let path = repository(&format!("tests/goldens/packed/{name}"));
        let golden = read_json(&path.join("golden.json"), "read").unwrap();
        let tokens: Vec<u32> = serde_json::from_value(golden["tokens"][0].clone()).unwrap();
        let expected: Vec<f32> = serde_json::from_value(golden["logits"].clone()).unwrap();
        let folder = ModelFolder::open(&path).unwrap();
        let decoder = load_decoder(&folder, LoadDtypes::F32, false, &Device::Cpu).unwrap();
        let found = logits(&decoder, Input::new(&tokens, 1));
        let found: Vec<f32> = found.flatten_all().unwrap().to_vec1().unwrap();
        let largest = expected.iter().fold(0.0f32, |most, it| most.max(it.abs()));
        let off = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        let off = off.fold(0.0, f32::max) / largest;
        assert!(off < 1e-5 && found.len() == expected.len(), "{name}: {off}");
        assert_eq!(
            folder.parameter_count().unwrap(),
            decoder.config().parameters()
        );

        // By rows they are the same.
        let mut weights = MergedWeights::open(&folder, None, None).unwrap();
        for (weight, shape) in weights.list().to_vec() {
            let mut rows = 0;
            let whole = decoder.parameters().get(&weight).unwrap().tensor();
            weights
                .parts(&weight, &shape, |part| {
                    let count = part.dim(0)?;
                    let same = whole.narrow(0, rows, count)?;
                    let off = (part - same)?.abs()?.max_all()?.to_scalar::<f32>()?;
                    assert_eq!(off, 0.0, "{weight} of {name}");
                    rows += count;
                    Ok(())
                })
                .unwrap();
            assert_eq!(rows, shape[0]);
        }
    }
}

/// The golden of a name with another config, in a folder of its own.
fn changed(name: &str, change: impl FnOnce(&mut Json)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = repository(&format!("tests/goldens/packed/{name}"));
    let mut config = read_json(&from.join(CONFIG), "read").unwrap();
    change(&mut config);
    fs::write(folder.path().join(CONFIG), config.to_string()).unwrap();
    let weights = "model.safetensors";
    fs::copy(from.join(weights), folder.path().join(weights)).unwrap();
    folder
}

#[track_caller]
fn check_refused(name: &str, change: impl FnOnce(&mut Json), words: &str) {
    let folder = changed(name, change);
    let loaded = ModelFolder::open(folder.path())
        .and_then(|it| load_decoder(&it, LoadDtypes::F32, false, &Device::Cpu));
    let error = loaded.unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn what_is_packed_otherwise_is_refused_by_its_name() {
    let said = "packed weights are read where they are NF4 of bitsandbytes";
    check_refused(
        "nf4",
        |it| it["quantization_config"]["bnb_4bit_quant_type"] = json!("fp4"),
        &format!("is \"fp4\", and {said}"),
    );
    check_refused(
        "nf4",
        |it| it["quantization_config"]["load_in_4bit"] = json!(false),
        said,
    );
    check_refused(
        "nf4",
        |it| {
            it["quantization_config"] = json!({"quant_method": "gptq", "bits": 4, "group_size": 64})
        },
        said,
    );
    check_refused(
        "mlx-8",
        |it| it["quantization"]["mode"] = json!("mxfp4"),
        said,
    );
    // A config that says other groups than the files hold.
    check_refused(
        "mlx-8",
        |it| it["quantization"]["group_size"] = json!(32),
        "has 64 numbers in `.scales`, and 128 are needed",
    );
    check_refused(
        "nf4",
        |it| it["quantization_config"] = Json::Null,
        "holds values of dtype U8",
    );
}

#[test]
fn a_state_beside_a_weight_is_not_read_past_its_limit() {
    let folder = changed("nf4", |_| ());
    let path = folder.path().join(WEIGHTS);
    let mut tensors = read_tensors(&path).unwrap();
    let is_state = |name: &&String| name.ends_with(".quant_state.bitsandbytes__nf4");
    let name = tensors.keys().find(is_state).unwrap().clone();
    // Spaces before the JSON are JSON: only the length is wrong.
    let state: Vec<u8> = tensors[&name].to_vec1().unwrap();
    let mut long = vec![b' '; limits::PACKED_STATE.most as usize + 1 - state.len()];
    long.extend(state);
    let mut check = |length: usize, is_read: bool| {
        let state = Tensor::from_slice(&long[long.len() - length..], length, &Device::Cpu);
        tensors.insert(name.clone(), state.unwrap());
        write_safetensors(&path, &tensors, HashMap::new()).unwrap();
        let loaded = ModelFolder::open(folder.path())
            .and_then(|it| load_decoder(&it, LoadDtypes::F32, false, &Device::Cpu));
        let error = loaded.err().map(|it| it.to_string());
        assert_eq!(error.is_none(), is_read, "{error:?}");
        error.unwrap_or_default()
    };
    check(long.len() - 1, true);
    let refused = check(long.len(), false);
    assert!(
        refused.contains("its state is 65,537, and 65,536 bytes are the most"),
        "{refused}"
    );
}
