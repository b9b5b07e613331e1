// The scripts of package.json: `node .ci/task.mjs NAME [MORE WORDS]`. Each sets the machine up first.
//
// A task is a list of commands, run in order. One that fails ends the task, except where each looks at something else: there the
// others are run all the same, and at the end it is said which failed. Words after `--` go to the last command:
// `npm test -- resume`, `npm start -- device`.

import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { availableParallelism, constants } from "node:os";
import { join } from "node:path";

import { Missing, needBrowser, needPictures, needRustComponent, needVulkan, needWindowDriver, root, runs, setUp } from "./setup.mjs";

/** What a Mac builds with besides the CPU. */
const features = ["--features", "metal,accelerate"];
const here = process.platform === "darwin" ? features : [];

/** Checkpoints written by both must load. tests/goldens/requirements.txt has everything else. */
const transformersVersions = ["4.57.6", "5.23.0"];

/** The tasks that continue after a command that failed, unless what follows needs what it makes, or the user wants no more. */
const goOn = ["check", "test"];
const interrupted = ["SIGHUP", "SIGINT", "SIGTERM"].map((signal) => 128 + constants.signals[signal]);

/** Each task gets the words after `--` and returns its commands. */
const tasks = {
  // With words, they are the program's: `npm start -- device`. Without, the window opens where there is a screen.
  start: (more) => {
    const hasScreen = process.platform !== "linux" || process.env.DISPLAY || process.env.WAYLAND_DISPLAY;
    if (more.length === 0 && !hasScreen) {
      console.error("There is no display to open the window on, so the starter runs in the terminal.");
      more = ["starter"];
    }
    return [...pages(), command("cargo", "run", "--release", "--package", "anneal", ...here, "--", ...more)];
  },

  dev: (more) => [...pages(), command("cargo", "run", "--package", "anneal", ...here, "--", ...more)],

  check: () => {
    needRustComponent("rustfmt", "fmt");
    needRustComponent("clippy", "clippy");
    return [
      ...pages(),
      node("svelte-check", "svelte-check", "--workspace", "ui", "--tsconfig", "./tsconfig.json", "--fail-on-warnings"),
      command("cargo", "fmt", "--all", "--check"),
      command("cargo", "clippy", "--workspace", "--all-targets", ...here, "--", "-D", "warnings"),
      command("cargo", "clippy", "--package", "anneal", "--no-default-features", "--", "-D", "warnings"),
      // With examples, of which there are two for comparisons (tests/goldens), dependencies have the features of the tests, as
      // clippy has looked at them.
      { ...command("cargo", "doc", "--workspace", "--no-deps", "--lib", "--bins", "--examples", ...here), env: { RUSTDOCFLAGS: "-D warnings" } },
    ];
  },

  fix: () => {
    needRustComponent("rustfmt", "fmt");
    needRustComponent("clippy", "clippy");
    const clippy = ["clippy", "--fix", "--allow-dirty", "--allow-staged", "--workspace", "--all-targets"];
    return [command("cargo", ...clippy, ...here), command("cargo", "fmt", "--all")];
  },

  // The program's own tests come last, so that the last line is their count.
  test: (more) => {
    // Many tests wait for another process: one more at once than there are cores keeps these busy.
    const threads = ["--test-threads", String(availableParallelism() + 1)];
    const tests = runs("cargo", ["nextest", "--version"])
      ? command("cargo", "nextest", "run", "--workspace", "--no-fail-fast", ...threads, ...here, ...more)
      : command("cargo", "test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests", ...here, ...more);
    if (!needPictures()) {
      console.error("SKIPPED: whether pictures are learned well enough. Install Fashion-MNIST, Debian's package dataset-fashion-mnist.");
    }
    if (more.length > 0) return [...pages(), tests];
    const metal = metalTests();
    return [...pages(), ...pageTests(), ...windowTests(), ...serverTests(), ...metal.steps, { ...tests, env: metal.env }];
  },

  // README.md shows them; whoever changes how the window looks makes them anew.
  pictures: () => {
    if (!needBrowser()) throw new Missing("The pictures are taken in a browser. Install Chromium, Chrome or Edge, or name one in CHROME_PATH.");
    return [command(process.execPath, join("tests", "ui", "pictures.mjs"))];
  },

  bench: (more) => [command("cargo", "bench", "--workspace", "--benches", ...here, "--", ...more)],

  // Only those who change an architecture need this: the numbers are committed, and tests need no Python.
  goldens: (more) => {
    if (!runs("python3", ["--version"])) {
      throw new Missing("Making goldens needs Python 3.11 or newer with `venv`. Install it from https://python.org.");
    }
    const python = (version) => {
      const program = process.platform === "win32" ? "Scripts/python.exe" : "bin/python";
      return join(root, "target", `goldens-${version}`, program);
    };
    const script = (name) => join("tests", "goldens", name);
    const environment = (version) => {
      const requirements = ["--requirement", script("requirements.txt"), `transformers==${version}`];
      return [
        ...(existsSync(python(version)) ? [] : [command("python3", "-m", "venv", join("target", `goldens-${version}`))]),
        command(python(version), "-m", "pip", "install", "--quiet", ...requirements),
      ];
    };
    // Models, adapters, templates and texts that nobody chose, drawn from a seed: nothing is written, and what differs is an error.
    if (more.includes("--random")) {
      const newest = transformersVersions.at(-1);
      const at = more.indexOf("--seed");
      const seed = at < 0 ? [] : more.slice(at, at + 2);
      const others = ["random_adapters.py", "random_templates.py", "random_tokenizers.py"];
      return [
        ...environment(newest),
        command(python(newest), script("random_models.py"), ...more),
        command("cargo", "build", "--package", "anneal-models", "--example", "answer"),
        ...others.map((name) => command(python(newest), script(name), ...seed)),
      ];
    }
    const made = transformersVersions.flatMap((version) => [
      ...environment(version),
      command(python(version), script("make_goldens.py"), ...more),
    ]);
    // The other direction: what Anneal saves has to load in both.
    const exports = join(root, "target", "exports");
    const tests = command("cargo", "test", "--workspace", ...here, "--test", "models", "exports::");
    const checks = transformersVersions.map((version) =>
      command(python(version), script("check_exports.py"), "--all", exports),
    );
    return [...made, { ...tests, env: { ANNEAL_WRITE_EXPORTS: exports } }, ...checks];
  },

  // On another system than macOS, crates with C code need a C compiler for the Mac. Who has one names a program in
  // ANNEAL_CHECK_MACOS that is given the folder of the repository and does the check with it.
  "check:macos": () => {
    const program = process.env.ANNEAL_CHECK_MACOS;
    if (program) return [command(program, root)];
    const target = ["--target", "aarch64-apple-darwin"];
    const check = command("cargo", "check", "--workspace", ...target, ...features);
    return [...(runs("rustup", ["--version"]) ? [command("rustup", "target", "add", target[1])] : []), check];
  },
};

/** Builds the window's pages, which the program holds. */
function pages() {
  return [{ ...node("vite", "vite", "build", "ui", "--logLevel", "warn"), needed: true }];
}

/** The pages with a made-up app behind them: their parts alone, then all of them in a browser, where there is one. */
function pageTests() {
  const parts = node("vitest", "vitest", "run", "--config", join("ui", "vitest.config.ts"));
  if (needBrowser()) return [parts, command(process.execPath, "--test", join("tests", "ui", "window.test.mjs"))];
  console.error("The pages are not tested in a browser: there is no Chromium, Chrome or Edge. Install one, or name one in CHROME_PATH.");
  return [parts];
}

/** The journey through the real window, where its web view can be driven. */
function windowTests() {
  if (process.platform !== "linux") return [];
  needWindowDriver();
  const screen = ["--auto-servernum", "--server-args=-screen 0 1280x800x24"];
  return [build(), command("xvfb-run", ...screen, "node", "--test", join("tests", "e2e", "window.mjs"))];
}

/** The server, asked by OpenAI's own client. */
function serverTests() {
  return [build(), command(process.execPath, "--test", join("tests", "serve", "serve.test.mjs"))];
}

/**
 * The kernels for Metal, on a Vulkan driver: alone, and launched by the tests of the program, which are told by `env` who runs them.
 * They are a workspace of their own, since the app needs none of what they need.
 */
function metalTests() {
  if (process.platform !== "linux") return { steps: [], env: {} };
  const folder = join("target", "metal");
  const cargo = (word) => command("cargo", word, "--manifest-path", join("tests", "metal", "Cargo.toml"), "--target-dir", folder);
  if (!needVulkan()) {
    console.error("SKIPPED: what the kernels for Metal compute. Install a Vulkan driver: Debian's mesa-vulkan-drivers with libvulkan1.");
    return { steps: [cargo("test")], env: {} };
  }
  const need = { ANNEAL_NEED_VULKAN: "1" };
  const standIn = { ANNEAL_METAL_STAND_IN: join(root, folder, "debug", "anneal-metal") };
  return { steps: [cargo("build"), { ...cargo("test"), env: need }], env: { ...need, ...standIn } };
}

/** Builds the program as the tests after it: by itself, it would need some of its dependencies compiled a second time. */
function build() {
  return { ...command("cargo", "test", "--workspace", "--no-run", ...here), needed: true };
}

/** A program of an installed Node package. */
function node(packageName, program, ...words) {
  const { bin } = JSON.parse(readFileSync(join(root, "node_modules", packageName, "package.json"), "utf8"));
  const file = typeof bin === "string" ? bin : bin[program];
  return command(process.execPath, join("node_modules", packageName, file), ...words);
}

function command(name, ...words) {
  return { name, words };
}

/** How a person would type a command. */
function typed({ name, words }) {
  return [name === process.execPath ? "node" : name, ...words].join(" ");
}

/** Runs one command in sight of the user, says how long it took, and returns its exit code. */
async function run(step) {
  const { name, words, env } = step;
  const started = performance.now();
  console.error(`> ${typed(step)}`);
  const child = spawn(name, words, { cwd: root, stdio: "inherit", env: { ...process.env, ...env } });
  // A terminal sends Ctrl-C to the child itself; passing it on would make it two.
  const listeners = ["SIGINT", "SIGTERM", "SIGHUP"].map((signal) => {
    const pass = () => (signal === "SIGINT" && process.stdin.isTTY) || child.kill(signal);
    process.on(signal, pass);
    return [signal, pass];
  });
  const code = await new Promise((resolve, reject) => {
    child.on("error", (error) => reject(new Missing(`\`${name}\` could not be started: ${error.message}.`)));
    child.on("close", (status, signal) => resolve(status ?? 128 + constants.signals[signal]));
  });
  for (const [signal, pass] of listeners) process.off(signal, pass);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.error(`> ${code === 0 ? "done" : `ended with code ${code}`} after ${seconds} s`);
  return code;
}

async function main([name, ...more]) {
  if (!(name in tasks)) {
    throw new Missing(`There is no task \`${name}\`. There are: ${Object.keys(tasks).join(", ")}.`);
  }
  await setUp();
  const failed = [];
  let worst = 0;
  for (const step of tasks[name](more)) {
    const code = await run(step);
    if (code === 0) continue;
    worst ||= code;
    failed.push(typed(step));
    if (step.needed || !goOn.includes(name) || interrupted.includes(code)) break;
  }
  if (failed.length > 0 && goOn.includes(name)) console.error(`> failed: ${failed.map((words) => `\`${words}\``).join(", ")}`);
  return worst;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof Missing)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
