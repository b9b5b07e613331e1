// How fields, values and problems of a run file are said to a person.

import { choicesOf, FIELDS, type ChoiceView, type Field, type FieldProblemView } from "../../api";
import { count } from "../../lib/format";
import { nameOf } from "../../lib/paths";
import { capital, whole } from "../../lib/words";
import type { KindForm } from "../kind";
import { readList } from "./filled";

/** What a field is called. The first that names it counts. */
export type Names = Pick<Field, "name" | "label">[];

/** More names than these are not all read. */
const MOST_NAMES = 8;

/** What a field is called, if it is one. */
function knownLabel(field: string, names: Names): string | undefined {
  return [...names, ...FIELDS].find(({ name }) => name === field)?.label;
}

/** What a field is called. */
export function labelOf(field: string, names: Names): string {
  return knownLabel(field, names) ?? capital((field.split(".").at(-1) ?? field).replaceAll("_", " "));
}

/** A value of the plan as it is read. */
export function shown(field: string, value: string, { paths }: KindForm): string {
  if (field === "data.files") return readList(value).map(nameOf).join(", ");
  if (paths.includes(field)) return nameOf(value);
  if (/^cuda(:\d+)?$/.test(value)) return value.replace("cuda", "CUDA").replace(":", " ");
  if (field !== "seed" && field !== "name" && /^\d+$/.test(value)) return count(Number(value));
  const text = typed(value, field);
  // Of many names the first and the last say enough.
  const items = value.startsWith("[") && text.includes(", ") ? readList(value) : [];
  return items.length > MOST_NAMES ? `${items[0]}, ${items[1]} … ${items.at(-1)} (${items.length})` : text;
}

/** Which numbers a field takes: a sentence. */
export function allowed({ bounds }: Field): string {
  if (!bounds) return "";
  const { min, max, above } = bounds;
  const least = above ? `Above ${typed(String(min))}` : `At least ${typed(String(min))}`;
  return max === null ? `${least}.` : `${least}, at most ${typed(String(max))}.`;
}

/** A value of the plan as it could be typed into its field, or is chosen there. */
export function typed(value: string, field = ""): string {
  const choice = choicesOf(field).find((it) => it.value === value);
  if (choice) return choice.text;
  if (value === "true" || value === "false") return value === "true" ? "on" : "off";
  if (value === "{}") return "none";
  if (value.startsWith("[")) return listed(value);
  if (!/^-?\d+(\.\d+)?(e-?\d+)?$/.test(value)) return value;
  const number = Number(value);
  return number !== 0 && Math.abs(number) < 1e-3 ? number.toExponential() : String(number);
}

function listed(value: string): string {
  const items = readList(value);
  if (items.length === 0) return "none";
  const first = Number(items[0]);
  const counts = items.length > 2 && items.every((item, at) => item === String(first + at));
  return counts ? `${first} to ${first + items.length - 1}` : items.join(", ");
}

/** What stands in an empty field: what the plan chose for it. */
export function hint(choice: ChoiceView | undefined): string {
  if (!choice?.automatic) return "automatic";
  return choice.value === "[]" ? choice.why.replace(/\.$/, "") : typed(choice.value, choice.field);
}

/** The choices that were made for the user, the most telling ones first, and all others. */
export function ordered(choices: ChoiceView[], { telling }: KindForm): { telling: ChoiceView[]; others: ChoiceView[] } {
  const rank = (choice: ChoiceView) => telling.indexOf(choice.field);
  const isTelling = (choice: ChoiceView) => choice.automatic && rank(choice) >= 0;
  return {
    telling: choices.filter(isTelling).sort((a, b) => rank(a) - rank(b)),
    others: choices.filter((choice) => !isTelling(choice)),
  };
}

/** A text with the names of fields said as the form says them: a sentence. */
export function sentence(text: string, names: Names): string {
  const words = text.trim().replace(/`([^`]*)`/g, (_, inside: string) => {
    return `“${knownLabel(inside, names) ?? inside}”`;
  });
  return whole(words.replace(/(^|[\s(])(\d{4,})(?=[\s,.;)]|$)/g, (_, before: string, digits: string) => before + count(Number(digits))));
}

/** What is wrong with a field, and what to try next. A problem may begin with the name of its field. */
export function said({ field, text, hint }: FieldProblemView, names: Names): { text: string; hint: string } {
  const name = `\`${field}\` `;
  const about = text.startsWith(name) ? `${field && `${labelOf(field, names)} `}${text.slice(name.length)}` : text;
  return { text: sentence(about, names), hint: sentence(hint ?? "", names) };
}
