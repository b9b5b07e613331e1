// Exports for as long as the window is open: closing the dialog ends none of them.

import { api, type ExportView, type OfferView } from "../../api";
import { suggestedName } from "./formats";

/** Something that is exported: how far that is, and what came of it. */
class Exporting {
  /** From the question where to, until it is written and compared. */
  busy = $state(false);
  /** What is written, and the share that is: nothing while it is compared. */
  now = $state.raw<{ offer: OfferView; written: number | null }>();
  /** What was written, by format. */
  done = $state.raw<Record<string, ExportView>>({});
  problem = $state.raw<{ format: string; error: unknown }>();
  /** Whether it was asked to end. */
  stops = $state(false);

  constructor(private readonly model: string) {}

  /** Asks where to, and writes it there. `name` is what a file begins with that nobody has named; without one, LM Studio’s folder has it. */
  async write(offer: OfferView, name: string | null, force: boolean, compares = true) {
    this.busy = true;
    this.problem = undefined;
    this.stops = false;
    try {
      let path: string | null = null;
      if (name !== null) {
        path = await api.pick("new_network", suggestedName(name, offer));
        if (!path) return;
      }
      this.now = { offer, written: 0 };
      const view = await api.exportModel(this.model, offer.name, path, force, compares, ({ written }) => {
        // What is told last may come after the answer.
        if (this.busy) this.now = { offer, written };
      });
      this.done = { ...this.done, [offer.name]: view };
    } catch (error) {
      // What was stopped has not failed.
      if (!this.stops) this.problem = { format: offer.name, error };
    } finally {
      this.busy = false;
      this.now = undefined;
    }
  }

  /** Ends what is written, of which nothing is left. */
  async stop() {
    this.stops = true;
    await api.stopExport(this.model);
  }
}

const known = new Map<string, Exporting>();

/** The exports of a run or model, as it is now: one that learned more is another. */
export function exportingOf(model: string, about: string): Exporting {
  const key = JSON.stringify([model, about]);
  const found = known.get(key) ?? new Exporting(model);
  known.set(key, found);
  return found;
}
