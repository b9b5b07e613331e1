// A Hub with one model, for the real window. What can go wrong with one is tested in tests/app, against a server that fails.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const COMMIT = "c0ffee".padEnd(40, "0");

/** Serves the files of a folder as a model, slowly enough to be seen. Returns its address, and how to end it. */
export async function serveModel(id, folder) {
  const files = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => ({ name, bytes: readFileSync(join(folder, name)) }));
  const info = { id, sha: COMMIT, downloads: 1234, likes: 5, lastModified: "2026-01-02T03:04:05.000Z", gated: false, pipeline_tag: "text-generation", tags: ["license:mit"] };
  const tree = files.map(({ name, bytes }) => ({ type: "file", path: name, size: bytes.length, oid: digest("sha1", Buffer.concat([Buffer.from(`blob ${bytes.length}\0`), bytes])), ...large(name, bytes) }));
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const json = (value) => response.setHeader("content-type", "application/json").end(JSON.stringify(value));
    if (pathname === "/api/models") return json([info]);
    if (pathname.includes("/tree/")) return json(tree);
    if (pathname.startsWith("/api/models/")) return json(info);
    const file = files.find(({ name }) => pathname === `/${id}/resolve/${COMMIT}/${name}`);
    if (!file) return response.writeHead(404, { "x-error-code": "EntryNotFound" }).end();
    const start = Number(/^bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0);
    const { length } = file.bytes;
    const headers = { "content-length": length - start, "content-range": `bytes ${start}-${length - 1}/${length}` };
    response.writeHead(start > 0 ? 206 : 200, headers);
    void send(response, file.bytes.subarray(start));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const end = () => {
    server.close();
    server.closeAllConnections();
  };
  return { address: `http://127.0.0.1:${server.address().port}`, end };
}

/** In pieces, so that a page can show how far it is. */
async function send(response, bytes) {
  const pieces = 40;
  for (let piece = 0; piece < pieces; piece++) {
    const [from, to] = [piece, piece + 1].map((at) => Math.floor((bytes.length * at) / pieces));
    response.write(bytes.subarray(from, to));
    if (bytes.length > 100_000) await new Promise((done) => setTimeout(done, 50));
  }
  response.end();
}

function large(name, bytes) {
  return name.endsWith(".safetensors") ? { lfs: { oid: digest("sha256", bytes), size: bytes.length, pointerSize: 135 } } : {};
}

function digest(kind, bytes) {
  return createHash(kind).update(bytes).digest("hex");
}
