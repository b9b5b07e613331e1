// Questions that change while they are answered.

/** What came back. */
export type Outcome<A> = { answer: A } | { error: unknown };

/**
 * Asks a moment after the last change, and hears only the answer to the latest question: those to earlier ones may
 * come later.
 */
export function latest<Q, A>(
  ask: (question: Q) => Promise<A>,
  hear: (question: Q, outcome: Outcome<A>) => void,
  wait = 300,
) {
  let round = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function drop() {
    clearTimeout(timer);
    round += 1;
  }

  /** Asks at once. Resolves when the answer was heard or dropped. */
  async function now(question: Q): Promise<void> {
    drop();
    const mine = round;
    const outcome: Outcome<A> = await ask(question).then(
      (answer) => ({ answer }),
      (error: unknown) => ({ error }),
    );
    if (mine === round) hear(question, outcome);
  }

  function soon(question: Q) {
    drop();
    timer = setTimeout(() => void now(question), wait);
  }

  return { now, soon, drop };
}
