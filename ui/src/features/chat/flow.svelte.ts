// A text that is continued by a model that does not answer.

import type { AnswerView, Turn as KeptTurn } from "../../api";
import { edited, keptTurns, partsOf, textOf, withoutLast, type Part } from "./flow";
import type { Scored } from "../probe/live";
import type { Keeper } from "./kept.svelte";
import type { Pair, Request } from "./pair.svelte";
import { BASE, MAIN } from "./turns";

export class Flow {
  parts = $state.raw<Part[]>([]);
  /** How the last continuations went. */
  end = $state.raw<AnswerView>();
  besideEnd = $state.raw<AnswerView>();
  besideProblem = $state.raw<unknown>();
  /** What probes said of the last continuation. */
  scored = $state.raw<Scored>();
  readonly text = $derived(textOf(this.parts));
  said = $state("");
  #again = 0;
  #going: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly pair: Pair,
    private readonly keeper: Keeper,
  ) {}

  begin(turns: KeptTurn[]) {
    this.parts = partsOf(turns);
    this.end = this.besideEnd = this.besideProblem = this.scored = undefined;
    this.said = "";
    this.#again = 0;
  }

  async settle() {
    if (this.pair.answering) await this.pair.stop();
    await this.#going;
  }

  edit(text: string) {
    this.parts = edited(this.parts, text);
  }

  /** Whether the model wrote last, so that it can write that again. */
  get canAgain(): boolean {
    return withoutLast(this.parts) !== undefined;
  }

  async goOn() {
    this.#again = 0;
    await this.#write(this.parts);
  }

  /** Has the last continuation written again, differently. */
  async again() {
    const before = withoutLast(this.parts);
    if (!before) return;
    this.#again += 1;
    await this.#write(before);
  }

  keep() {
    return this.keeper.keep(keptTurns(this.parts));
  }

  async #write(before: Part[]) {
    this.#going = this.#writeAfter(before);
    await this.#going;
  }

  async #writeAfter(before: Part[]) {
    const { chat, base, answering } = this.pair;
    const given = textOf(before);
    if (!chat || answering || given === "") return;
    const was = this.parts;
    const { isOn } = this.pair.steering;
    let part: Part = { text: "", isWritten: true, beside: base || isOn ? "" : undefined, isPlain: isOn };
    const change = (change: Partial<Part>) => {
      part = { ...part, ...change };
      this.parts = [...before, part];
    };
    change({});
    this.end = this.besideEnd = this.besideProblem = this.scored = undefined;
    const messages = [{ role: "user" as const, content: given }];
    const requests: Request[] = [{ place: MAIN, messages, show: (text, tokens) => {
      change({ text });
      this.scored = this.pair.probing.scored(tokens);
    } }];
    if (base || isOn) requests.push({ place: isOn ? MAIN : BASE, isPlain: isOn, messages, show: (beside) => change({ beside }) });
    const [main, second] = await this.pair.ask(requests, this.#again);
    if (!main?.end) {
      this.parts = was;
      this.pair.problem = main?.problem;
      return;
    }
    change({ text: main.end.text, beside: second?.end?.text });
    this.end = main.end;
    this.besideEnd = second?.end;
    this.besideProblem = second?.problem;
    this.said = main.end.text;
    if (main.end.text === "") this.parts = this.pair.stopped ? was : before;
    else void this.keep();
  }
}
