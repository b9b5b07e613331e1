// A set of puzzles that is being made. It outlives the page that asked for it.

import { api, type DataSetView } from "../../api";

class Making {
  /** How many there are, of how many. */
  progress = $state.raw<{ made: number; of: number }>();

  async make(size: number, train: number, heldOut: number, seed: number): Promise<DataSetView | null> {
    this.progress = { made: 0, of: train + heldOut };
    try {
      return await api.buildSudoku(size, train, heldOut, seed, (made) => (this.progress = { made, of: train + heldOut }));
    } finally {
      this.progress = undefined;
    }
  }

  stop() {
    void api.stopBuild().catch(() => undefined);
  }
}

export const making = new Making();
