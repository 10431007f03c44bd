// Compiles the Rust snippets of the pages with the crates that the server was built with, so that nothing is downloaded, and
// runs them on requests that Posthaste signed.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { signedIn, startFixture, visit } from "./fixture.mjs";

const DEPS = join(dirname(resolve(process.env.POSTHASTE_BINARY ?? "")), "deps");
const VECTORS = new URL("../../receivers/vectors.json", import.meta.url);
const folder = mkdtempSync(join(tmpdir(), "journey-rust-"));
let fixture;
before(async () => {
  fixture = await startFixture();
});
after(async () => {
  await fixture?.close();
  rmSync(folder, { recursive: true });
});

/** Returns `--extern` options for the crates and versions in the snippets' first lines. */
function crates(snippets) {
  const asked = new Map(
    snippets.flatMap((text) => [...text.split("\n")[0].matchAll(/([\w-]+) = "([\d.]+)"/g)].map((each) => each.slice(1))),
  );
  return [...asked].flatMap(([name, version]) => {
    const file = name.replaceAll("-", "_");
    const isAsked = (each) =>
      readFileSync(join(DEPS, each.replace(/^lib(.*)\.rlib$/, "$1.d")), "utf8").includes(`/${name}-${version}.`);
    const found = readdirSync(DEPS).find((each) => each.startsWith(`lib${file}-`) && each.endsWith(".rlib") && isAsked(each));
    assert.ok(found, `the server is not built with ${name} ${version}`);
    return ["--extern", `${file}=${join(DEPS, found)}`];
  });
}

const bytes = (buffer) => `&[${[...buffer].join(", ")}]`;

function program(snippets, cases) {
  const modules = [...snippets].map(([name, text]) => `mod ${name} {\n${text}\n}`);
  const checks = cases.map(({ contract, secrets, headers, body }) => {
    const pairs = headers.map(([name, value]) => `(${JSON.stringify(name)}, ${bytes(Buffer.from(value))})`);
    return `check(${contract}::verify, ${JSON.stringify(secrets[0])}, &[${pairs.join(", ")}], ${bytes(Buffer.from(body, "base64"))});`;
  });
  return `${modules.join("\n")}
use http::{HeaderMap, HeaderName, HeaderValue};
fn check(verify: fn(&HeaderMap, &[u8]) -> Option<()>, secret: &str, pairs: &[(&str, &[u8])], body: &[u8]) {
    std::env::set_var("WEBHOOK_SECRET", secret);
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value).unwrap());
    }
    println!("{}", if verify(&headers, body).is_some() { "yes" } else { "no" });
}
fn main() {
    ${checks.join("\n    ")}
}
`;
}

test("the Rust snippet of every contract compiles, accepts genuine requests and rejects others", async () => {
  const names = (await fixture.api("GET", "/v1/contracts")).data.filter((each) => each.built_in).map((each) => each.name);
  const { page, close } = await signedIn(fixture, "/contracts");
  const snippets = new Map();
  for (const name of names) {
    await visit(page, `/contracts/${name}`);
    await page.getByRole("button", { name: "Rust", exact: true }).click();
    snippets.set(name, await page.getByLabel("Verification in Rust").textContent());
  }
  await close();
  const stale = snippets.get("standard");
  // The requests are old, so the tolerance is raised.
  for (const [name, text] of snippets) snippets.set(name, text.replace("> 300 {", "> 1_000_000_000 {"));
  snippets.set("stale", stale);

  const all = JSON.parse(readFileSync(VECTORS, "utf8")).cases.filter(
    ({ brand, secrets, expect }) =>
      brand === null && secrets.length === 1 && !/^wh[ps]k_/.test(secrets[0]) && ["ok", "signature_mismatch"].includes(expect),
  );
  const old = {
    ...all.find((each) => each.contract === "standard" && each.expect === "ok"),
    name: "old",
    contract: "stale",
    expect: "old",
  };
  const cases = [...all, old];
  const [source, binary] = [join(folder, "main.rs"), join(folder, "main")];
  writeFileSync(source, program(snippets, cases));
  const given = ["--edition", "2021", "-A", "warnings", "-L", `dependency=${DEPS}`, ...crates([...snippets.values()])];
  execFileSync("rustc", [...given, "-o", binary, source], {
    cwd: new URL("../..", import.meta.url),
    stdio: ["ignore", "ignore", "pipe"],
  });
  const printed = execFileSync(binary, { encoding: "utf8" }).trim().split("\n");
  const wrong = cases.filter((each, at) => printed[at] !== (each.expect === "ok" ? "yes" : "no"));
  assert.deepEqual(
    wrong.map((each) => each.name),
    [],
  );
  assert.ok(all.length > 40);
});
