//! What the settings of other trainers are called here: transformers with TRL, PEFT and Unsloth, mlx-lm, Axolotl,
//! LLaMA-Factory, torchtune and Lightning.
//!
//! Names are written small and with underscores. A name that means the same here and there is not in the list.

/// A field of a run file or a section of it, what to know about it, and what others call it.
type Named = (&'static str, &'static str, &'static [&'static str]);

/// A sentence without a full stop, and the names it answers.
type Answered = (&'static str, &'static [&'static str]);

/// What has a field here.
#[rustfmt::skip]
pub(super) const NAMES: &[Named] = &[
    ("name", "", &["run_name", "run_id", "experiment_name", "exp_name", "project_name"]),
    ("method", "; it can be `lora`, `full` or `scratch`", &["adapter", "finetuning_type", "fine_tune_type", "finetune_type", "peft_type", "train_type", "training_type", "use_peft", "use_lora", "full_finetuning"]),
    ("model", "", &["model_name_or_path", "model_name", "model_id", "model_path", "base_model", "base_model_name_or_path", "pretrained_model_name_or_path", "checkpointer"]),
    ("scratch.config", "", &["model_config", "config_overrides", "config_name"]),
    ("scratch.vocab_size", "", &["vocab_size", "vocabulary_size"]),
    ("scratch.tokenizer", "; an existing model has its own", &["tokenizer", "tokenizer_name", "tokenizer_path", "tokenizer_name_or_path"]),

    ("data.files", "; it takes files and folders, such as [train.jsonl]", &["dataset", "datasets", "dataset_name", "dataset_path", "dataset_id", "train_dataset", "train_file", "train_files", "train_data", "training_data", "data_path", "data_dir", "data_files", "dataset_dir"]),
    ("data.format", "", &["data_format", "dataset_format", "dataset_type", "formatting"]),
    ("data.columns", "; it says which column is what, such as {prompt: title, completion: body}", &["dataset_text_field", "text_column", "text_field", "column_map", "prompt_column", "response_column", "prompt_feature", "completion_feature", "text_feature", "chat_feature", "field_instruction", "field_output", "field_messages"]),
    ("data.held_out", "; it is a share, such as 0.05", &["val_set_size", "val_size", "validation_split", "validation_size", "test_size", "eval_size", "val_split", "eval_ratio"]),
    ("data.learn", "; it can be `assistant` or `all`", &["train_on_inputs", "train_on_input", "train_on_prompt", "mask_prompt", "completion_only_loss", "assistant_only_loss", "train_on_responses_only", "train_on_completions_only", "mask_history", "roles_to_train"]),
    ("data.packing", "", &["packing", "pack", "packed", "sample_packing", "neat_packing", "group_by_length"]),

    ("steps", "", &["max_steps", "iters", "num_iters", "iterations", "num_iterations", "max_iters", "num_steps", "num_train_steps", "train_steps", "training_steps", "max_train_steps", "total_steps", "max_steps_per_epoch"]),
    ("epochs", "", &["num_train_epochs", "num_epochs", "n_epochs", "max_epochs", "train_epochs", "epoch"]),
    ("batch.rows", "", &["per_device_train_batch_size", "per_device_batch_size", "per_gpu_train_batch_size", "batch_size", "train_batch_size", "micro_batch_size", "mini_batch_size"]),
    ("batch.rows", "; evaluation has the same", &["per_device_eval_batch_size", "eval_batch_size", "val_batch_size"]),
    ("batch.accumulate", "; a step sees `batch.rows` times so many rows", &["global_batch_size", "total_batch_size", "effective_batch_size"]),
    ("batch.accumulate", "", &["gradient_accumulation_steps", "gradient_accumulation", "grad_accumulation_steps", "grad_accum_steps", "grad_accum", "accumulate_grad_batches", "accumulation_steps", "grad_accumulation"]),
    ("batch.length", "", &["max_seq_length", "max_seq_len", "max_sequence_length", "sequence_len", "sequence_length", "seq_length", "seq_len", "cutoff_len", "max_length", "max_len", "block_size", "context_length", "model_max_length"]),
    ("gradient_checkpointing", "", &["grad_checkpoint", "grad_checkpointing", "use_gradient_checkpointing", "activation_checkpointing", "enable_activation_checkpointing", "enable_gradient_checkpointing"]),

    ("learning_rate", "", &["lr", "max_lr", "peak_lr", "base_lr", "initial_lr"]),
    ("schedule.kind", "", &["lr_scheduler_type", "lr_scheduler", "lr_schedule", "scheduler", "scheduler_type", "lr_decay_style", "lr_decay"]),
    ("schedule.warmup_steps", "", &["warmup_steps", "num_warmup_steps", "lr_warmup_steps", "warmup", "warmup_iters"]),
    ("schedule.warmup_steps", " and counts steps", &["warmup_ratio", "warmup_epochs", "warmup_fraction", "warmup_proportion"]),
    ("schedule.min_ratio", " and is a share of the highest", &["min_lr", "min_lr_ratio", "min_lr_rate", "cosine_min_lr_ratio", "lr_min", "end_lr", "lr_end", "final_lr"]),
    ("optimizer.kind", "", &["optim", "optimizer_type", "optimizer_name"]),
    ("optimizer.beta1", "", &["adam_beta1", "beta1", "beta_1"]),
    ("optimizer.beta2", "", &["adam_beta2", "beta2", "beta_2"]),
    ("optimizer.beta1", "; the second of the two is `optimizer.beta2`", &["betas", "adam_betas"]),
    ("optimizer.epsilon", "", &["adam_epsilon", "adam_eps", "eps", "epsilon"]),
    ("optimizer.weight_decay", "", &["weight_decay", "wd", "adam_weight_decay"]),
    ("optimizer.momentum", "", &["momentum", "sgd_momentum"]),
    ("clip_norm", "", &["max_grad_norm", "gradient_clipping", "gradient_clip_val", "gradient_clip", "grad_clip", "grad_clip_norm", "clip_grad_norm", "clip_grad"]),
    ("ema", "", &["ema_decay", "use_ema", "weight_averaging"]),

    ("lora", "; its fields stand below it", &["lora_parameters", "lora_config", "peft_config"]),
    ("lora.rank", "", &["lora_r", "lora_rank", "lora_dim", "r"]),
    ("lora.alpha", "", &["lora_alpha"]),
    ("lora.alpha", "; the scale is alpha / rank", &["lora_scale", "scale", "lora_scaling"]),
    ("lora.dropout", "", &["lora_dropout", "dropout"]),
    ("lora.targets", "", &["target_modules", "lora_target_modules", "lora_target", "lora_targets", "lora_attn_modules", "keys"]),
    ("lora.targets", "; without it, all linear weights of a layer get an adapter", &["lora_target_linear", "apply_lora_to_mlp", "apply_lora_to_output"]),
    ("lora.layers", " and lists layers from 0; without it, all get an adapter", &["num_layers", "lora_layers", "layers_to_transform", "lora_layers_to_transform", "num_lora_layers"]),
    ("lora.rslora", "", &["use_rslora", "peft_use_rslora", "rslora"]),

    ("device", "", &["device_map", "use_cpu", "no_cuda", "use_mps_device", "accelerator", "gpus", "device_type"]),
    ("dtype.compute", "", &["mixed_precision", "torch_dtype", "compute_dtype", "bnb_4bit_compute_dtype", "amp"]),
    ("dtype.compute", "; set it to `bf16`", &["bf16", "bfloat16", "pure_bf16"]),
    ("dtype.compute", "; set it to `f16`", &["fp16", "float16", "half"]),
    ("dtype.compute", "; set it to `f32`", &["fp32", "float32", "tf32"]),
    ("seed", "", &["random_seed", "random_state", "data_seed", "manual_seed", "global_seed", "set_seed", "rng_seed"]),

    ("evaluate.every", "", &["eval_steps", "steps_per_eval", "eval_every", "eval_interval", "evaluation_steps", "val_steps", "eval_freq", "run_val_every_n_steps", "val_check_interval"]),
    ("evaluate.every", " and counts steps; 0 turns it off", &["eval_strategy", "evaluation_strategy", "evals_per_epoch", "do_eval"]),
    ("evaluate.batches", "", &["val_batches", "eval_iters", "limit_val_batches", "max_eval_batches", "eval_accumulation_steps"]),
    ("sample.every", "", &["sample_steps", "generate_every", "sample_interval"]),
    ("sample.prompts", "", &["prompts", "eval_prompts", "validation_prompts"]),
    ("sample.tokens", "", &["max_new_tokens", "max_tokens", "eval_max_new_tokens"]),
    ("save.every", "", &["save_steps", "save_every", "steps_per_save", "checkpoint_every", "save_interval", "checkpointing_steps", "save_every_n_steps", "checkpoint_interval"]),
    ("save.every", " and counts steps", &["save_strategy", "saves_per_epoch"]),
    ("save.keep_last", "", &["save_total_limit", "keep_last_n_checkpoints", "max_checkpoints", "checkpoints_total_limit"]),
    ("save.keep_best", "", &["load_best_model_at_end", "keep_best", "metric_for_best_model", "greater_is_better"]),
];

/// What has none.
#[rustfmt::skip]
pub(super) const ANSWERS: &[Answered] = &[
    ("weights of 4 or 8 bits can’t be trained yet; `dtype.storage: bf16` keeps frozen weights at half size", &["load_in_4bit", "load_in_8bit", "quantization", "quantization_bit", "quantization_config", "bits", "q_bits", "bnb_4bit_quant_type", "bnb_4bit_use_double_quant", "quantize", "use_qlora", "qlora", "gptq", "quant_method"]),
    ("DoRA is not supported yet; `lora.rslora` is", &["use_dora", "peft_use_dora", "dora"]),
    ("a run uses one device; training on several is not supported yet", &["deepspeed", "fsdp", "fsdp_config", "ddp", "num_gpus", "num_processes", "nproc_per_node", "world_size", "tensor_parallel_size", "strategy", "distributed_type", "ddp_find_unused_parameters", "fsdp_cpu_offload"]),
    ("every step is recorded, so there is nothing to set", &["logging_steps", "log_every_n_steps", "steps_per_report", "logging_strategy", "log_every", "log_interval", "logging_dir", "logging_first_step", "log_level", "plot_loss", "log_peak_memory_stats", "disable_tqdm"]),
    ("nothing is sent anywhere; `anneal runs` shows what was recorded", &["report_to", "wandb", "wandb_project", "wandb_run_id", "wandb_entity", "wandb_watch", "wandb_name", "wandb_log_model", "tensorboard", "mlflow_tracking_uri", "metric_logger", "use_swanlab", "comet_project_name"]),
    ("runs are kept in a folder of Anneal’s own, which `--home` changes", &["output_dir", "out_dir", "adapter_path", "save_dir", "save_path", "checkpoint_dir", "results_dir", "overwrite_output_dir", "logdir", "adapter_file"]),
    ("`anneal train --resume RUN` continues a run", &["resume", "resume_from_checkpoint", "resume_adapter_file", "auto_resume_from_checkpoints", "resume_from", "ckpt_path"]),
    ("attention is computed in the way that is right for the device", &["flash_attention", "flash_attn", "use_flash_attention_2", "use_flash_attn", "attn_implementation", "xformers_attention", "sdp_attention", "flash_attention_2", "sdpa_attention", "eager_attention"]),
    ("a model’s own chat template is used, or ChatML", &["chat_template", "template", "prompt_template", "prompt_style", "chat_template_path", "default_system_message", "special_tokens", "add_eos_token"]),
    ("training is all that a run file does, so it is not said", &["do_train", "train", "stage", "do_predict", "trainer", "recipe", "rl", "training_mode"]),
    ("the data is read and shuffled by the seed; there is nothing to set", &["dataloader_num_workers", "num_proc", "num_workers", "dataset_num_proc", "preprocessing_num_workers", "dataloader_pin_memory", "dataloader_prefetch_factor", "overwrite_cache", "shuffle", "dataset_prepared_path", "streaming", "pin_memory", "remove_unused_columns", "dataloader_drop_last", "pad_to_sequence_len", "eval_packing", "max_samples", "shuffle_merged_datasets"]),
    ("held-out rows are taken from the same files; `data.held_out` says how many", &["eval_dataset", "validation_file", "val_file", "test_file", "eval_data", "test_datasets", "validation_data", "val_dataset", "dataset_validation", "eval_data_path"]),
    ("a model’s own code is never run; the architectures it can have are built in", &["trust_remote_code"]),
    ("`anneal hub login` keeps the token, and a run never needs it", &["hub_token", "hf_token", "use_auth_token", "token", "hf_use_auth_token"]),
    ("nothing is uploaded", &["push_to_hub", "hub_model_id", "hub_strategy", "hub_private_repo"]),
    ("kernels are chosen for the device; there is nothing to compile", &["torch_compile", "compile", "use_liger_kernel", "liger_kernel", "torch_compile_backend", "liger_rope", "fused", "enable_liger_kernel"]),
    ("which weights are trained follows from `method`", &["freeze", "unfrozen_parameters", "modules_to_save", "lora_modules_to_save", "trainable_layers", "freeze_trainable_layers", "bias", "lora_bias", "task_type", "additional_target", "init_lora_weights", "lora_init_scale", "loraplus_lr_ratio", "layer_replication", "lora_on_cpu", "fan_in_fan_out"]),
    ("there is no such thing yet", &["neftune_noise_alpha", "label_smoothing_factor", "label_smoothing", "early_stopping_patience", "early_stopping", "loss_type", "galore", "use_galore", "optim_args", "optim_target_modules", "optimizer_args", "rope_scaling", "class_weights"]),
];
