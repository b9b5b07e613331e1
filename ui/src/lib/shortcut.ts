// The commands of the window, the same as in the menu bar, and the keys that choose them.

import table from "../commands.json";

export interface Command {
  /** What is chosen: `new-run`. */
  id: string;
  text: string;
  /** As the menu bar writes it: `CmdOrCtrl+Shift+O`. */
  key?: string;
  /** What else it may be looked for by. */
  words?: string;
  /** What has to be so for it to mean anything: a run in progress that is running, paused, or either; a page to go to. */
  needs?: "run" | "running" | "paused" | "back" | "forward";
}

/** All commands, by their menu. */
export const MENUS = table as Record<string, Command[]>;
export const COMMANDS = Object.values(MENUS).flat();

/** What a key means; nothing for keys that mean nothing here. */
export function shortcut({ key, metaKey, ctrlKey, shiftKey, altKey }: KeyboardEvent): string | undefined {
  if (metaKey === ctrlKey || altKey) return undefined;
  const pressed = `CmdOrCtrl+${shiftKey ? "Shift+" : ""}${key.toUpperCase()}`;
  return COMMANDS.find((command) => command.key === pressed)?.id;
}

/** A key as a person reads it: ⇧⌘O, or Ctrl+Shift+O. */
export function keyText(key: string, isMac = navigator.platform.startsWith("Mac")): string {
  if (!isMac) return key.replace("CmdOrCtrl", "Ctrl");
  const parts = key.split("+");
  return `${parts.includes("Shift") ? "⇧" : ""}⌘${parts.at(-1)}`;
}
