// Something that the app is asked for: its answer, and why there is none.

export class Asked<T> {
  /** The last answer, which stays while it is asked for again. */
  answer = $state.raw<T>();
  error = $state.raw<unknown>();

  constructor(private readonly ask: () => Promise<T>) {}

  look = async () => {
    try {
      this.answer = await this.ask();
      this.error = undefined;
    } catch (problem) {
      this.error = problem;
    }
  };
}
