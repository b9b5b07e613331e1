// What a model writes can do nothing but be read.

import { describe, expect, test } from "vitest";

import { Blocks, isWild } from "../../ui/src/lib/markdown";
import { EVENLY, growth } from "./growth";

const html = (text: string) => new Blocks().read(text, false).join("");

describe("what a model writes", () => {
  test("brings no HTML of its own", () => {
    for (const text of ["<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "a <b onclick=alert(1)>b</b>", "<svg/onload=alert(1)>"]) {
      const host = document.createElement("div");
      host.innerHTML = html(text);
      expect(host.querySelectorAll("img, script, b, svg").length, text).toBe(0);
      expect(host.textContent).toContain("alert(1)");
    }
  });

  test("leads nowhere by itself: a link is a button with an address, and only to the web", () => {
    expect(html("[guide](https://example.org/a)")).toContain('data-address="https://example.org/a"');
    expect(html("[guide](https://example.org/a)")).not.toContain("href");
    for (const address of ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,hi", "tauri://localhost"]) {
      expect(html(`[x](${address})`)).not.toContain("data-address");
    }
  });

  test("has no way to run, load or go anywhere, whatever it is made of", () => {
    const hostile = [
      '[x](https://a.example/"onmouseover="alert(1))',
      "[x](https://a.example/'><img/src=x/onerror=alert(1)>)",
      "[x](&#106;avascript:alert(1))",
      "[x](java\nscript:alert(1))",
      "<javascript:alert(1)>",
      "[x]: javascript:alert(1)\n\n[x]",
      "![x](javascript:alert(1))",
      '```"><script>alert(1)</script>\nx\n```',
      "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
      "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
      '<a href="https://a.example" data-address="https://b.example">x</a>',
      '<button data-copy="code" onclick="alert(1)">x</button>',
      '<base href="https://a.example"><meta http-equiv="refresh" content="0;url=https://a.example">',
      '<style>@import "https://a.example"</style><link rel="stylesheet" href="https://a.example">',
      "| <img src=x onerror=alert(1)> |\n| - |\n| <iframe srcdoc=x> |",
      "\u0000<scr\u0000ipt>alert(1)</scr\u0000ipt>",
    ];
    for (const text of hostile) {
      const host = document.createElement("div");
      host.innerHTML = html(text);
      for (const element of host.querySelectorAll("*")) {
        expect("P BR HR H3 STRONG EM DEL A SPAN CODE PRE BLOCKQUOTE UL OL LI TABLE THEAD TBODY TR TH TD DIV BUTTON".split(" ")).toContain(element.tagName);
        for (const { name, value } of element.attributes) {
          expect(["class", "start", "type", "role", "tabindex", "title", "data-address", "data-copy"], text).toContain(name);
          if (name === "data-address") expect(value, text).toMatch(/^https?:\/\//);
        }
      }
      expect(host.querySelectorAll('[data-address^="https://b."], button[onclick]').length, text).toBe(0);
    }
  });

  test("loads no image, and says that there was one", () => {
    const made = html("![a cat](https://example.org/cat.png)");
    expect(made).not.toContain("<img");
    expect(made).toContain("a cat");
  });

  test("keeps code as it is, with a way to copy it", () => {
    const made = html('```html\n<b>"x" & y</b>\n```');
    expect(made).toContain("&lt;b&gt;");
    expect(made).toContain("Copy");
  });

  test("is the same whether it came at once or letter by letter", () => {
    const text = "# Title\n\nSome *words* and `code`.\n\n1. one\n2. two\n\n| a | b |\n| - | -: |\n| 1 | 2 |\n\n```js\nlet a;\n```\n\n> quoted\n\nend";
    const growing = new Blocks();
    let now = 0;
    for (let end = 1; end <= text.length; end += 1) growing.read(text.slice(0, end), true, () => (now += 1000));
    expect(growing.read(text, false)).toEqual(new Blocks().read(text, false));
  });

  test("is shown as it is where reading it would take long", () => {
    const deep = "> ".repeat(5000);
    expect(isWild(deep)).toBe(true);
    expect(isWild("A plain *text*.\n\n- with\n- a list")).toBe(false);
    for (const piece of ["> ", "*a ", "["]) {
      expect(growth((amount) => html(piece.repeat(amount)), 2000), piece).toBeLessThan(EVENLY);
    }
  });
});
