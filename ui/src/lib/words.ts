// Words of the app, put together to be read. Its sentences begin small and end open.

/** Begins large. A name of letters before a number, such as f32, and that of a program are written as they are. */
export const capital = (text: string): string => (/^([a-z]+\d|llama\.cpp|mlx-lm)/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1));

/** Names that the terminal sets in back-ticks, in quotation marks, as a page has them. */
export const quoted = (text: string): string => text.replace(/`([^`]*)`/g, "“$1”");

/** Begins large and ends with a full stop, if with nothing else. */
export function whole(text: string): string {
  const words = capital(quoted(text));
  return text === "" || /[.!?:…]$/.test(text) ? words : `${words}.`;
}

/** What an error says and the path at its end, which may be long and names the user. */
export function withoutPath(message: string): { text: string; path: string | undefined } {
  const [, text, path] = /^(.*): [`“]((?:\/|[A-Za-z]:\\)[^`”]*)[`”]$/s.exec(message) ?? [];
  return { text: text ?? message, path };
}

/** Whether a text has all the words that were typed in it. */
export function hasWords(text: string, typed: string): boolean {
  const lower = text.toLowerCase();
  return typed.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}
