// What a person asked for: what came of it, and why it could not be done.

export class Acting {
  error = $state.raw<unknown>();
  /** What was done, for those who can't see it too. */
  said = $state("");
  busy = $state(false);

  /** Does something; what it returns is said. Returns whether it could be done. */
  async do(action: () => unknown): Promise<boolean> {
    this.error = undefined;
    this.said = "";
    this.busy = true;
    try {
      const said = await action();
      if (typeof said === "string") this.said = said;
      return true;
    } catch (problem) {
      this.error = problem;
      return false;
    } finally {
      this.busy = false;
    }
  }
}
