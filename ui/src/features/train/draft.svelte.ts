// The form of a run: what was filled in, and what the app says it means. It outlives the page, which may be left.

import { tick } from "svelte";
import {
  api,
  FIELDS,
  type ChoiceView,
  type DataSetView,
  type Field,
  type Filled,
  type InspectionView,
  type MeasureView,
  type ModelView,
  type PlanView,
  type ProfileView,
} from "../../api";
import { latest } from "../../lib/latest";
import { kindOf, KINDS } from "../kinds";
import { idOf } from "./control";
import { asked, begun, dataOf, isReading, keyOf, lengthOf, merged, needs, read, requestOf, setOf, type Unit, unitOf } from "./filled";
import { memoryOf } from "./memory";
import { labelOf, said } from "./words";

/** Settings that every form has a control for, or the page of its data; they are not among the folded ones. */
const OWN = ["task", "name", "steps", "epochs", "data.files", "data.format", "data.columns", "data.encoding", "data.rows"];

const CONTROL = "input, select:enabled, textarea, button";

/** Where settings stand that a run or its file names and the form doesn't know. */
const OTHERS = "Others";

interface Look {
  id: string;
  filled: Filled;
}

export class Draft {
  filled = $state.raw<Filled>({});
  /** The fields it began with: one stays in sight while it is emptied to be filled anew. */
  given = $state.raw<string[]>([]);
  /** In what the length is given while none is. */
  unit = $state<Unit>("epochs");

  sets = $state.raw<DataSetView[]>();
  models = $state.raw<ModelView[]>();
  /** Why the lists above are not known. */
  missing = $state.raw<unknown>();

  plan = $state.raw<PlanView>();
  /** The question that `plan` answers. */
  planned = $state("");
  /** The choices of the last plan that was one: they stay in empty fields while something is wrong. */
  choices = $state.raw<ChoiceView[]>([]);
  /** Why there was no answer. */
  unanswered = $state.raw<unknown>();

  inspection = $state.raw<InspectionView>();
  /** The data that `inspection` is of. */
  inspected = $state("");

  measured = $state.raw<{ key: string; view: MeasureView }>();
  profiled = $state.raw<{ key: string; view: ProfileView }>();
  trial = $state<{ stopped: boolean }>();
  trialProblem = $state.raw<unknown>();

  starting = $state(false);
  /** The question whose run does not fit and was not started for that. */
  refused = $state("");
  /** What went wrong with a file or the start, and the file that was written. */
  problem = $state.raw<unknown>();
  saved = $state<string>();

  /** Which folded parts are open. */
  more = $state(false);
  open = $state<Record<string, boolean>>({});

  readonly kind = $derived(kindOf(this.filled["task"]));
  readonly method = $derived(this.kind.form.method(this.filled));
  /** What fields are called. */
  readonly names = $derived(Object.entries(this.kind.form.labels).map(([name, label]) => ({ name, label })));
  readonly asked = $derived(asked(this.filled, this.kind.form));
  readonly key = $derived(keyOf(this.asked));
  readonly pending = $derived(this.planned !== this.key && this.unanswered === undefined);
  readonly needs = $derived(needs(this.filled, this.kind.form));
  readonly set = $derived(setOf(this.filled, this.sets ?? []));
  readonly measure = $derived(this.measured?.key === this.key ? this.measured.view : undefined);
  readonly profile = $derived(this.profiled?.key === this.key ? this.profiled.view : undefined);
  readonly memory = $derived(this.plan?.estimate ? memoryOf(this.plan.estimate, this.measure?.peakBytes) : undefined);
  /** What the last plan found wrong, without what is only not chosen yet. */
  readonly found = $derived((this.plan?.problems ?? []).filter(({ field }) => !this.needs.some((need) => need.field === field)));
  /** What is wrong, as far as the last plan is about what the form says now. */
  readonly problems = $derived(this.pending ? [] : this.found);
  readonly ready = $derived(this.needs.length === 0 && this.found.length === 0 && (this.plan?.choices.length ?? 0) > 0);
  readonly lengthUnit = $derived(unitOf(this.filled, this.unit));

  /** The folded settings of the method, with those of a run file that the form doesn't know. */
  readonly folded = $derived.by(() => {
    const known = FIELDS.filter((field) => !this.#isOwn(field.name) && this.#has(field));
    const strange = this.given.filter(
      (name) => this.kind.form.belongs(name, this.filled) && !this.#isOwn(name) && !FIELDS.some((field) => field.name === name),
    );
    return [...known, ...strange.map((name): Field => ({
      name,
      group: OTHERS,
      label: labelOf(name, []),
      help: `As in a run file: ${name}.`,
      kind: "text",
      choices: [],
      unit: null,
      bounds: null,
      advanced: true,
      needs: null,
      task: null,
    }))];
  });

  #plan = latest(
    (filled: Filled) => api.planRun(filled),
    (filled, outcome) => {
      this.unanswered = "error" in outcome ? outcome.error : undefined;
      if ("error" in outcome) return;
      this.plan = outcome.answer;
      this.planned = keyOf(filled);
      if (outcome.answer.choices.length > 0) this.choices = outcome.answer.choices;
      this.#unfold();
    },
  );

  #look = latest(
    ({ id, filled }: Look) => api.inspectData(id, requestOf(filled)),
    ({ id }, outcome) => {
      this.inspected = id;
      this.inspection = "answer" in outcome ? outcome.answer : undefined;
    },
  );

  /** How the chosen set of data was read when it was chosen; nothing where the form reads it in its own way. */
  #reading = "";

  /** What was last looked into, so that other changes don't read the data again. */
  #seen = "";

  /** What the form of another kind had in it, to come back with it. */
  #others: Record<string, Filled> = {};

  /** Learns in another kind. What every form has comes along. */
  choose(task: string) {
    this.#others[this.kind.task] = this.filled;
    const { name = "" } = this.filled;
    this.#replace(merged(this.#others[task] ?? {}, { name, task: task === KINDS[0].task ? "" : task }));
    this.change({});
  }

  /** Whether a setting has a meaning beside the others. What was filled in anyway stays in sight. */
  #has({ name, needs, task }: Field): boolean {
    // Its parts are settings of their own.
    if (FIELDS.some((field) => field.name.startsWith(`${name}.`))) return false;
    if (!this.kind.form.belongs(name, this.filled) || (task !== null && task !== this.kind.task)) return false;
    if (needs === null || this.filled[name]) return true;
    const value = needs.field === "method" ? this.method : read(this.filled[needs.field]) || this.choice(needs.field)?.value;
    return value === undefined || needs.values.includes(value);
  }

  #isOwn(field: string): boolean {
    return OWN.includes(field) || this.kind.form.own.includes(field);
  }

  /** Opens the page, with what it is given or as it was left. */
  enter(filled?: Filled) {
    if (filled) this.#replace(filled);
    this.problem = undefined;
    this.saved = undefined;
    void this.#plan.now(this.asked);
    void this.load();
  }

  #replace(filled: Filled) {
    this.stopTrial();
    this.#reading = "";
    this.filled = begun(filled, kindOf(filled["task"]).form);
    this.given = Object.keys(this.filled);
    const { unit } = kindOf(filled["task"]).form;
    this.unit = unitOf(filled, unit === "steps" ? unit : "epochs");
    this.plan = undefined;
    this.planned = "";
    this.choices = [];
    this.more = false;
    this.open = {};
  }

  /** Asks what there is to choose from. */
  async load() {
    this.missing = undefined;
    const miss = (problem: unknown) => {
      this.missing = problem;
      return undefined;
    };
    const [sets, models] = await Promise.all([api.dataSets().catch(miss), api.models().catch(miss)] as const);
    this.sets = sets ?? this.sets;
    this.models = models ?? this.models;
    this.#seen = "";
    this.#follow();
    this.#lookInto();
    this.#unfold();
  }

  /** Learns from a set of data. */
  take(set: DataSetView) {
    this.#reading = JSON.stringify(requestOf(dataOf(set)));
    this.change(dataOf(set));
  }

  /** Reads the data as its page says now, where the form read it as that page said before. */
  #follow() {
    if (!this.set) return;
    const mine = JSON.stringify(requestOf(this.filled));
    const its = JSON.stringify(requestOf(dataOf(this.set)));
    if (mine === its) this.#reading = its;
    else if (mine === this.#reading) this.take(this.set);
  }

  change(changes: Filled) {
    this.filled = merged(this.filled, changes);
    this.saved = undefined;
    this.trialProblem = undefined;
    // A trial of what the form said before would answer nothing.
    this.stopTrial();
    this.#plan.soon(this.asked);
    this.#lookInto();
  }

  /** Gives the length in another unit: the same length, where it is known. */
  async count(unit: Unit) {
    const isGiven = Boolean(this.filled["steps"] ?? this.filled["epochs"]);
    // Steps of an earlier question would be another length.
    if (isGiven && this.planned !== this.key) await this.#plan.now(this.asked);
    const steps = unit === "steps" && isGiven ? String(this.plan?.steps || "") : "";
    this.unit = unit;
    this.change(lengthOf(unit, steps));
  }

  async addData(path: string) {
    await this.takeNew(await api.addData(path));
  }

  /** Learns from data that was just added. */
  async takeNew(set: DataSetView) {
    this.sets = await api.dataSets();
    this.take(set);
  }

  /** Learns from the sample, which is added as data. */
  async addSample() {
    await this.takeNew(await api.addSampleData());
  }

  #lookInto() {
    const id = this.set?.id;
    if (!id) {
      this.#look.drop();
      this.#seen = "";
      this.inspection = undefined;
      return;
    }
    const look = { id, filled: this.filled };
    const seen = JSON.stringify([id, requestOf(this.filled)]);
    if (seen === this.#seen) return;
    this.#seen = seen;
    if (this.inspected !== id) this.inspection = undefined;
    this.#look.soon(look);
  }

  /** Takes a few real steps, to know how long the run takes. */
  try() {
    return this.#take(api.tryRun, (measured) => (this.measured = measured));
  }

  /** Takes a few real steps, to know where their time and memory go. */
  lookInside() {
    return this.#take(api.profileRun, (profiled) => (this.profiled = profiled));
  }

  async #take<V>(steps: (filled: Filled) => Promise<V>, keep: (answer: { key: string; view: V }) => void) {
    if (this.trial) return;
    const { key } = this;
    this.trialProblem = undefined;
    this.trial = { stopped: false };
    const mine = this.trial;
    try {
      const view = await steps(this.asked);
      if (!mine.stopped) keep({ key, view });
    } catch (problem) {
      if (!mine.stopped) this.trialProblem = problem;
    } finally {
      this.trial = undefined;
    }
  }

  stopTrial() {
    if (!this.trial || this.trial.stopped) return;
    this.trial.stopped = true;
    void api.stopTrial().catch(() => {});
  }

  /** Starts the run, once. Returns its id, or nothing when something is wrong with it after all. What does not fit starts only when forced. */
  async start(force = false): Promise<string | undefined> {
    if (this.starting) return undefined;
    this.starting = true;
    this.problem = undefined;
    this.refused = "";
    try {
      // The last change may not have been asked about yet.
      if (this.planned !== this.key) await this.#plan.now(this.asked);
      if (this.planned !== this.key) return undefined;
      if (!this.ready) return undefined;
      if (this.memory?.fits === false && !force) {
        this.refused = this.key;
        return undefined;
      }
      this.stopTrial();
      // What was measured is known better than what was estimated.
      return await api.startRun(this.asked, force || (this.memory?.measured ?? false));
    } catch (problem) {
      this.problem = problem;
      return undefined;
    } finally {
      this.starting = false;
    }
  }

  /** Does something with a file. */
  async #withFile(act: () => Promise<void>) {
    this.problem = undefined;
    await act().catch((problem: unknown) => (this.problem = problem));
  }

  openFile() {
    return this.#withFile(async () => {
      const path = await api.pick("run_file");
      if (path) this.enter(await api.readRunFile(path));
    });
  }

  save() {
    const name = read(this.filled["name"]) || this.choice("name")?.value || "run";
    return this.#withFile(async () => {
      const path = await api.pick("new_run_file", `${name.replace(/[/\\:]/g, "-")}.yaml`);
      if (!path) return;
      await api.writeRunFile(path, this.asked);
      this.saved = path;
    });
  }

  choice(field: string): ChoiceView | undefined {
    return this.choices.find((choice) => choice.field === field);
  }

  /** What is wrong at a control, for the fields that have their home there. */
  problemAt(home: string) {
    const found = this.problems.find(({ field }) => this.home(field) === home);
    return found && said(found, this.names);
  }

  /** The control where a field is changed; nothing when there is none. */
  home(field: string): string | undefined {
    if (field === "epochs") return "steps";
    if (isReading(field) && !this.folded.some((it) => it.name === field)) return "data.files";
    const home = this.kind.form.home(field, this.filled);
    if (home) return home;
    return this.#isOwn(field) || this.folded.some((it) => it.name === field) ? field : undefined;
  }

  /** Opens the folded parts in which something is wrong. */
  #unfold() {
    for (const { field } of this.problems) this.#show(field);
  }

  #show(field: string) {
    const setting = this.folded.find((it) => it.name === field);
    if (!setting) return;
    this.more = true;
    this.open[setting.group] = true;
  }

  /** Goes to the control of a field. */
  async reveal(field: string) {
    const home = this.home(field);
    if (!home) return;
    this.#show(home);
    await tick();
    const found = document.getElementById(idOf(home));
    // A picker without anything to pick from has a button beside it.
    const place = found?.matches(":disabled") ? found.closest(".form-row") : found;
    const control = place?.matches(CONTROL) ? place : (place?.querySelector("input:checked") ?? place?.querySelector(CONTROL));
    if (control instanceof HTMLElement) control.focus();
  }
}

export const draft = new Draft();
