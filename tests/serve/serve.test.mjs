// The server as its clients know it: OpenAI's own client against the real program with a model whose words are known.

import assert from "node:assert/strict";
import { setMaxListeners } from "node:events";
import { readdirSync } from "node:fs";
import { Agent } from "node:http";
import { connect } from "node:net";
import { after, before, describe, test } from "node:test";

import OpenAI from "openai";

import { chain, context, letters, score, special } from "./model.mjs";
import { ask, engineOf, serve } from "./server.mjs";

const asks = [{ role: "user", content: "Hello" }];

function clientOf({ address }, more = {}) {
  return new OpenAI({ baseURL: address, apiKey: "hidden-word", maxRetries: 0, timeout: 60_000, ...more });
}

/** The chunks of a stream, and its text. */
async function drain(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const text = chunks.map(({ choices: [choice] }) => choice?.delta?.content ?? choice?.text ?? "").join("");
  return { chunks, text };
}

/** The first bytes that come for what is sent as it is. Nothing where the connection is closed. */
function said({ port }, bytes) {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(bytes));
    socket.once("data", (data) => (resolve(String(data)), socket.destroy()));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(""));
  });
}

async function refused(asked, kind, status) {
  try {
    await asked;
  } catch (error) {
    assert.ok(error instanceof kind, `${error.constructor.name} is no ${kind.name}: ${error}`);
    assert.equal(error.status, status);
    return error;
  }
  assert.fail("it was answered");
}

describe("a model that chats", () => {
  let server;
  let client;
  const chat = (more) => client.chat.completions.create({ model: server.model, messages: asks, temperature: 0, max_tokens: 9, ...more });
  /** Answers that take every slot, and far longer than a client waits here. */
  const fill = () => Promise.all(Array.from({ length: 4 }, async () => {
    const stream = await chat({ max_tokens: undefined, stream: true });
    // Who leaves a loop over it aborts it.
    const chunks = stream[Symbol.asyncIterator]();
    while (!(await chunks.next()).value.choices[0].delta.content);
    return stream;
  }));

  before(async () => {
    server = await serve();
    client = clientOf(server);
  });

  test("is listed and found by its name", async () => {
    const { data } = await client.models.list();
    assert.deepEqual(data.map(({ id, object, owned_by }) => [id, object, owned_by]), [["tiny", "model", "anneal"]]);
    assert.equal((await client.models.retrieve("tiny")).id, "tiny");
    const error = await refused(client.models.retrieve("other"), OpenAI.NotFoundError, 404);
    assert.equal(error.code, "model_not_found");
    for (const path of ["/v1/models", "/models", "/v1/models/", "/models/tiny", "/health", "/health/"]) {
      assert.equal((await ask(server, { path })).status, 200, path);
    }
    assert.equal((await ask(server, { path: "/v1/responses" })).status, 404);
    assert.equal((await ask(server, { path: "/v1/embeddings" })).status, 405);
    assert.equal((await ask(server, { path: "/v1/chat/completions" })).status, 405);
  });

  test("answers, and says what it took", async () => {
    const answer = await chat();
    assert.match(answer.id, /^chatcmpl-/);
    assert.equal(answer.object, "chat.completion");
    assert.equal(answer.model, "tiny");
    const message = { role: "assistant", content: `${chain}H`, refusal: null };
    assert.deepEqual(answer.choices, [{ index: 0, message, logprobs: null, finish_reason: "length" }]);
    const { prompt_tokens, completion_tokens, total_tokens } = answer.usage;
    assert.equal(completion_tokens, 9);
    assert.equal(total_tokens, prompt_tokens + 9);
    // What was read for it is not read again.
    const again = await chat();
    assert.equal(again.usage.prompt_tokens, prompt_tokens);
    assert.equal(again.usage.prompt_tokens_details.cached_tokens, prompt_tokens - 1);
  });

  test("takes what clients send besides", async () => {
    const content = [{ type: "text", text: "Hel" }, { type: "text", text: "lo" }];
    const messages = [{ role: "developer", content: "Be short." }, { role: "user", content }];
    const parts = await chat({ messages, user: "someone", store: false, metadata: {}, response_format: { type: "text" }, n: 1 });
    const whole = await chat({ messages: [{ role: "system", content: "Be short." }, { role: "user", content: "Hello" }] });
    assert.equal(parts.usage.prompt_tokens, whole.usage.prompt_tokens);
    for (const model of ["", "default"]) assert.equal((await chat({ model })).model, "tiny");
    const most = await chat({ max_tokens: undefined, max_completion_tokens: 2 });
    assert.equal(most.choices[0].message.content, "Hi");
  });

  test("streams, and never half a letter", async () => {
    const { chunks, text } = await drain(await chat({ stream: true }));
    assert.equal(text, `${chain}H`);
    assert.deepEqual(chunks[0].choices[0].delta, { role: "assistant", content: "", refusal: null });
    const pieces = chunks.slice(1, -1).map(({ choices }) => choices[0].delta.content);
    assert.deepEqual(pieces, ["H", "i", " ", "🙂", "!", "H"]);
    assert.deepEqual(chunks.at(-1).choices[0].delta, {});
    assert.equal(chunks.at(-1).choices[0].finish_reason, "length");
    assert.equal(new Set(chunks.map(({ id, created, model, object }) => [id, created, model, object].join())).size, 1);
    assert.ok(chunks.every((chunk) => chunk.object === "chat.completion.chunk" && chunk.usage === undefined));
    // Half a letter at the end is said to be one.
    assert.equal((await drain(await chat({ stream: true, max_tokens: 5 }))).text, "Hi \u{FFFD}");
  });

  test("ends a stream with what it took, where that is asked for", async () => {
    const { chunks } = await drain(await chat({ stream: true, stream_options: { include_usage: true } }));
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.equal(chunks.at(-1).usage.completion_tokens, 9);
    assert.ok(chunks.slice(0, -1).every(({ usage }) => usage === null));
  });

  test("is a stream of events on the wire, and ends with a word", async () => {
    const body = JSON.stringify({ messages: asks, stream: true, max_tokens: 1, temperature: 0 });
    const headers = { "Content-Type": "application/json" };
    const { status, headers: got, text } = await ask(server, { method: "POST", path: "/chat/completions", headers, body });
    assert.equal(status, 200);
    assert.match(got["content-type"], /^text\/event-stream/);
    assert.equal(got["cache-control"], "no-cache");
    assert.ok(Object.keys(got).every((name) => !name.startsWith("access-control")), "no page is let in");
    const events = text.split("\n\n");
    assert.deepEqual(events.slice(-2), ["data: [DONE]", ""]);
    for (const event of events.slice(0, -2)) assert.doesNotThrow(() => JSON.parse(event.replace(/^data: /, "")));
  });

  test("stops at a text across tokens, which is not in the answer", async () => {
    for (const [stop, expected] of [["🙂!", "Hi "], [["zzz", "i 🙂"], "H"], ["!Hi", "Hi 🙂"], ["H", ""]]) {
      const whole = await chat({ stop, max_tokens: 40 });
      assert.equal(whole.choices[0].message.content, expected);
      assert.equal(whole.choices[0].finish_reason, "stop");
      const { chunks, text } = await drain(await chat({ stop, max_tokens: 40, stream: true }));
      assert.equal(text, expected);
      assert.equal(chunks.at(-1).choices[0].finish_reason, "stop");
    }
    // What only begins like one is let through.
    assert.equal((await chat({ stop: "!Hello" })).choices[0].message.content, `${chain}H`);
  });

  test("ends where the model does", async () => {
    const ends = await chat({ logit_bias: { [special["<|im_end|>"]]: 100 } });
    assert.deepEqual([ends.choices[0].message.content, ends.choices[0].finish_reason], ["", "stop"]);
    assert.equal(ends.usage.completion_tokens, 0);
  });

  test("draws the same from a seed", async () => {
    const drawn = async (seed) => (await chat({ seed, temperature: 2, top_p: 1, max_tokens: 40 })).choices[0].message.content;
    const once = await drawn(7);
    assert.equal(await drawn(7), once);
    assert.notEqual(await drawn(8), once);
    assert.notEqual(await drawn(undefined), await drawn(undefined));
    const { text } = await drain(await chat({ seed: 7, temperature: 2, top_p: 1, max_tokens: 40, stream: true }));
    assert.equal(text, once);
  });

  test("tells probabilities before temperature, with bytes", async () => {
    const expected = score - Math.log(Math.exp(score) + special["<|im_end|>"]);
    for (const temperature of [0, 0.1]) {
      const { choices } = await chat({ temperature, logprobs: true, top_logprobs: 2, max_tokens: 8 });
      const { content } = choices[0].logprobs;
      assert.deepEqual(content.flatMap(({ bytes }) => bytes), [...Buffer.from(chain)]);
      assert.equal(content[0].token, "H");
      for (const { logprob, top_logprobs } of content) {
        assert.ok(Math.abs(logprob - expected) < 1e-3, `${logprob} is not ${expected}`);
        assert.equal(top_logprobs.length, 2);
        assert.equal(top_logprobs[0].logprob, logprob);
        assert.ok(Math.abs(top_logprobs[1].logprob - (expected - score)) < 1e-3);
      }
    }
    const { chunks } = await drain(await chat({ logprobs: true, max_tokens: 8, stream: true }));
    const told = chunks.flatMap(({ choices }) => choices[0].logprobs?.content ?? []);
    assert.deepEqual(told.flatMap(({ bytes }) => bytes), [...Buffer.from(chain)]);
    // Those of a stop text are not told.
    const stopped = await chat({ logprobs: true, stop: "🙂", max_tokens: 40 });
    assert.deepEqual(stopped.choices[0].logprobs.content.map(({ token }) => token), ["H", "i", " "]);
  });

  test("writes an object of JSON where that is wanted, whatever the model would say", async () => {
    const wanted = { response_format: { type: "json_object" }, temperature: 1, top_p: 1, max_tokens: 300 };
    let objects = 0;
    for (let seed = 0; seed < 16; seed++) {
      const { choices: [{ message, finish_reason }] } = await chat({ ...wanted, seed });
      assert.ok(["stop", "length"].includes(finish_reason));
      if (finish_reason === "length") continue;
      const object = JSON.parse(message.content);
      assert.equal(typeof object, "object");
      assert.ok(!Array.isArray(object));
      objects += 1;
    }
    assert.ok(objects > 3, `${objects} of 16 ended`);
    // The likeliest is no sign that could come, so it takes the first that can; a stream is the same.
    const { text } = await drain(await chat({ ...wanted, seed: 1, stream: true }));
    assert.equal(text, (await chat({ ...wanted, seed: 1 })).choices[0].message.content);
    assert.match((await chat({ response_format: { type: "json_object" }, max_tokens: 300 })).choices[0].message.content, /^\s*\{/);
  });

  test("makes vectors of texts, the mean of their states", async () => {
    const width = 260;
    // The state of a token of this model is the token, and nothing else.
    const near = (vector, counts) => {
      const length = Math.hypot(...Object.values(counts));
      assert.equal(vector.length, width);
      vector.forEach((number, at) => assert.ok(Math.abs(number - (counts[String.fromCharCode(at)] ?? 0) / length) < 1e-5, `${at}: ${number}`));
    };
    // The client asks for base64 by itself, and takes it apart.
    const { data, model, object, usage, pooling } = await client.embeddings.create({ model: server.model, input: ["aab", "zz"] });
    assert.deepEqual([object, model, data.map(({ index }) => index)], ["list", "tiny", [0, 1]]);
    near(data[0].embedding, { a: 2, b: 1 });
    near(data[1].embedding, { z: 2 });
    assert.deepEqual(usage, { prompt_tokens: 5, total_tokens: 5 });
    assert.match(pooling, /mean of the hidden states/);
    for (const input of ["ab", [97, 98], [[97, 98]]]) {
      const asked = { model: "default", input, encoding_format: "float", dimensions: width };
      near((await client.embeddings.create(asked)).data[0].embedding, { a: 1, b: 1 });
    }
    for (const [more, param] of [
      [{ input: "" }, "input"], [{ input: [] }, "input"], [{ input: {} }, "input"], [{ input: [[9_999]] }, "input"], [{ input: undefined }, "input"],
      [{ input: "a", dimensions: 2 }, "dimensions"], [{ input: "a", encoding_format: "hex" }, "encoding_format"],
      [{ input: Array(3_000).fill("a") }, "input"],
    ]) {
      const error = await refused(client.embeddings.create({ model: "default", ...more }), OpenAI.BadRequestError, 400);
      assert.equal(error.param, param);
    }
    const error = await refused(client.embeddings.create({ model: "default", input: "x".repeat(context + 1) }), OpenAI.BadRequestError, 400);
    assert.equal(error.code, "context_length_exceeded");
    await refused(client.embeddings.create({ model: "other", input: "a" }), OpenAI.NotFoundError, 404);
  });

  test("refuses what it can't do, by the name of the field", async () => {
    const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
    const image = [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }];
    for (const [more, param] of [
      [{ temperature: -1 }, "temperature"], [{ temperature: "hot" }, "temperature"], [{ top_p: 2 }, "top_p"],
      [{ max_tokens: 0 }, "max_tokens"], [{ max_completion_tokens: 1.5 }, "max_completion_tokens"], [{ n: 2 }, "n"],
      [{ stop: ["a", "b", "c", "d", "e"] }, "stop"], [{ stop: 7 }, "stop"], [{ stop: "x".repeat(2_000) }, "stop"],
      [{ tools }, "tools"], [{ response_format: { type: "json_schema", json_schema: { name: "x" } } }, "response_format"],
      [{ response_format: "json" }, "response_format"],
      [{ logprobs: true, top_logprobs: 21 }, "top_logprobs"], [{ top_logprobs: 3 }, "top_logprobs"],
      [{ logit_bias: { 1: 200 } }, "logit_bias"], [{ logit_bias: { x: 1 } }, "logit_bias"], [{ stream: "yes" }, "stream"],
      [{ messages: [] }, "messages"], [{ messages: [{ role: "robot", content: "" }] }, "messages[0].role"],
      [{ messages: image }, "messages[0].content"], [{ seed: 1.5 }, "seed"], [{ presence_penalty: 3 }, "presence_penalty"],
    ]) {
      const error = await refused(chat(more), OpenAI.BadRequestError, 400);
      assert.equal(error.param, param);
      assert.ok(error.message.length > 10);
    }
    await refused(chat({ model: "gpt-4o" }), OpenAI.NotFoundError, 404);
  });

  test("refuses what is longer than the model reads", async () => {
    const messages = [{ role: "user", content: "x".repeat(context) }];
    for (const stream of [false, true]) {
      const error = await refused(chat({ messages, stream }), OpenAI.BadRequestError, 400);
      assert.equal(error.code, "context_length_exceeded");
      assert.match(error.message, /the prompt has \d+ tokens, and the model reads 32767 at most/);
    }
  });

  test("refuses a body that is no JSON, or too large", async () => {
    const headers = { "Content-Type": "application/json" };
    const post = (body, more = headers) => ask(server, { method: "POST", path: "/v1/chat/completions", headers: more, body });
    for (const body of ["", "{", "[]", "7", `{"messages":${"[".repeat(50_000)}`]) {
      const { status, text } = await post(body);
      assert.equal(status, 400, body.slice(0, 40));
      assert.equal(JSON.parse(text).error.type, "invalid_request_error");
    }
    assert.equal((await post("{}", { "Content-Type": "text/plain" })).status, 415);
    // It is refused by what is said of its length, before any of it comes.
    const head = (more) => `POST /v1/completions HTTP/1.1\r\nHost: localhost:${server.port}\r\nContent-Type: application/json\r\n${more}\r\n\r\n`;
    assert.match(await said(server, head(`Content-Length: ${11 << 20}`)), /^HTTP\/1.1 413 /);
    const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
    assert.match(await said(server, head("Transfer-Encoding: chunked") + chunk.repeat(161)), /^HTTP\/1.1 413 /);
    assert.match(await said(server, head(`X-Long: ${"x".repeat(17_000)}`)), /^(HTTP\/1.1 431 |$)/);
  });

  test("takes two at once", async () => {
    const both = await Promise.all([chat({ max_tokens: 200 }), drain(await chat({ max_tokens: 100, stream: true }))]);
    assert.equal(both[0].choices[0].message.content, chain.repeat(25));
    assert.equal(both[1].text, (chain.repeat(12) + "Hi \u{FFFD}").slice(0, both[1].text.length));
  });

  test("answers beside long ones, as it does alone", async () => {
    const drawn = { temperature: 1, seed: 7, max_tokens: 60, logprobs: true, top_logprobs: 3 };
    const said = ({ choices: [{ message, logprobs, finish_reason }] }) => ({ message, logprobs, finish_reason });
    const alone = said(await chat(drawn));
    const long = await fill();
    long[0].controller.abort();
    const beside = [said(await chat(drawn)), said(await chat(drawn))];
    for (const stream of long) stream.controller.abort();
    assert.deepEqual(beside, [alone, alone]);
  });

  test("tells nobody what one who left would have heard", async () => {
    for (let at = 0; at < 10; at++) {
      const left = await chat({ max_tokens: undefined, stream: true });
      const chunks = left[Symbol.asyncIterator]();
      while (!(await chunks.next()).value.choices[0].delta.content);
      left.controller.abort();
      const leave = new AbortController();
      const vector = client.embeddings.create({ model: "tiny", input: "x".repeat(4_000) }, { signal: leave.signal }).catch(() => undefined);
      setTimeout(() => leave.abort(), 10 * at);
      await vector;
      assert.equal((await chat()).choices[0].message.content, `${chain}H`);
    }
  });

  test("writes on beside vectors", async () => {
    const stream = await chat({ max_tokens: 300, stream: true });
    const vectors = Promise.all([1, 2].map(() => client.embeddings.create({ model: "tiny", input: Array.from({ length: 60 }, (_, at) => "x".repeat(200 + at)) })));
    const { text } = await drain(stream);
    assert.ok(text.startsWith(`${chain}H`), text);
    assert.ok((await vectors).every(({ data }) => data.length === 60));
  });

  test("answers nobody whose host or origin is foreign", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 8 });
    const port = server.port;
    let at = 0;
    const word = () => Array.from({ length: 1 + (at % 20) }, (_, i) => "abcdefghijklmnopqrstuvwxyz0123456789-."[(at * 31 + i * 17 + at * i) % 38]).join("");
    const foreign = [];
    for (; foreign.length < 1_000; at++) {
      foreign.push({ Host: `${word()}:${port}` }, { Host: `localhost.${word()}:${port}` }, { Host: `127.0.0.1:${port + 1 + at}` });
      foreign.push({ Origin: `https://${word()}` }, { Origin: `http://localhost:${port}`, "Content-Type": "text/plain" });
    }
    const answers = await Promise.all(foreign.map((headers) => ask(server, { headers, agent })));
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([403]));
    assert.ok(answers.every(({ text }) => !text.includes("tiny")));
    assert.equal((await ask(server, { setHost: false, agent })).status, 400);
    assert.equal((await ask(server, { headers: { Host: `localhost:${port}` }, agent })).status, 200);
    agent.destroy();
  });

  test("has its place free again when a client leaves", async () => {
    const full = await fill();
    full[2].controller.abort();
    // Only its place is free.
    const next = await chat({}, { timeout: 10_000 });
    assert.equal(next.choices[0].message.content, `${chain}H`);
    for (const stream of full) stream.controller.abort();
  });

  test("lets 32 wait and sends the next one away", async () => {
    const full = await fill();
    const leave = new AbortController();
    setMaxListeners(100, leave.signal);
    const sentAway = [];
    let settled = 0;
    const asked = Array.from({ length: 40 }, () =>
      client.chat.completions.create({ model: "tiny", messages: asks, max_tokens: 1 }, { signal: leave.signal })
        .catch((failure) => failure instanceof OpenAI.RateLimitError && sentAway.push(failure))
        .finally(() => settled++));
    const until = Date.now() + 20_000;
    while (sentAway.length < 8 && Date.now() < until) await new Promise((resolve) => setTimeout(resolve, 20));
    // Nobody knows which of them came last, but no more than the 8 are sent away, and nobody is answered yet.
    assert.deepEqual([sentAway.length, settled], [8, 8]);
    for (const { headers } of sentAway) assert.ok(Number(headers.get("retry-after")) > 0);
    leave.abort();
    for (const stream of full) stream.controller.abort();
    await Promise.all(asked);
    assert.equal((await chat()).choices[0].message.content, `${chain}H`);
  });

  test("is as it was after 200 clients that left at any time", { skip: process.platform !== "linux" && "it is looked at in /proc" }, async () => {
    const held = () => readdirSync(`/proc/${server.pid}/fd`).length;
    const bytes = Buffer.from(JSON.stringify({ messages: asks, stream: true, temperature: 1 }));
    const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:${server.port}\r\nContent-Type: application/json\r\nContent-Length: ${bytes.length}\r\n\r\n`;
    const whole = Buffer.concat([Buffer.from(head), bytes]);
    const visit = (at) => new Promise((resolve) => {
      const socket = connect(server.port, "127.0.0.1", () => {
        // Some leave within the head, some within the body, some while they wait, some while they are answered.
        socket.write(at % 3 === 0 ? whole.subarray(0, (at * 7) % whole.length) : whole);
        setTimeout(() => socket.destroy(), (at * 13) % 60);
      });
      socket.on("data", () => at % 2 === 0 && socket.destroy());
      socket.on("error", () => undefined);
      socket.on("close", resolve);
    });
    await chat();
    const before = held();
    for (let at = 0; at < 200; at += 20) await Promise.all(Array.from({ length: 20 }, (_, more) => visit(at + more)));
    assert.equal((await chat()).choices[0].message.content, `${chain}H`);
    const until = Date.now() + 10_000;
    while (held() > before && Date.now() < until) await new Promise((resolve) => setTimeout(resolve, 50));
    assert.ok(held() <= before, `${held()} files are open, and ${before} were`);
  });

  test("says that its engine ended, and has a new one", { skip: process.platform === "win32" && "there is no pgrep" }, async () => {
    const stream = await chat({ max_tokens: undefined, stream: true });
    const heard = (async () => {
      for await (const chunk of stream) if (chunk.choices[0].delta.content === "!") kill();
    })();
    const engine = engineOf(server);
    const kill = () => { try { process.kill(engine, "SIGKILL"); } catch { /* it is dead already */ } };
    await assert.rejects(heard, /the engine was killed/);
    assert.equal((await chat()).choices[0].message.content, `${chain}H`);
    assert.notEqual(engineOf(server), engine);

    const whole = chat({ max_tokens: undefined });
    setTimeout(() => process.kill(engineOf(server), "SIGKILL"), 200);
    const error = await refused(whole, OpenAI.InternalServerError, 503);
    assert.match(error.message, /the engine was killed.*send the request once more/);
    assert.equal(error.headers.get("retry-after"), "1");
    assert.equal((await chat()).choices[0].message.content, `${chain}H`);
    // A client that tries again by itself notices nothing.
    const patient = clientOf(server, { maxRetries: 2 });
    const tried = patient.chat.completions.create({ model: "tiny", messages: asks, temperature: 0, max_tokens: 3_000 });
    setTimeout(() => process.kill(engineOf(server), "SIGKILL"), 100);
    assert.equal((await tried).usage.completion_tokens, 3_000);
  });

  test("tells of each request its times and sizes, and no words", async () => {
    const text = JSON.stringify(server.entries);
    assert.ok(server.entries.length > 200, text);
    assert.ok(!text.includes("Hello") && !text.includes(chain) && !text.includes("hidden-word"));
    // One of those that left late may have been answered in full: it has no name.
    const answered = server.entries.filter(({ client, completion_tokens }) => client === "OpenAI" && completion_tokens === 9);
    assert.ok(answered.length > 3);
    for (const { request, status, note, millis } of answered) {
      assert.deepEqual([request.split(" ")[0], status, note], ["POST", 200, null]);
      assert.ok(millis > 0);
    }
    const notes = new Set(server.entries.map(({ note }) => note?.replace(/\d+/, "N")));
    for (const note of ["the client left after N tokens", "the client left before the answer"]) assert.ok(notes.has(note), note);
  });

  test("ends while it answers", async () => {
    const stream = await chat({ max_tokens: undefined, stream: true });
    const chunks = stream[Symbol.asyncIterator]();
    assert.equal((await chunks.next()).done, false);
    assert.equal(await server.stop(), 0);
    // What came does not say that it is whole.
    const rest = [];
    const read = async () => {
      for (let next = await chunks.next(); !next.done; next = await chunks.next()) rest.push(next.value);
    };
    await read().catch(() => undefined);
    assert.ok(rest.every(({ choices }) => choices[0].finish_reason === null));
  });
});

describe("a server with a key", () => {
  let server;

  before(async () => {
    server = await serve({ more: ["--key", "secret"] });
  });
  after(() => server.stop());

  test("answers only who shows it", async () => {
    for (const apiKey of ["any", "secre", "secrets"]) {
      const error = await refused(clientOf(server, { apiKey }).models.list(), OpenAI.AuthenticationError, 401);
      assert.equal(error.code, "invalid_api_key");
    }
    assert.equal((await clientOf(server, { apiKey: "secret" }).models.list()).data.length, 1);
    assert.equal((await ask(server, { path: "/health" })).status, 200);
    assert.ok(!server.notes.join().includes("secret"));
  });
});

test("a server refuses to keep keys and values as nobody can", async () => {
  await assert.rejects(serve({ more: ["--cache", "q4"] }), /invalid value 'q4'.*unknown variant `q4`, expected one of `auto`, `full`, `f16`, `q8`/s);
});

describe("a model that continues text", () => {
  let server;
  let client;
  const complete = (more) => client.completions.create({ model: "tiny", prompt: "a", temperature: 0, ...more });

  before(async () => {
    server = await serve({ chats: false, more: ["--cache", "q8"] });
    client = clientOf(server);
  });
  after(() => server.stop());

  test("does so to its end", async () => {
    const { object, choices, usage } = await complete();
    assert.equal(object, "text_completion");
    assert.deepEqual(choices, [{ index: 0, text: letters, logprobs: null, finish_reason: "stop" }]);
    assert.deepEqual([usage.prompt_tokens, usage.completion_tokens], [1, 4]);
    assert.equal((await complete({ echo: true })).choices[0].text, `a${letters}`);
    assert.equal((await complete({ echo: true, max_tokens: 0 })).choices[0].text, "a");
    const { chunks, text } = await drain(await complete({ stream: true, stream_options: { include_usage: true } }));
    assert.equal(text, letters);
    assert.equal(chunks.at(-1).usage.completion_tokens, 4);
    // As many as OpenAI has without a number.
    assert.equal((await complete({ prompt: "\n" })).usage.completion_tokens, 16);
  });

  test("takes several prompts, and prompts of tokens", async () => {
    const { choices, usage } = await complete({ prompt: ["a", "b"] });
    assert.deepEqual(choices.map(({ index, text }) => [index, text]), [[0, "bcde"], [1, "cde"]]);
    assert.equal(usage.completion_tokens, 7);
    assert.equal((await complete({ prompt: [97] })).choices[0].text, letters);
    assert.deepEqual((await complete({ prompt: [[97], [98]] })).choices.map(({ text }) => text), ["bcde", "cde"]);
  });

  test("tells probabilities in lists beside each other", async () => {
    const { choices } = await complete({ logprobs: 1, max_tokens: 3 });
    const { tokens, token_logprobs, top_logprobs, text_offset } = choices[0].logprobs;
    assert.deepEqual([tokens, text_offset], [["b", "c", "d"], [0, 1, 2]]);
    assert.deepEqual(top_logprobs.map((it) => Object.keys(it)), [["b"], ["c"], ["d"]]);
    assert.ok(token_logprobs.every((it) => it < 0 && it > -1));
  });

  test("refuses what it can't do", async () => {
    for (const [more, param] of [
      [{ prompt: "" }, "prompt"], [{ prompt: {} }, "prompt"], [{ prompt: [1_000_000] }, "prompt"], [{ prompt: [-1] }, "prompt"],
      [{ best_of: 2 }, "best_of"], [{ suffix: "z" }, "suffix"], [{ echo: true, logprobs: 1 }, "echo"],
      [{ prompt: ["a", "b"], stream: true }, "stream"], [{ prompt: Array(65).fill("a") }, "prompt"],
    ]) {
      assert.equal((await refused(complete(more), OpenAI.BadRequestError, 400)).param, param);
    }
    const error = await refused(client.chat.completions.create({ model: "tiny", messages: asks }), OpenAI.BadRequestError, 400);
    assert.match(error.message, /continues text.*\/v1\/completions/);
  });
});
