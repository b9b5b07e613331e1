// What a problem with data proposes. The app writes settings between backticks as they stand in a run file, such as
// `encoding: latin-1`, so that a person can copy them there; here they become a button.

import type { InspectionView } from "../../api";
import { plainly, withoutPath } from "../../lib/words";
import { encodingName, type Reading } from "./parts";

/** The control of the form that a problem is about. */
export type Control = "format" | "columns" | "encoding" | "rows";

export interface Proposal {
  text: string;
  change: Partial<Reading>;
}

type Fault = NonNullable<InspectionView["problem"]>;

const CONTROLS: Control[] = ["format", "columns", "encoding", "rows"];

export function proposalsOf({ message, hint, field }: Fault, columns: string[]): Proposal[] {
  const words = `${message} ${hint ?? ""}`;
  const encoding = /`encoding: ([\w-]+)`/.exec(words)?.[1];
  if (encoding) return [{ text: `Read it as ${encodingName(encoding)}`, change: { encoding } }];
  const mapping = mappingIn(words, columns);
  if (mapping) return [{ text: sentence(mapping), change: { columns: mapping, format: null } }];
  if (field !== "data.rows") return [];
  return [
    { text: "One row per line", change: { rows: "lines" } },
    { text: "One row per paragraph", change: { rows: "paragraphs" } },
  ];
}

/** Which control it belongs to; none when no setting can help. */
export function controlOf({ message, hint, field }: Fault): Control | undefined {
  const words = `${message} ${hint ?? ""}`;
  const named = CONTROLS.find((control) => field?.startsWith(`data.${control}`));
  return named ?? CONTROLS.find((control) => words.includes(`\`${control}: `) || words.includes(`\`${control}.`));
}

/** The problem in the words of the window: what a button below it does is not spelled out as in a run file. */
export function problemOf(fault: Fault, columns: string[]): Fault {
  if (/say which column is what/.test(fault.message) && columns.length > 0) {
    const part = Object.keys(mappingIn(fault.message, columns) ?? {})[0] ?? "prompt";
    const names = columns.map((column) => `“${column}”`).join(", ");
    return { ...fault, message: `Which column is the ${part}?`, hint: `The columns are ${names}.` };
  }
  const { text, path } = withoutPath(fault.message);
  return { ...fault, message: `${plainly(text)}${path ? `: \`${path}\`` : ""}` };
}

function mappingIn(words: string, columns: string[]): Record<string, string> | undefined {
  const inside = /`columns: \{(.*?)\}`/.exec(words)?.[1] ?? "";
  const pairs = [...inside.matchAll(/(\w+): (.*?)(?=, \w+: |$)/g)].map(([, part = "", column = ""]) => [part, column] as const);
  const meant = pairs.length > 0 && pairs.every(([, column]) => columns.includes(column));
  return meant ? Object.fromEntries(pairs) : undefined;
}

function sentence(mapping: Record<string, string>): string {
  const pairs = Object.entries(mapping).map(([part, column]) => `${part} from “${column}”`);
  return `Use ${pairs.join(", ")}`;
}
