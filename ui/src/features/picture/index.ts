// Networks that say which of some classes a picture belongs to.

import { api } from "../../api";
import type { Tile } from "../kind";
import PictureSign from "./PictureSign.svelte";

export const task = "picture";
export const unit = "pictures";
export const canExport = true;
export const shown = { title: "Held-out pictures", none: "No pictures yet. The model looks at those that were kept aside as it learns." };

export const tiles: Tile[] = [
  {
    name: "pictures",
    title: "Pictures",
    text: "A classifier from folders of photos",
    Sign: PictureSign,
    filled: {},
    fits: () => true,
  },
];

export { further } from "./further";
export { figures, meaning, progress, shares, verdict } from "./words";

/** Pictures in folders and files, by their names. */
export const data = {
  find: async (path: string) => (await api.hasPictures(path)) || undefined,
};

export { form } from "./form";
export { uses } from "./uses";
