// How other programs ask the server: whole examples that can be pasted and run.

export type Language = "curl" | "python" | "javascript";

export const LANGUAGES: { value: Language; text: string }[] = [
  { value: "curl", text: "curl" },
  { value: "python", text: "Python" },
  { value: "javascript", text: "JavaScript" },
];

export interface Asked {
  address: string;
  model: string;
  /** Whether it answers turns; otherwise it continues text. */
  answers: boolean;
  /** The key, or nothing where any is accepted. */
  key: string;
}

/** What is asked in an example. */
const WORDS = { chat: "Where is my order?", text: "Once upon a time" };

export function example(language: Language, { address, model, answers, key }: Asked): string {
  const name = JSON.stringify(model);
  const secret = JSON.stringify(key || "none");
  if (language === "curl") {
    const asks = answers ? `"messages": [{"role": "user", "content": "${WORDS.chat}"}]` : `"prompt": "${WORDS.text}", "max_tokens": 64`;
    const body = `{"model": ${name},\n       ${asks}}`;
    const head = ["Content-Type: application/json", ...(key ? [`Authorization: Bearer ${key}`] : [])];
    const lines = [`curl ${address}/${answers ? "chat/completions" : "completions"}`, ...head.map((line) => `-H ${quoted(line)}`), `-d ${quoted(body)}`];
    return lines.join(" \\\n  ");
  }
  if (language === "python") {
    return [
      "from openai import OpenAI",
      "",
      `client = OpenAI(base_url="${address}", api_key=${secret})`,
      ...(answers
        ? ["answer = client.chat.completions.create(", `    model=${name},`, `    messages=[{"role": "user", "content": "${WORDS.chat}"}],`, ")", "print(answer.choices[0].message.content)"]
        : ["answer = client.completions.create(", `    model=${name}, prompt="${WORDS.text}", max_tokens=64,`, ")", "print(answer.choices[0].text)"]),
    ].join("\n");
  }
  return [
    'import OpenAI from "openai";',
    "",
    `const client = new OpenAI({ baseURL: "${address}", apiKey: ${secret} });`,
    ...(answers
      ? ["const answer = await client.chat.completions.create({", `  model: ${name},`, `  messages: [{ role: "user", content: "${WORDS.chat}" }],`, "});", "console.log(answer.choices[0].message.content);"]
      : ["const answer = await client.completions.create({", `  model: ${name}, prompt: "${WORDS.text}", max_tokens: 64,`, "});", "console.log(answer.choices[0].text);"]),
  ].join("\n");
}

/** A word of a shell, whatever is in it. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
