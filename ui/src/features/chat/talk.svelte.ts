// A conversation with a model that answers, and with the one it came from.

import type { ChatView, Turn as KeptTurn } from "../../api";
import type { Keeper } from "./kept.svelte";
import type { Pair, Request } from "./pair.svelte";
import { BASE, MAIN, keptTurns, messagesOf, textOf, turnOf, turnsOf, type Place, type Side, type Turn } from "./turns";

export class Talk {
  turns = $state.raw<Turn[]>([]);
  /** What was answered last, for those who hear the page. */
  said = $state("");
  #going: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly pair: Pair,
    private readonly keeper: Keeper,
  ) {}

  begin(turns: KeptTurn[]) {
    this.turns = turnsOf(turns);
    this.said = "";
  }

  /** Ends what is being written, and waits for it. */
  async settle() {
    if (this.pair.answering) await this.pair.stop();
    await this.#going;
  }

  /** Whether it was answered. What was not leaves everything as it was. */
  say(said: string, before = this.turns, again = 0): Promise<boolean> {
    const going = this.#say(said, before, again);
    this.#going = going;
    return going;
  }

  /** Has the last turn answered again, differently. */
  async again() {
    const turn = this.turns[this.turns.length - 1];
    if (turn) await this.say(turn.said, this.turns.slice(0, -1), turn.again + 1);
  }

  /** Keeps what changed besides the turns. */
  keep() {
    return this.keeper.keep(keptTurns(this.turns));
  }

  async #say(said: string, before: Turn[], again: number): Promise<boolean> {
    const { chat, base, answering } = this.pair;
    if (!chat || answering) return false;
    const was = this.turns;
    const { isOn } = this.pair.steering;
    const other = base && !isOn ? ([BASE, base] as const) : ([MAIN, chat] as const);
    const turn = turnOf(said, base !== undefined || isOn, again);
    this.turns = [...before, turn];
    if (isOn) this.#change(turn, "beside", { isPlain: true });
    const sides = turn.beside ? ([["answer", MAIN, chat], ["beside", ...other]] as const) : ([["answer", MAIN, chat]] as const);
    const requests = sides.map(([side, place, model]): Request => ({
      place,
      isPlain: side === "beside" && isOn,
      messages: this.#messages(before, said, place, model),
      show: (text, tokens) => this.#change(turn, side, { text, scored: side === "answer" ? this.pair.probing.scored(tokens) : undefined }),
    }));
    const [main, second] = await this.pair.ask(requests, again);
    const written = [main, second].some((outcome) => outcome?.end?.text);
    if (!main?.end || (this.pair.stopped && !written)) {
      this.turns = was;
      this.pair.problem = main?.problem;
      return false;
    }
    this.#change(turn, "answer", { text: main.end.text, end: main.end, live: false });
    if (second?.end) this.#change(turn, "beside", { text: second.end.text, end: second.end, live: false });
    else if (second?.problem) this.#change(turn, "beside", { problem: second.problem, live: false });
    else if (second) this.turns = this.turns.map((one) => (one.key === turn.key ? { ...one, beside: undefined } : one));
    this.said = main.end.text;
    void this.keep();
    return true;
  }

  #messages(before: Turn[], said: string, place: Place, { answers }: ChatView) {
    if (answers) return messagesOf(this.keeper.system, before, said, place);
    return [{ role: "user" as const, content: textOf(before, said, place) }];
  }

  #change(turn: Turn, side: "answer" | "beside", change: Partial<Side>) {
    this.turns = this.turns.map((one) => {
      const before = one[side];
      return one.key === turn.key && before ? { ...one, [side]: { ...before, ...change } } : one;
    });
  }
}
