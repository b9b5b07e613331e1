// A repository's description as Markdown alone. Descriptions are written for a web page: with HTML among the Markdown,
// and pictures. Nothing of that is shown here, so the tags would only be in the way of the words.

/** Tags that say how words look. Others, as `<think>` or `<s>`, are words of the text. */
const LOOKS =
  "b|big|br|blockquote|center|code|details|div|em|figcaption|figure|font|h[1-6]|hr|i|iframe|img|li|ol|p|picture|pre|small|source|span|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul|video";
const INLINE = ["em", "font", "i", "small", "big", "span", "sub", "sup", "u"];
const TAG = new RegExp(`<(/?)(${LOOKS})(?=[\\s/>])([^<>]{0,4000})>`, "gi");
const LINK = /<a\s([^<>]{0,2000})>([^<>]{0,2000})<\/a>/gi;
const COMMENT = /<!--[^]*?(?:-->|$)/g;
const PICTURE = /!\[([^[\]]{0,400})\]\([^()]{0,2000}\)/g;
const FENCE = /^\s*(`{3,}|~{3,})/;

/** The text without tags and pictures. Code stays as it is. */
export function cardText(card: string): string {
  return outsideOfCode(card.replaceAll("\r\n", "\n"), plain).trim();
}

/** Changes the stretches of a text that are no code. */
function outsideOfCode(text: string, change: (words: string) => string): string {
  const made: string[] = [];
  let words: string[] = [];
  let fence = "";
  const finish = () => {
    if (words.length > 0) made.push(change(words.join("\n")));
    words = [];
  };
  for (const line of text.split("\n")) {
    const mark = FENCE.exec(line)?.[1] ?? "";
    if (fence === "" && mark === "") words.push(line);
    else {
      finish();
      made.push(line);
      if (fence === "") fence = mark;
      else if (mark.startsWith(fence)) fence = "";
    }
  }
  finish();
  return made.join("\n");
}

function plain(words: string): string {
  const bare = unindented(words.replace(COMMENT, ""));
  // What stands between backticks is code too.
  const pieces = bare.split(/(`[^`\n]+`)/).map((piece, at) => (at % 2 === 1 ? piece : piece.replace(PICTURE, pictured).replace(TAG, tagged)));
  return pieces
    .join("")
    .replace(LINK, linked)
    .replace(/<\/?a(?:\s[^<>]{0,2000})?>/gi, "")
    .replace(/\[\(picture: ([^[\]]{0,400})\)\]/g, "[$1]")
    // A link that had only a picture without words in it.
    .replace(/\[\s*\]\([^()]{0,2000}\)/g, "")
    .replace(/\n\s*\n\s*\n/g, "\n\n");
}

/** What begins with a tag is HTML up to an empty line, indented as its tags are nested. Without them, that would mean code. */
function unindented(words: string): string {
  let isHtml = false;
  const lines = words.split("\n").map((line) => {
    const start = line.trimStart();
    isHtml = start !== "" && (isHtml || /^<[a-z/]/i.test(start));
    return isHtml ? start : line;
  });
  return lines.join("\n");
}

/** What a tag becomes: what Markdown has for it, or nothing. */
function tagged(_: string, slash: string, tag: string, attributes: string): string {
  const name = tag.toLowerCase();
  const isEnd = slash !== "";
  if (/^h[1-6]$/.test(name)) return isEnd ? "\n\n" : `\n\n${"#".repeat(Number(name[1]))} `;
  if (name === "img") return pictured("", attribute(attributes, "alt"));
  if (name === "b" || name === "strong") return "**";
  if (name === "code") return "`";
  if (name === "li") return isEnd ? "" : "\n- ";
  if (name === "td" || name === "th") return " ";
  if (name === "hr") return "\n\n---\n\n";
  return INLINE.includes(name) ? "" : "\n";
}

function linked(_: string, attributes: string, words: string): string {
  const address = attribute(attributes, "href");
  const text = words.trim().replace(/^\(picture: (.*)\)$/, "$1");
  return address === "" || text === "" ? text : `[${text}](${address})`;
}

function pictured(_: string, words: string): string {
  return words.trim() === "" ? "" : `(picture: ${words.trim()})`;
}

function attribute(attributes: string, name: string): string {
  return new RegExp(`\\b${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)')`, "i").exec(attributes)?.slice(1).find(Boolean) ?? "";
}
