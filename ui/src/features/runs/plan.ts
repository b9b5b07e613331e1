// Plans of runs, as a person reads them: grouped, searched, and side by side.

import { FIELDS, type PlanLineView } from "../../api";
import { hasWords } from "../../lib/words";
import type { Kind } from "../kind";
import { labelOf, sentence, shown } from "../train/words";

/** A setting of a run, in the words of the form. */
export interface Setting {
  field: string;
  group: string;
  label: string;
  value: string;
  /** Why it is that. */
  why: string;
}

/** Where settings stand that the form doesn't know. */
const OTHERS = "Others";
/** What the plan says of a value that was asked for: of a run of an earlier version, the former words. */
const ASKED = /^(as asked|your setting)\.?$/i;

/** The settings of a plan, by the groups of the form and in its order. */
export function settingsOf(plan: PlanLineView[], { form }: Kind): Setting[] {
  const names = Object.entries(form.labels).map(([name, label]) => ({ name, label }));
  const settings = plan.map(({ field, value, why }) => ({
    field,
    group: groupOf(field),
    label: labelOf(field, names),
    value: shown(field, value, form),
    why: ASKED.test(why) ? "Your setting" : sentence(why, names),
  }));
  return settings.sort((a, b) => orderOf(a.field) - orderOf(b.field));
}

/** The group of a field, or of the one that it is a part of. */
function groupOf(field: string): string {
  const known = FIELDS.find(({ name }) => name === field) ?? FIELDS.find(({ name }) => name.startsWith(`${field.split(".")[0]}.`));
  return known?.group ?? OTHERS;
}

function orderOf(field: string): number {
  const at = FIELDS.findIndex(({ name }) => name === field);
  if (at >= 0) return at;
  const group = FIELDS.map((each) => each.group).lastIndexOf(groupOf(field));
  return group < 0 ? FIELDS.length : group + 0.5;
}

/** The groups of settings, in their order. */
export function grouped(settings: Setting[]): [string, Setting[]][] {
  const groups = new Map<string, Setting[]>();
  for (const setting of settings) groups.set(setting.group, [...(groups.get(setting.group) ?? []), setting]);
  return [...groups];
}

/** The settings that have all the words somewhere. */
export function search(settings: Setting[], words: string): Setting[] {
  return settings.filter(({ group, label, value, why }) => hasWords(`${group} ${label} ${value} ${why}`, words));
}

export interface Difference {
  field: string;
  group: string;
  label: string;
  /** What each run has there. Nothing where its plan does not have the field. */
  values: (string | undefined)[];
}

/** The settings in which runs differ, and those in which they don't, in the order of the form. */
export function differ(plans: Setting[][]): { different: Difference[]; same: Setting[] } {
  const values = plans.map((plan) => new Map(plan.map(({ field, value }) => [field, value])));
  const all = new Map(plans.flat().map((setting) => [setting.field, setting]));
  // Every run has its own.
  all.delete("name");
  const different: Difference[] = [];
  const same: Setting[] = [];
  for (const setting of [...all.values()].sort((a, b) => orderOf(a.field) - orderOf(b.field))) {
    const of = values.map((plan) => plan.get(setting.field));
    if (of.every((value) => value === setting.value)) same.push(setting);
    else different.push({ field: setting.field, group: setting.group, label: setting.label, values: of });
  }
  return { different, same };
}
