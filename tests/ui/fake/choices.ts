// The plan of a run: every value, and why.

import type { PlanLine as PlanLineView, Reason as ChoiceView } from "../../../ui/src/api/bindings";

type Settings = Partial<Record<string, string>>;

/** What a plan is about, whatever was left out. */
export function planOf(settings: Settings) {
  const files = (settings["data.files"] ?? "").replace(/^\[|\]$/g, "");
  const data = files.split("/").at(-1)?.replace(/["']/g, "") || "support.jsonl";
  const model = settings.model?.split("/").at(-1) || "";
  const method = settings.method || (model ? "lora" : "scratch");
  const steps = Number(settings.steps) || (settings.epochs ? Math.round(Number(settings.epochs) * 374) : method === "scratch" ? 5000 : 1122);
  return { name: settings.name || data.replace(/\.\w+$/, ""), data, model: model || "SmolLM2-1.7B-Instruct", method, steps };
}

const CHAT = "Conversations in the layout `messages`, because the rows have that column.";

function forMethod(method: string): [string, string, string][] {
  if (method === "lora") {
    return [
      ["lora.rank", "16", "Enough for most single tasks."],
      ["lora.alpha", "32", "Twice the rank, as is usual."],
      ["lora.dropout", "0.0", "Small adapters rarely gain from it."],
      ["lora.targets", "[q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]", "All linear weights of a layer: better than few at a higher rank."],
      ["lora.layers", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]", "All of them."],
      ["lora.rslora", "false", "It matters for ranks of 64 and more."],
    ];
  }
  if (method === "full") return [];
  return [
    ["scratch.preset", "micro", "Learns in minutes on any machine."],
    ["scratch.tokenizer", "trained", "One trained on this data needs the fewest tokens for it."],
    ["scratch.vocab_size", "1024", "Fits the size of the model."],
    ["scratch.config.model_type", "llama", "3147264 parameters."],
  ];
}

function lines(settings: Settings): [string, string, string][] {
  const { name, data, model, method, steps } = planOf(settings);
  const scratch = method === "scratch";
  const measure = String(Math.ceil(steps / 10));
  return [
    ["name", name, "After the data."],
    ["method", method, scratch ? "No model is given." : "A model is given; an adapter needs the least memory."],
    ...(scratch ? [] : [["model", model, "As asked."] as [string, string, string]]),
    ...forMethod(method),
    ["data.files", `[${data}]`, CHAT],
    ["data.columns", "{}", ""],
    ["data.encoding", "utf-8", "How nearly all text is written."],
    ["data.held_out", "0.05", "One row in twenty, never learned from."],
    ["data.learn", scratch ? "all" : "assistant", scratch ? "Plain text has no turns." : "The model is to answer, not to ask."],
    ["data.max_length", "1024", "As long as a row of a batch."],
    ["data.packing", "true", "No part of a batch is empty, and rows don't see each other."],
    ["data.skip_bad_rows", "false", "A row that can't be read is better looked at than lost."],
    ["steps", String(steps), "3 passes over the data, 374.0 steps each; an adapter gains from two or three, and then begins to repeat the data."],
    ["batch.rows", "4", "The largest that fits with 20 % to spare."],
    ["batch.length", "1024", "19 of 20 rows fit whole."],
    ["batch.accumulate", "4", "About 16384 tokens per update suit this method."],
    ["learning_rate", scratch ? "0.002" : "0.0002", scratch ? "A new model of a few million parameters learns fastest near this." : "Usual for adapters of rank 16."],
    ["schedule.kind", "cosine", "Small steps at the end settle what was learned."],
    ["schedule.warmup_steps", String(Math.max(5, Math.round(steps * 0.03))), "3 % of the run and 5 steps at least, so that the first ones don't break anything."],
    ["schedule.min_ratio", "0.1", "A tenth of the highest rate still learns."],
    ["optimizer.kind", "adamw", "It learns well with the settings of published recipes, on every device."],
    ["optimizer.beta1", "0.9", "The usual value."],
    ["optimizer.beta2", "0.999", "The usual value."],
    ["optimizer.epsilon", "1.0e-8", "The usual value."],
    ["optimizer.weight_decay", "0.0", "An adapter is small enough to need none."],
    ["clip_norm", "1.0", "One strange batch can't undo many good ones."],
    ["ema", "0.0", "Off: it doubles the memory of what learns."],
    ["gradient_checkpointing", "false", "Not needed at this size; it costs a third more time."],
    ["dtype.compute", "bf16", "Passed the check of the device; sums stay in f32."],
    ["dtype.storage", "bf16", "As the weights are on disk."],
    ["device", "metal", "Apple M3 Max, the fastest device that was found."],
    ["strict", "false", "The next best is taken with a warning."],
    ["seed", "42", "Fixed, so that the same run can be repeated."],
    ["evaluate.every", measure, "Ten times in the run."],
    ["evaluate.batches", "20", "Enough to see the trend, and short."],
    ["sample.every", String(Math.ceil(steps / 5)), "Five times in the run."],
    ["sample.prompts", "[]", "The beginning of a held-out row."],
    ["sample.tokens", "64", "Enough to see whether it makes sense."],
    ["save.every", measure, "Whenever it is measured."],
    ["save.keep_last", "2", "The newest, and one before it."],
    ["save.keep_every", "0", "Off: a long run would fill the disk."],
    ["save.keep_best", "true", "Later is not always better."],
  ];
}

/** Every value of a plan; those that were filled in are not the app's own choice. */
export function choices(settings: Settings): ChoiceView[] {
  return lines(settings).map(([field, value, why]) => {
    const asked = settings[field]?.trim();
    return { field, value: asked && field !== "model" && field !== "data.files" ? asked : value, why: asked ? "As asked." : why, automatic: !asked };
  });
}

/** The same, as it stands in a run file. */
export function planLines(settings: Settings): PlanLineView[] {
  return choices(settings).map(({ field, value, why }) => ({ field, value, why }));
}
