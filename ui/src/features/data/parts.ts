// Parts of a row, and which column plays which: what the form offers, never what the rows are read as.

import { choicesOf, type DataSetView } from "../../api";

/** How data is read. What is empty is found from the data. */
export type Reading = DataSetView["request"];

/** The parts of the layouts that a row can have. */
const LAYOUTS: Record<string, string[]> = {
  messages: ["messages"],
  sharegpt: ["conversations", "system"],
  prompt_completion: ["prompt", "completion", "system"],
  alpaca: ["instruction", "input", "output", "system"],
  text: ["text"],
};

/** Offered while the layout is found from the columns: the parts that people have to name. */
const USUAL = ["prompt", "completion", "system", "text", "messages"];

export const FORMATS = [{ value: "", text: "Automatic" }, ...choicesOf("data.format")];

/** The whole is what is read without a choice. */
export const ROWS = choicesOf("data.rows").map(({ value, text }) => ({ value: value === "whole" ? "" : value, text }));

export const ENCODINGS = [
  { value: "", text: "UTF-8" },
  { value: "latin-1", text: "Latin-1" },
  { value: "windows-1252", text: "Windows-1252" },
  { value: "windows-1250", text: "Windows-1250" },
  { value: "windows-1251", text: "Windows-1251" },
  { value: "utf-16le", text: "UTF-16 LE" },
  { value: "utf-16be", text: "UTF-16 BE" },
  { value: "shift_jis", text: "Shift JIS" },
  { value: "euc-kr", text: "EUC-KR" },
  { value: "gb18030", text: "GB 18030" },
  { value: "big5", text: "Big5" },
];

export function encodingName(encoding: string): string {
  return ENCODINGS.find(({ value }) => value === encoding)?.text ?? encoding;
}

/** The parts to choose columns for. */
export function partsFor({ format, columns }: Reading): string[] {
  const known = LAYOUTS[format ?? ""] ?? USUAL;
  return [...known, ...Object.keys(columns).filter((part) => !known.includes(part))];
}

/** The mapping after a part got a column, or none. Parts that can't be in a row with it are let go. */
export function mapped(columns: Record<string, string>, part: string, column: string): Record<string, string> {
  const others = Object.entries(columns).filter(([other]) => other !== part);
  if (column === "") return Object.fromEntries(others);
  const together = others.filter(([other]) => Object.values(LAYOUTS).some((parts) => parts.includes(other) && parts.includes(part)));
  return { ...Object.fromEntries(together), [part]: column };
}

/** The request in another layout, without the parts that it doesn't have. */
export function laidOut(request: Reading, format: string): Reading {
  const parts = LAYOUTS[format];
  const kept = Object.entries(request.columns).filter(([part]) => parts?.includes(part) ?? true);
  return { ...request, format: format || null, columns: Object.fromEntries(kept) };
}

/** A request as the fields of a run. */
export function filledFrom(path: string, { format, columns, encoding, rows, skipBadRows }: Reading): Record<string, string> {
  return {
    "data.files": JSON.stringify([path]),
    ...(format ? { "data.format": format } : {}),
    ...(Object.keys(columns).length > 0 ? { "data.columns": JSON.stringify(columns) } : {}),
    ...(encoding ? { "data.encoding": encoding } : {}),
    ...(rows ? { "data.rows": rows } : {}),
    ...(skipBadRows ? { "data.skip_bad_rows": "true" } : {}),
  };
}
