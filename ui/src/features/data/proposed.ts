// What a problem with data proposes, as buttons.

import type { InspectionView } from "../../api";
import { encodingName, type Reading } from "./parts";

/** The control of the form that a problem is about. */
export type Control = "format" | "columns" | "encoding" | "rows";

export interface Proposal {
  text: string;
  change: Partial<Reading>;
}

type Fault = NonNullable<InspectionView["problem"]>;

const CONTROLS: Control[] = ["format", "columns", "encoding", "rows"];

export function proposalsOf({ proposal, field }: Fault): Proposal[] {
  if (proposal?.encoding !== undefined) return [{ text: `Read it as ${encodingName(proposal.encoding)}`, change: { encoding: proposal.encoding } }];
  if (proposal?.columns?.length) return [{ text: sentence(proposal.columns), change: { columns: Object.fromEntries(proposal.columns), format: null } }];
  if (field !== "data.rows") return [];
  return [
    { text: "One row per line", change: { rows: "lines" } },
    { text: "One row per paragraph", change: { rows: "paragraphs" } },
  ];
}

/** Which control it belongs to; none when no setting can help. */
export const controlOf = ({ field }: Fault): Control | undefined => CONTROLS.find((control) => field?.startsWith(`data.${control}`));

/** The problem in the words of the window: what a button below it does is not spelled out as in a run file. */
export function problemOf(fault: Fault, columns: string[]): Fault {
  const { proposal } = fault;
  if (!proposal) return fault;
  if (proposal.columns && columns.length > 0) {
    const part = proposal.columns[0]?.[0] ?? "prompt";
    const names = columns.map((column) => `“${column}”`).join(", ");
    return { ...fault, message: `Which column is the ${part}?`, hint: `The columns are ${names}.` };
  }
  return { ...fault, hint: null };
}

const sentence = (columns: [string, string][]): string => `Use ${columns.map(([part, column]) => `${part} from “${column}”`).join(", ")}`;
