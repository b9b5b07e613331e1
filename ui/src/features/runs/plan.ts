// Plans of runs, side by side and searched.

import type { PlanLineView } from "../../api";
import { hasWords } from "../../lib/words";

export interface Difference {
  field: string;
  /** What each run has there. Nothing where its plan does not have the field. */
  values: (string | undefined)[];
}

/** The fields where these plans differ, and those where they don't, in the order of the plans. */
export function differ(plans: PlanLineView[][]): { different: Difference[]; same: { field: string; value: string }[] } {
  const values = plans.map((plan) => new Map(plan.map(({ field, value }) => [field, value])));
  const fields = new Set(plans.flatMap((plan) => plan.map(({ field }) => field)));
  // Every run has its own.
  fields.delete("name");
  const different: Difference[] = [];
  const same: { field: string; value: string }[] = [];
  for (const field of fields) {
    const of = values.map((plan) => plan.get(field));
    const [first] = of;
    if (first !== undefined && of.every((value) => value === first)) same.push({ field, value: first });
    else different.push({ field, values: of });
  }
  return { different, same };
}

/** The lines that have all the words somewhere. */
export function search(plan: PlanLineView[], words: string): PlanLineView[] {
  return plan.filter(({ field, value, why }) => hasWords(`${field} ${value} ${why}`, words));
}
