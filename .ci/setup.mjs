// Brings a fresh machine to the point where Anneal can be built, or says exactly what to install.
//
// Installs only what is missing: system packages through apt, Rust through rustup, Node packages through npm.
// Deliberately absent: a pinned toolchain, changes to the user's default toolchain or shell profile, and anything
// that is not needed to build and test. Plain Node, no dependencies.

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of the repository. */
export const root = fileURLToPath(new URL("..", import.meta.url));

/** Something the user has to do. Its message is all they see. */
export class Missing extends Error {}

/** Makes the machine ready. Changes `process.env`, so that the commands run next find what was installed. */
export async function setUp() {
  checkNode();
  installNodePackages();
  installSystemPackages();
  await installRust();
}

/** Installs a part of the Rust toolchain, such as `clippy`, unless its command works already. */
export function needRustComponent(component, command) {
  if (runs("cargo", [command, "--version"])) return;
  if (!runs("rustup", ["--version"]) || !tries("rustup", ["component", "add", component])) {
    throw new Missing(
      `\`cargo ${command}\` is missing and could not be installed. Install the Rust component \`${component}\`: ` +
        `\`rustup component add ${component}\`, or your system's package of that name.`,
    );
  }
}

function checkNode() {
  if (Number(process.versions.node.split(".")[0]) < 20) {
    throw new Missing(`Node is ${process.versions.node}; 20 or newer is needed. Install it from https://nodejs.org.`);
  }
}

function installNodePackages() {
  const lock = join(root, "package-lock.json");
  const packages = Object.keys(JSON.parse(readFileSync(lock, "utf8")).packages).filter((path) => path !== "");
  if (packages.length === 0) return;
  const installed = join(root, "node_modules", ".package-lock.json");
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return;
  say("Installing the Node packages with `npm ci`.");
  const options = { cwd: root, stdio: "inherit", shell: process.platform === "win32" };
  if (spawnSync("npm", ["ci"], options).status !== 0) {
    throw new Missing("`npm ci` failed; its own message above says why. Run it by hand, then try again.");
  }
}

/** What Rust needs from the system. rustup's installer needs a program that downloads, but only when it runs. */
function installSystemPackages() {
  if (process.platform === "darwin") {
    if (runs("xcode-select", ["-p"])) return;
    throw new Missing("Apple's command line tools are missing. Install them with `xcode-select --install`.");
  }
  if (process.platform !== "linux") return; // On Windows, rustup asks for Microsoft's build tools itself.
  const packages = [];
  if (!runs("cc", ["--version"])) packages.push("build-essential");
  if (!runs("pkg-config", ["--exists", "webkit2gtk-4.1"])) packages.push("pkg-config", "libwebkit2gtk-4.1-dev");
  if (!findsRust() && !runs("curl", ["--version"]) && !runs("wget", ["--version"])) {
    packages.push("curl", "ca-certificates");
  }
  if (packages.length > 0) installWithApt(packages);
}

/** What the test of the window needs besides: a screen without a monitor, and a driver for the web view. */
export function needWindowDriver() {
  const packages = [];
  if (!runs("xvfb-run", ["--help"])) packages.push("xvfb", "xauth");
  if (!runs("WebKitWebDriver", ["--help"])) packages.push("webkit2gtk-driver");
  if (packages.length > 0) installWithApt(packages);
}

/** A Chromium, Chrome or Edge for the tests of the pages: a found one, or one that is installed now. Without, undefined. */
export function needBrowser() {
  if (!findBrowser() && process.platform === "linux" && runs("apt-get", ["--version"])) installWithApt(["chromium"]);
  return findBrowser();
}

/** A driver of Vulkan that needs no GPU, and a compiler that reads Metal's language: found, or installed now. Whether the driver is there. */
export function needVulkan() {
  const driver = "/usr/share/vulkan/icd.d";
  const isThere = () => existsSync(driver) && readdirSync(driver).length > 0;
  const packages = [];
  if (!isThere()) packages.push("mesa-vulkan-drivers", "libvulkan1");
  if (!runs("clang-14", ["--version"])) packages.push("clang-14");
  if (packages.length > 0 && process.platform === "linux" && runs("apt-get", ["--version"])) {
    try {
      installWithApt(packages);
    } catch (error) {
      if (!(error instanceof Missing)) throw error;
      say(error.message);
    }
  }
  return isThere();
}

/** Pictures that a network learns in a test: found, or installed now. Whether they are there. */
export function needPictures() {
  const folder = "/usr/share/datasets/fashion-mnist";
  if (existsSync(folder)) return true;
  if (process.platform !== "linux" || !runs("apt-get", ["--version"])) return false;
  try {
    installWithApt(["dataset-fashion-mnist"]);
  } catch (error) {
    if (!(error instanceof Missing)) throw error;
    say(error.message);
  }
  return existsSync(folder);
}

/** Where a Chromium, Chrome or Edge lies. CHROME_PATH names another. */
export function findBrowser() {
  if (process.env.CHROME_PATH) return process.env.CHROME_PATH;
  const { PATH = "", PROGRAMFILES = "", "PROGRAMFILES(X86)": programFiles86 = "" } = process.env;
  const mac = (name) => join("/Applications", `${name}.app`, "Contents", "MacOS", name);
  const places = {
    darwin: () => ["Google Chrome", "Chromium", "Microsoft Edge"].map(mac),
    win32: () =>
      [PROGRAMFILES, programFiles86].flatMap((folder) => [
        join(folder, "Google", "Chrome", "Application", "chrome.exe"),
        join(folder, "Microsoft", "Edge", "Application", "msedge.exe"),
      ]),
    linux: () =>
      ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge"].flatMap((name) =>
        PATH.split(delimiter).map((folder) => join(folder, name)),
      ),
  };
  return places[process.platform]?.().find((path) => existsSync(path));
}

function installWithApt(packages) {
  const names = packages.join(" ");
  const elsewhere = "a C compiler with its linker (`cc`), `pkg-config`, the headers of WebKitGTK 4.1, and `curl`";
  if (!runs("apt-get", ["--version"])) {
    throw new Missing(`Something is missing of these: ${elsewhere}. Install them with your system's packages.`);
  }
  const isRoot = process.getuid() === 0;
  const sudo = isRoot ? [] : process.stdin.isTTY ? ["sudo"] : ["sudo", "--non-interactive"];
  const byHand = `As root, run \`apt-get install ${names}\`, then try again.`;
  if (!isRoot && !runs("sudo", ["--version"])) {
    throw new Missing(`System packages are missing, and there is no \`sudo\` to install them. ${byHand}`);
  }
  say(`About to install system packages with apt-get${isRoot ? "" : " and sudo"}: ${names}.`);
  const apt = (...words) => tries(...split([...sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", ...words]));
  apt("update", "--quiet"); // An old list of packages is good enough when there is no network.
  if (!apt("install", "--quiet", "--yes", "--no-install-recommends", ...packages)) {
    throw new Missing(`\`apt-get\` could not install ${names}. ${byHand}`);
  }
}

async function installRust() {
  const wanted = wantedRust();
  const cargoBin = join(process.env.CARGO_HOME ?? join(homedir(), ".cargo"), "bin");
  if (!findsRust()) process.env.PATH = cargoBin + delimiter + process.env.PATH;
  if (findsRust()) return;
  const found = foundRust();
  const problem = found ? `Rust is ${found}; ${wanted} or newer is needed` : `Rust ${wanted} or newer is missing`;
  const byHand = `Install Rust ${wanted} or newer from https://rustup.rs, then try again.`;

  if (!runs("rustup", ["--version"])) {
    say(`${problem}. Installing it with rustup into ${cargoBin}.`);
    await runRustupInstaller(problem, byHand);
  }
  // The user's default toolchain stays what it is; only our own commands ask for `stable`.
  if (!findsRust()) process.env.RUSTUP_TOOLCHAIN = "stable";
  if (!findsRust()) {
    say(`${problem}. Installing the stable toolchain with rustup.`);
    const words = ["toolchain", "install", "stable", "--profile", "minimal", "--no-self-update"];
    tries("rustup", [...words, "--component", "clippy", "--component", "rustfmt"]);
  }
  if (!findsRust()) {
    throw new Missing(`${problem}, and rustup could not install it. ${byHand}`);
  }
}

async function runRustupInstaller(problem, byHand) {
  if (process.platform === "win32") {
    throw new Missing(`${problem}. ${byHand} With winget: \`winget install Rustlang.Rustup\`.`);
  }
  const folder = mkdtempSync(join(tmpdir(), "anneal-rustup-"));
  try {
    const script = join(folder, "rustup-init.sh");
    const answer = await fetch("https://sh.rustup.rs", { signal: AbortSignal.timeout(60_000) });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    writeFileSync(script, await answer.text());
    process.env.RUSTUP_INIT_SKIP_PATH_CHECK = "yes"; // An older Rust elsewhere on the system is no obstacle.
    const words = ["-y", "--no-modify-path", "--profile", "minimal", "--component", "clippy", "rustfmt"];
    if (!tries("sh", [script, ...words])) throw new Error("its installer failed, see above");
  } catch (error) {
    const reason = error.cause?.message ?? error.message;
    throw new Missing(`${problem}, and rustup could not be had from https://sh.rustup.rs: ${reason}. ${byHand}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The oldest Rust that will do, from its one place, `Cargo.toml`. */
function wantedRust() {
  return readFileSync(join(root, "Cargo.toml"), "utf8").match(/^rust-version = "([\d.]+)"/m)[1];
}

/** The version of the Rust that would be used, or undefined. */
function foundRust() {
  const said = spawnSync("rustc", ["--version"], { encoding: "utf8", cwd: root }).stdout ?? "";
  return said.match(/^rustc (\d+\.\d+\.\d+)/)?.[1];
}

function findsRust() {
  const found = foundRust();
  return found !== undefined && runs("cargo", ["--version"]) && !isOlder(found, wantedRust());
}

/** Whether version `found` comes before version `wanted`, compared number by number. */
function isOlder(found, wanted) {
  const [a, b] = [found, wanted].map((version) => version.split(".").map(Number));
  const place = b.findIndex((number, index) => (a[index] ?? 0) !== number);
  return place !== -1 && (a[place] ?? 0) < b[place];
}

/** Whether a command runs and ends well, in silence. */
export function runs(command, words) {
  return spawnSync(command, words, { stdio: "ignore", cwd: root }).status === 0;
}

/** Runs a command in sight of the user; whether it ended well. */
function tries(command, words) {
  return spawnSync(command, words, { stdio: "inherit", cwd: root }).status === 0;
}

function split([command, ...words]) {
  return [command, words];
}

function say(sentence) {
  console.error(sentence);
}
