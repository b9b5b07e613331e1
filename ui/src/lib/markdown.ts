// Markdown as models write it, made into HTML that can do nothing: no HTML of theirs, no images, no addresses to follow.
//
// A link keeps its address in `data-address` and is no place to go to; who shows the HTML decides what a click means.
// An answer that is still being written is read block by block: what is finished is made once, and only the rest again.

import DOMPurify from "dompurify";
import { Marked, type Token, type Tokens } from "marked";

/** What the HTML is made of. Everything else is taken out, whoever put it there. */
const ALLOWED = {
  ALLOWED_TAGS: [
    ...["p", "br", "hr", "h3", "strong", "em", "del", "a", "span", "code", "pre", "blockquote", "ul", "ol", "li"],
    ...["table", "thead", "tbody", "tr", "th", "td", "div", "button"],
  ],
  ALLOWED_ATTR: ["class", "start", "type", "role", "tabindex", "title", "data-address", "data-copy"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

/** Text that would take a reader of Markdown long, or too deep, is shown as it is. */
const MAX = { lineLength: 8000, wordLength: 1000, markers: 32, run: 256, cells: 10_000, delimiters: 3000 };

/** What emphasis, links and code are made with. */
const DELIMITERS = "*_~[!`";

/** A line across. */
const RULE = /^ *([-*_])( *\1){2,} *$/;

/** While text is written, it is made into HTML no more than this share of the time: 1 in 5. */
const REST = 4;

const marked = new Marked({
  gfm: true,
  // HTML is text like any other.
  tokenizer: { html: () => undefined, tag: () => undefined },
  renderer: {
    // One level for all: which levels a model uses says nothing about the page it is on.
    heading({ tokens, depth }) {
      return `<h3 class="depth-${depth}">${this.parser.parseInline(tokens)}</h3>\n`;
    },
    code({ text, lang }) {
      const language = /^[\w+#.-]{1,24}/.exec(lang ?? "")?.[0] ?? "";
      const bar = `<div class="bar"><span>${escaped(language)}</span><button type="button" data-copy="code">Copy</button></div>`;
      return `<div class="code">${bar}<pre tabindex="0"><code>${escaped(text)}</code></pre></div>\n`;
    },
    html: ({ text }) => escaped(text),
    link({ href, tokens }) {
      const words = this.parser.parseInline(tokens);
      const address = escaped(addressOf(href));
      if (address === "") return words;
      return `<a role="link" tabindex="0" data-address="${address}" title="${address}">${words}</a>`;
    },
    image({ href, text }) {
      const address = href.length > 200 ? `${href.slice(0, 200)}…` : href;
      return `<span class="image">${escaped([text, `(${address})`].filter(Boolean).join(" "))}</span>`;
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    table(token) {
      const cells = (row: Tokens.TableCell[]) => `<tr>${row.map((cell) => this.tablecell(cell)).join("")}</tr>`;
      const body = token.rows.map(cells).join("");
      return `<div class="wide" tabindex="0"><table><thead>${cells(token.header)}</thead><tbody>${body}</tbody></table></div>\n`;
    },
    tablecell({ tokens, header, align }) {
      const name = header ? "th" : "td";
      return `<${name}${align ? ` class="${align}"` : ""}>${this.parser.parseInline(tokens)}</${name}>`;
    },
  },
});

/** A text that may still grow, as blocks of HTML. */
export class Blocks {
  /** What was read, with one kind of line end. */
  #text = "";
  /** Where the first block starts that is not finished. */
  #start = 0;
  #finished: string[] = [];
  #shown: string[] = [];
  /** Whether anything names an address that is used elsewhere, which needs the whole text. */
  #defines = false;
  /** When it is time to read again. */
  #next = 0;

  /** The blocks of a text. While it is `live`, what is new in it may wait a moment. */
  read(text: string, live: boolean, clock: () => number = () => performance.now()): string[] {
    const before = clock();
    const plain = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    const grows = plain.startsWith(this.#text);
    if (live && grows && before < this.#next) return this.#shown;
    if (!grows || (!live && this.#defines)) [this.#start, this.#finished] = [0, []];
    this.#text = plain;
    this.#shown = this.#read(plain.slice(this.#start), live);
    const after = clock();
    this.#next = after + (after - before) * REST;
    return this.#shown;
  }

  #read(rest: string, live: boolean): string[] {
    const tokens = isWild(rest) ? undefined : lexed(rest);
    if (!tokens) return [...this.#finished, asItIs(rest)];
    const open: string[] = [];
    let [at, finishedTo] = [0, 0];
    for (const token of tokens) {
      if (!rest.startsWith(token.raw, at)) live = false;
      at += token.raw.length;
      if (token.type === "def") this.#defines = true;
      if (token.type === "space" || token.type === "def") continue;
      // The first line after a block decides whether it belongs to it, so it has to be whole.
      const finished = live && open.length === 0 && hasLine(rest, at);
      const html = rendered(token);
      if (finished) {
        this.#finished.push(html);
        finishedTo = at;
      } else open.push(html);
    }
    this.#start += finishedTo;
    return [...this.#finished, ...open];
  }
}

/** Whether a whole line with words stands after a place. */
function hasLine(text: string, at: number): boolean {
  const line = /\s*\S[^\n]*\n/y;
  line.lastIndex = at;
  return line.test(text);
}

/** Whether text would take long to read: a line or a paragraph without end, or marks inside marks inside marks. */
export function isWild(text: string): boolean {
  let [fence, lines, delimiters, widest] = ["", 0, 0, 0];
  for (const line of text.split("\n")) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1] ?? "";
    if (fence !== "" || mark !== "") {
      if (fence === "") fence = mark;
      else if (mark.startsWith(fence)) fence = "";
      if (fence.length > MAX.run) return true;
      continue;
    }
    // Each paragraph and each item is read by itself.
    if (line.trim() === "") [lines, delimiters, widest] = [0, 0, 0];
    if (/^ *([-*+|]|\d+[.)]) /.test(line)) delimiters = 0;
    if (RULE.test(line)) continue;
    const found = marksOf(line);
    lines += 1;
    delimiters += found.delimiters;
    widest = Math.max(widest, found.columns);
    if (found.isWild || delimiters > MAX.delimiters || lines * widest > MAX.cells) return true;
  }
  return false;
}

function marksOf(line: string): { isWild: boolean; delimiters: number; columns: number } {
  let [markers, indent, run, word, columns, delimiters] = [0, 0, 0, 0, 0, 0];
  let [isLead, isWild, last] = [true, line.length > MAX.lineLength, ""];
  for (const letter of line) {
    const isDelimiter = DELIMITERS.includes(letter);
    // What a quote or an item of a list begins with, before any words.
    if (isLead && (letter === ">" || (letter === " " && "-*+.)".includes(last)))) markers += 1;
    if (isLead && letter === " ") indent += 1;
    if (!/[\d >\-*+.)]/.test(letter)) isLead = false;
    if (isDelimiter) delimiters += 1;
    if (letter === "|") columns += 1;
    run = isDelimiter && letter === last ? run + 1 : 1;
    word = /[!-~]/.test(letter) ? word + 1 : 0;
    if (run > MAX.run || word > MAX.wordLength) isWild = true;
    last = letter;
  }
  if (markers > MAX.markers || indent > 4 * MAX.markers) isWild = true;
  return { isWild, delimiters, columns };
}

/** A page of the web; nothing else is worth going to. */
function addressOf(href: string): string {
  try {
    const { protocol, href: address } = new URL(href);
    return protocol === "https:" || protocol === "http:" ? address : "";
  } catch {
    return "";
  }
}

function lexed(text: string): Token[] | undefined {
  try {
    return marked.lexer(text);
  } catch {
    return undefined;
  }
}

function rendered(token: Token): string {
  let html: string;
  try {
    html = marked.parser([token]);
  } catch {
    return asItIs(token.raw);
  }
  // Where it can't be made harmless, as without a window, it is not HTML.
  return DOMPurify.isSupported ? DOMPurify.sanitize(html, ALLOWED) : asItIs(token.raw);
}

function asItIs(text: string): string {
  return `<p class="plain">${escaped(text)}</p>`;
}

function escaped(text: string): string {
  const names: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (letter) => names[letter] ?? "");
}
