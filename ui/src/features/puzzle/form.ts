// What the form has to know of puzzles.

import type { Filled } from "../../api";
import type { KindForm } from "../kind";

/** How data for language is read; puzzles are read in one way. */
const READING = ["data.format", "data.columns", "data.encoding", "data.rows", "data.skip_bad_rows"];

/** What a run can start from: a recipe each. */
export const SIZES = [
  { value: "lesson", text: "Tiny", about: "Learns 4 × 4 in minutes on any computer." },
  { value: "lesson-6", text: "Small", about: "For 6 × 6, on any computer." },
  { value: "sudoku-mlp", text: "Standard", about: "As in the paper, for 9 × 9. Needs a GPU." },
  { value: "sudoku-attention", text: "Attention", about: "Looks at all cells at once. Needs a GPU." },
] as const;

export const form: KindForm = {
  own: ["recipe", "data.augment"],
  texts: ["recipe"],
  lists: [],
  lines: {},
  paths: [],
  labels: { recipe: "Start from", trm: "Model", table: "Puzzle vectors" },
  telling: ["device", "dtype.compute", "batch.rows", "batch.accumulate", "recipe", "trm.hidden_size", "trm.halt_max_steps", "ema", "learning_rate", "steps"],
  unit: "steps",
  lighter: "A smaller batch or a smaller model needs less memory.",
  method: () => "",
  belongs: (field: string) => !READING.includes(field),
  home: (field: string, filled: Filled) => (READING.includes(field) && !(field in filled) ? "data.files" : undefined),
  needs: () => [],
};
