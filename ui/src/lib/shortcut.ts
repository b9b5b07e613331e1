// The shortcuts of the window, the same as in the menu bar.

const PAGES = ["home", "models", "data", "train", "runs", "chat", "device", "bench"];

/** What a key means, as the menu calls it; nothing for keys that mean nothing here. */
export function shortcut({ key, metaKey, ctrlKey, shiftKey, altKey }: KeyboardEvent): string | undefined {
  if (metaKey === ctrlKey || altKey) return undefined;
  if (/^[1-8]$/.test(key) && !shiftKey) return PAGES[Number(key) - 1];
  const name = key.toLowerCase();
  if (name === "o") return shiftKey ? "add-data" : "open-run";
  if (shiftKey) return undefined;
  return { k: "search", n: "new-run", q: "quit", ",": "settings" }[name];
}
