//! ViTs of transformers and timm give the scores, slopes and maps that those give. What they have to be is from
//! `tests/goldens/picture_vit.py`.

use std::{fs, path::Path};

use candle_core::{D, DType, Device, Tensor};
use models::{
    arch::picture::{Architecture, Mode, Network, Transformer},
    checkpoint::keep::Checkpoints,
    ops::classify::{Squash, classify},
    tape::{Gradients, Tape},
    tasks::picture::{
        Picture,
        classifier::Classifier,
        published::Published,
        request::Method,
        resize::{CropMode, Filter},
    },
    train::{Kind, Task, exhibit::Exhibit},
};
use serde_json::{Value as Json, json};

use crate::{
    hostile::repository,
    kind::{change, run_from_newest},
    picture_nets::{all, apart, numbers, pictures, size},
    picture_published::{Refused, Tensors, listed, of_zeros, write},
    picture_run::{measured, plan_of, resolved, stripes},
};

pub(crate) fn goldens() -> Vec<Json> {
    let path = repository("tests/goldens/picture_nets/vit.json");
    let golden: Json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    golden["files"].as_array().unwrap().clone()
}

/// The network of a part of the golden, and what it was described as.
fn open(file: &Json) -> (Published, Network) {
    let folder = tempfile::tempdir().unwrap();
    let published = Published::open(&write(file, folder.path())).unwrap();
    let network = published.network(None, 1, DType::F32, &Device::Cpu);
    (published, network.unwrap())
}

fn shown(file: &Json) -> Tensor {
    pictures("pictures", 2, size(&file["side"]), size(&file["channels"]))
}

#[test]
fn vits_give_the_scores_and_gradients_of_their_libraries() {
    for file in goldens() {
        let (_, network) = open(&file);
        let tape = Tape::new(0);
        let seen = network.see(Some(&tape), &shown(&file), Mode::Running);
        let scores = seen.unwrap().scores;
        let name = &file["name"];
        let scores_apart = apart(&all(scores.tensor()), &numbers(&file["scores"]));
        let truth = Tensor::new(&[2u32, 5], &Device::Cpu).unwrap();
        let share = Tensor::new(&[0.5f32, 0.5], &Device::Cpu).unwrap();
        let loss = classify(&scores, &truth, &share, Squash::Softmax, 0.0).unwrap();
        let loss_apart = apart(&all(loss.tensor()), &numbers(&file["loss"]));
        let mut gradients = Gradients::default();
        tape.backward(&loss, 1.0, &mut gradients).unwrap();
        let expected = file["gradient_norms"].as_object().unwrap();
        assert_eq!(gradients.iter().count(), expected.len());
        let mut slopes_apart = 0f64;
        for (name, expected) in expected {
            let found = all(gradients.get(name).unwrap());
            let norm = found.iter().map(|it| it * it).sum::<f64>().sqrt();
            slopes_apart = slopes_apart.max((norm / expected.as_f64().unwrap() - 1.0).abs());
        }
        println!(
            "{name}: scores {scores_apart:.1e}, loss {loss_apart:.1e}, gradients {slopes_apart:.1e}"
        );
        assert!(scores_apart <= 1e-5, "{name}: {scores_apart}");
        assert!(loss_apart <= 1e-5, "{name}: {loss_apart}");
        assert!(slopes_apart <= 1e-4, "{name}: {slopes_apart}");
    }
}

#[test]
fn the_map_of_a_vit_is_that_of_its_patches_before_the_last_attention() {
    for file in goldens() {
        let (published, network) = open(&file);
        let step = network.map_step().unwrap();
        let tape = Tape::new(0);
        let written = tape.input(network.written(step, &shown(&file)).unwrap());
        let scores = network.scores_from(Some(&tape), step, &written).unwrap();
        let best = size(&file["map"]["best"]);
        let chosen = (0..14).map(|at| f32::from(u8::from(at == best)));
        let seed = Tensor::from_iter(chosen, &Device::Cpu).unwrap();
        let seed = seed.reshape((2, 7)).unwrap();
        let slopes = tape.backward_to(&scores, seed, &[&written], &mut Gradients::default());
        let slope = slopes.unwrap().remove(0).unwrap();
        let [states, slope] =
            [written.tensor(), &slope].map(|it| network.as_map(step, it).unwrap());
        let places = published.net.sides[0] / published.net.transformer.unwrap().patch;
        assert_eq!(states.dims()[..3], [2, places, places]);
        let map = states.broadcast_mul(&slope.mean_keepdim((1, 2)).unwrap());
        let map = map.unwrap().sum(D::Minus1).unwrap().get(0).unwrap();
        let apart = apart(&all(&map), &numbers(&file["map"]["strengths"]));
        assert!(apart <= 1e-4, "{}: {apart}", file["name"]);
    }
}

#[test]
fn what_a_vit_is_and_is_shown_is_read_from_its_files() {
    let files = goldens();
    let (published, _) = open(&files[0]);
    assert_eq!(published.net.architecture, Architecture::Vit);
    let sizes = Transformer {
        patch: 8,
        width: 48,
        layers: 2,
        heads: 4,
        hidden: 80,
        epsilon: 1e-12,
    };
    assert_eq!(published.net.transformer, Some(sizes));
    let view = &published.view;
    assert_eq!((view.short_side, view.crop_mode), (None, CropMode::Squash));
    assert_eq!((view.filter, view.shape.height), (Filter::Bilinear, 48));
    assert_eq!(view.mean, [0.5; 3]);
    assert_eq!(published.classes.unwrap()[3], "Zürich");
    let (published, _) = open(&files[2]);
    let sizes = published.net.transformer.unwrap();
    assert_eq!((sizes.width, sizes.layers, sizes.heads), (192, 2, 3));
    assert_eq!(sizes.epsilon, 1e-6);
    let view = &published.view;
    assert_eq!(
        (view.short_side, view.crop_mode),
        (Some(248), CropMode::Center)
    );
    assert_eq!(view.filter, Filter::Bicubic);
    assert!(published.notes.is_empty());
}

fn refused_of_transformers() -> Vec<Refused> {
    vec![
        (
            "/hidden_act",
            json!("gelu_new"),
            "its `hidden_act` is `gelu_new`",
        ),
        ("/qkv_bias", json!(false), "its `qkv_bias` is off"),
        (
            "/hidden_size",
            json!(-1),
            "its `hidden_size` is -1, which is no size",
        ),
        (
            "/hidden_size",
            json!(1u64 << 40),
            "the network has 1099511627776 numbers in a token, and a ViT has 1 to 8192",
        ),
        (
            "/num_hidden_layers",
            json!(100_000),
            "the network has 100000 layers",
        ),
        ("/num_hidden_layers", json!(1), "`vit.encoder.layer.1."),
        ("/num_hidden_layers", json!(3), "`vit.encoder.layer.2."),
        (
            "/num_attention_heads",
            json!(5),
            "the network has 48 numbers in a token, which 5 heads can’t share evenly",
        ),
        ("/num_attention_heads", json!(0), "the network has 0 heads"),
        (
            "/patch_size",
            json!(0),
            "the network has patches of 0 pixels",
        ),
        (
            "/patch_size",
            json!(7),
            "the network has patches of 7 pixels",
        ),
        ("/patch_size", json!(16), "`vit.embeddings."),
        (
            "/image_size",
            json!(96),
            "`vit.embeddings.position_embeddings` is [1, 37, 48], and [1, 145, 48]",
        ),
        (
            "/layer_norm_eps",
            json!("small"),
            "its `layer_norm_eps` is no number",
        ),
        (
            "/layer_norm_eps",
            json!(7),
            "the network adds 7 to the variances",
        ),
        (
            "/intermediate_size",
            json!(81),
            "`vit.encoder.layer.0.intermediate.dense.weight` is [80, 48], and [81, 48]",
        ),
        (
            "/model_type",
            json!("deit"),
            "the network is of the type `deit`, and of pictures’ networks `resnet` and `vit` are known here",
        ),
    ]
}

fn refused_of_timm() -> Vec<Refused> {
    vec![
        (
            "/architecture",
            json!("vit_base_patch16_clip_224"),
            "the architecture `vit_base_patch16_clip_224` is not known here",
        ),
        (
            "/architecture",
            json!("vit_tiny_patch14_224"),
            "the architecture `vit_tiny_patch14_224` is not known here",
        ),
        (
            "/model_args/qk_norm",
            json!(true),
            "the network is built with `model_args.qk_norm`",
        ),
        (
            "/model_args/img_size",
            json!(384),
            "it was built for pictures of [384] pixels, and is shown 224 x 224",
        ),
        (
            "/model_args/num_heads",
            json!("3"),
            "its `model_args.num_heads` is \"3\", which is no size",
        ),
        (
            "/global_pool",
            json!("avg"),
            "the network ends with the pool `avg`, and only `token` is known here",
        ),
        (
            "/model_args/global_pool",
            json!("map"),
            "the network ends with the pool `map`",
        ),
    ]
}

#[test]
fn a_vit_that_is_not_known_is_refused_by_its_field() {
    let files = goldens();
    let check = |file: &Json, pointer: &str, value: Json, words: &str| {
        let mut config = file["config"].clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        config.pointer_mut(parent).unwrap()[field] = value;
        let error = of_zeros(&config.to_string(), &listed(file)).to_string();
        assert!(error.starts_with(words), "{error}");
    };
    for (field, value, words) in refused_of_transformers() {
        check(&files[0], field, value, words);
    }
    for (field, value, words) in refused_of_timm() {
        check(&files[2], field, value, words);
    }
    let without_head: Tensors = listed(&files[2]);
    let without_head = without_head
        .into_iter()
        .filter(|it| !it.0.starts_with("head."));
    let error = of_zeros(&files[2]["config"].to_string(), &without_head.collect());
    let words = "the network has no head: `head.weight` is missing";
    assert!(error.to_string().starts_with(words), "{error}");
}

#[test]
fn a_preprocessor_that_is_not_known_is_refused_by_its_field() {
    let file = &goldens()[0];
    for (field, value, words) in [
        (
            "image_processor_type",
            json!("CLIPImageProcessor"),
            "its pictures are prepared by `CLIPImageProcessor`",
        ),
        (
            "size",
            json!({"height": 48, "width": 32}),
            "its pictures have 32 x 48 pixels",
        ),
        (
            "size",
            json!({"height": 64, "width": 64}),
            "its config says its pictures have 48 x 48 pixels, and its preprocessor makes them 64 x 64",
        ),
        (
            "size",
            json!({"shortest_edge": 48}),
            "its preprocessor has no `size` of height and width",
        ),
        (
            "resample",
            json!(0),
            "its pictures are scaled by `resample: 0`",
        ),
        (
            "do_rescale",
            json!(false),
            "its preprocessor has `do_rescale` off",
        ),
    ] {
        let mut file = file.clone();
        file["preprocessor"][field] = value;
        let folder = tempfile::tempdir().unwrap();
        let error = Published::open(&write(&file, folder.path())).unwrap_err();
        assert!(error.to_string().starts_with(words), "{error}");
    }
    // As older folders have it: no type, and one number for both sides.
    let mut file = file.clone();
    file["preprocessor"] =
        json!({"size": 48, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]});
    let (published, _) = open(&file);
    assert_eq!(published.view.crop_mode, CropMode::Squash);
}

#[test]
fn a_vit_gives_features_for_a_head_and_learns_on_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let data = stripes(folder.path(), 48, 20);
    let published = folder.path().join("published");
    fs::create_dir_all(&published).unwrap();
    write(&goldens()[0], &published);
    let plan_from = |model: &Path, changes: Json| {
        let mut all = json!({"model": model, "picture": {"recipe": null, "flip": "none"}});
        change(&mut all, &changes);
        plan_of(&data, all)
    };
    let newest = |saved: &Path| Checkpoints::new(saved, 2).newest().unwrap().unwrap().path;

    let nobody_says = json!({"steps": null, "evaluate": {"every": null}, "save": {"every": null}, "schedule": {"warmup_steps": null}});
    let plan = plan_from(&published, nobody_says);
    assert_eq!(plan.task.picture.method, Method::Features);
    assert_eq!(plan.task.picture.crop_mode, CropMode::Squash);
    let found = folder.path().join("found");
    let mut heard = Vec::new();
    run_from_newest::<Picture>(&plan, &found, &mut heard);
    let reached = measured(&heard, "accuracy").last().unwrap().1;
    assert!(
        reached > 0.6,
        "stripes are told apart by random features: {reached}"
    );

    let changes = json!({"picture": {"method": "fine_tune"}, "learning_rate": 0.01});
    let plan = plan_from(&newest(&found), changes);
    let shape = Picture::read_shape(&plan.task).unwrap();
    assert!(Picture::estimate(&plan, &shape).bytes() > 0);
    let mut heard = Vec::new();
    let saved = folder.path().join("learned");
    let mut task = run_from_newest::<Picture>(&plan, &saved, &mut heard);
    assert_eq!(measured(&heard, "accuracy")[0], (0, reached));
    let before = Published::open(&newest(&found)).unwrap();
    let before = before.network(None, 1, DType::F32, &Device::Cpu).unwrap();
    for parameter in task.parameters().iter() {
        let old = before.parameters().get(parameter.name()).unwrap().tensor();
        assert_ne!(all(&parameter.tensor()), all(&old), "{}", parameter.name());
    }
    assert!(matches!(
        &task.show().unwrap()[0],
        Exhibit::Confusion { .. }
    ));

    // What it says of a picture comes with a map of its patches.
    let classifier = Classifier::open(&newest(&saved), DType::F32, &Device::Cpu).unwrap();
    let bytes = fs::read(data.join("along/000.png")).unwrap();
    let said = classifier.predict_file(&bytes).unwrap();
    let map = said.ranked[0].map.as_ref().unwrap();
    assert_eq!((map.rows, map.columns), (6, 6));
}

#[test]
fn a_vit_is_not_learned_from_nothing_or_at_another_size() {
    let folder = tempfile::tempdir().unwrap();
    let data = stripes(folder.path(), 16, 4);
    write(&goldens()[0], folder.path());
    for (changes, words) in [
        (
            json!({"picture": {"architecture": "vit"}}),
            "`picture.architecture` is ViT, which learns little from scratch",
        ),
        (
            json!({"model": folder.path(), "picture": {"method": "fine_tune", "recipe": null, "side": 64}}),
            "`picture.side` is 64, and the published ViT knows the places of pictures of 48 pixels alone",
        ),
        (
            json!({"model": folder.path(), "picture": {"method": "fine_tune", "recipe": null, "architecture": "resnet18"}}),
            "`picture.architecture` is ResNet-18, and the published network is another",
        ),
    ] {
        let said = resolved(&data, changes).unwrap_err().to_string();
        assert!(said.contains(words), "`{words}` is not in: {said}");
    }
}
