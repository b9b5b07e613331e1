// Words of the app, put together to be read. Its sentences begin small and end open.

/** Begins large. A name of letters before a number, such as f32, is written as it is. */
export const capital = (text: string): string => (/^[a-z]+\d/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1));

/** Begins large and ends with a full stop, if with nothing else. */
export function whole(text: string): string {
  return text === "" || /[.!?:…]$/.test(text) ? capital(text) : `${capital(text)}.`;
}

/** Whether a text has all the words that were typed in it. */
export function hasWords(text: string, typed: string): boolean {
  const lower = text.toLowerCase();
  return typed.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}
