// What the form has in its fields, as values of a run file, and what of it a run is asked for.

import type { DataRequest, DataSetView, Filled } from "../../api";
import type { KindForm, Need } from "../kind";

export type Unit = "epochs" | "steps";

/** How data is read. A set of data brings all of it, so another one replaces all of it. */
const READING = ["data.format", "data.columns", "data.encoding", "data.rows", "data.skip_bad_rows"];

/** Texts that YAML reads as themselves: they begin with a letter or a slash, and hold nothing that has a meaning. */
const PLAIN = /^[a-z/]([\w ./-]*[\w/])?$/i;
const WORDS = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/** A text as a run file has it. JSON is YAML, and quotes what YAML would read as something else. */
export function written(text: string): string {
  if (text.trim() === "") return "";
  return PLAIN.test(text) && !WORDS.includes(text.toLowerCase()) ? text : JSON.stringify(text);
}

/** A text of a run file as a person reads it. */
export function read(value: string | undefined): string {
  const text = value ?? "";
  if (text.startsWith('"')) {
    const found = json(text);
    return typeof found === "string" ? found : text;
  }
  return /^'.*'$/.test(text) ? text.slice(1, -1).replaceAll("''", "'") : text;
}

/** The texts of a list in a run file. */
export function readList(value: string | undefined): string[] {
  const text = (value ?? "").trim();
  if (text === "") return [];
  const found = json(text);
  if (Array.isArray(found)) return found.map(String);
  if (!text.startsWith("[")) return [read(text)];
  const inside = text.replace(/^\[|\]$/g, "").split(",");
  return inside.map((item) => read(item.trim())).filter((item) => item !== "");
}

/** A list of texts as a run file has it. */
export function writtenList(texts: string[]): string {
  return texts.length === 0 ? "" : JSON.stringify(texts);
}

function json(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** What a run is asked for: what was filled in and belongs to the way it learns. */
export function asked(filled: Filled, { method: methodOf, belongs, lists }: KindForm): Filled {
  const method = methodOf(filled);
  const result: Filled = method === "" ? {} : { method };
  for (const [field, value] of Object.entries(filled)) {
    if (field === "method" || value.trim() === "" || !belongs(field, filled)) continue;
    result[field] = lists.includes(field) && !value.trim().startsWith("[") ? `[${value}]` : value;
  }
  return result;
}

/** The same for the same questions, in whatever order they were filled in. */
export function keyOf(filled: Filled): string {
  return JSON.stringify(Object.entries(filled).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The form with other values. What is empty is taken out. */
export function merged(filled: Filled, changes: Filled): Filled {
  const entries = Object.entries({ ...filled, ...changes });
  return Object.fromEntries(entries.filter(([, value]) => value !== ""));
}

/** The fields a form begins with. Texts may come as they are, such as a path; they are kept as in a run file. */
export function begun(given: Filled, { texts: own }: KindForm): Filled {
  const texts = ["name", ...own].map((field) => [field, written(read(given[field]))]);
  return merged(given, { ...Object.fromEntries(texts), "data.files": writtenList(readList(given["data.files"])) });
}

/** What is changed in the form to learn from a set of data, read the way it is read there. */
export function dataOf(set: DataSetView): Filled {
  const { format, columns, encoding, rows, skipBadRows } = set.request;
  return {
    "data.files": writtenList([set.path]),
    "data.format": written(format ?? ""),
    "data.columns": Object.keys(columns).length === 0 ? "" : JSON.stringify(columns),
    "data.encoding": written(encoding ?? ""),
    "data.rows": written(rows ?? ""),
    "data.skip_bad_rows": skipBadRows ? "true" : "",
  };
}

/** How the form reads its data, to look into it. */
export function requestOf(filled: Filled): DataRequest {
  const text = (field: string) => read(filled[field]) || null;
  const columns = json(filled["data.columns"] ?? "");
  return {
    format: text("data.format"),
    columns: typeof columns === "object" && columns !== null ? (columns as Record<string, string>) : {},
    encoding: text("data.encoding"),
    rows: text("data.rows"),
    skipBadRows: filled["data.skip_bad_rows"] === "true",
  };
}

/** The set of data that the form learns from, if that is one. */
export function setOf(filled: Filled, sets: DataSetView[]): DataSetView | undefined {
  const files = readList(filled["data.files"]);
  return files.length === 1 ? sets.find((set) => set.path === files[0]) : undefined;
}

/** In what the length of a run is given. */
export function unitOf(filled: Filled, otherwise: Unit): Unit {
  if (filled["steps"]) return "steps";
  return filled["epochs"] ? "epochs" : otherwise;
}

/** What is changed to give the length of a run, of which there is only one. */
export function lengthOf(unit: Unit, value: string): Filled {
  return unit === "steps" ? { steps: value, epochs: "" } : { steps: "", epochs: value };
}

/** What a run can't be without, and nobody chose yet. That is no mistake. */
export function needs(filled: Filled, form: KindForm): Need[] {
  const data = readList(filled["data.files"]).length === 0 ? [{ field: "data.files", name: "data", text: "to learn from." }] : [];
  return [...form.needs(filled), ...data];
}

/** Whether a field says how data is read; its home is the control of the data. */
export function isReading(field: string): boolean {
  return READING.includes(field);
}
