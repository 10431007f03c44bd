// Runs every snippet in its language against requests that Posthaste signed (receivers/vectors.json). Rust with a shared
// secret needs crates: the journeys compile and run it with those that the server was built with.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import fixture from "../contracts.fixture.json";
import type { ContractDocument } from "../contract-document";
import { type Signing, keyKindOf, signingOf } from "../signing";
import { LANGUAGES, snippet } from ".";

interface Vector {
  name: string;
  contract: string;
  brand: string | null;
  headers: [string, string][];
  body: string;
  secrets: string[];
  expect: string;
}

const documents = new Map(fixture.data.map((each) => [each.name, each.document as unknown as ContractDocument]));
function signedBy(name: string, signature: Partial<ContractDocument["signature"]>): ContractDocument {
  const document = documents.get(name)!;
  return { ...document, signature: { ...document.signature, ...signature } };
}
/** The signings that snippets are written for, by the contract name of the cases. */
const signings = new Map<string, Signing>([...documents].map(([name, document]) => [name, signingOf(document)!]));
signings.set("public_key", signingOf(documents.get("standard")!, "ed25519")!);
const vectors = (JSON.parse(readFileSync("../receivers/vectors.json", "utf8")) as { cases: Vector[] }).cases
  .filter(
    (each) =>
      each.brand === null &&
      each.secrets.length === 1 &&
      !/^whsk_/.test(each.secrets[0] ?? "") &&
      (each.expect === "ok" || each.expect === "signature_mismatch") &&
      new Set(each.headers.map(([name]) => name.toLowerCase())).size === each.headers.length,
  )
  .map((each) => (each.secrets[0]!.startsWith("whpk_") ? { ...each, contract: "public_key" } : each));
const NO_TOLERANCE_LIMIT = 1e9;
const folder = mkdtempSync(join(tmpdir(), "snippets-"));
afterAll(() => rmSync(folder, { recursive: true }));

function write(name: string, text: string): string {
  const path = join(folder, name);
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, text);
  return path;
}

function written(language: string, contract: string, tolerance: number): string {
  return LANGUAGES.find((each) => each.name === language)!.write(signings.get(contract)!, tolerance)!;
}

/** Runners by language. Each reads cases from a file and prints one word per case. */
const RUNNERS: Record<string, (cases: string, tolerance: number) => string> = {
  Python: (cases, tolerance) => {
    for (const name of signings.keys()) write(`python/${name}.py`, written("Python", name, tolerance));
    const run = write(
      "python/run.py",
      `import base64, importlib, json, os, sys
for case in json.load(open(sys.argv[1])):
    os.environ["WEBHOOK_SECRET"] = os.environ["WEBHOOK_PUBLIC_KEY"] = case["secrets"][0]
    headers = {name.lower(): value for name, value in case["headers"]}
    print("yes" if importlib.import_module(case["contract"]).verify(headers, base64.b64decode(case["body"])) else "no")`,
    );
    const env = { ...process.env, PYTHONPATH: resolve("../receivers/python"), PYTHONDONTWRITEBYTECODE: "1" };
    return execFileSync("python3", [run, cases], { encoding: "utf8", env });
  },
  "Node.js": (cases, tolerance) => {
    for (const name of signings.keys()) write(`node${tolerance}/${name}.mjs`, written("Node.js", name, tolerance));
    const run = write(
      `node${tolerance}/run.mjs`,
      `import { readFileSync } from "node:fs";
for (const each of JSON.parse(readFileSync(process.argv[2]))) {
  process.env.WEBHOOK_SECRET = process.env.WEBHOOK_PUBLIC_KEY = each.secrets[0];
  const { verify } = await import("./" + each.contract + ".mjs");
  const headers = Object.fromEntries(each.headers.map(([name, value]) => [name.toLowerCase(), value]));
  console.log(verify(headers, Buffer.from(each.body, "base64")) ? "yes" : "no");
}`,
    );
    return execFileSync(process.execPath, [run, cases], { encoding: "utf8" });
  },
  PHP: (cases, tolerance) => {
    const parts = [...signings.keys()].map((name) =>
      written("PHP", name, tolerance).replace("<?php", "").replace("function verify", `function ${name}`),
    );
    const run = write(
      "run.php",
      `<?php ${parts.join("\n")}
foreach (json_decode(file_get_contents($argv[1]), true) as $case) {
    putenv('WEBHOOK_SECRET=' . $case['secrets'][0]);
    putenv('WEBHOOK_PUBLIC_KEY=' . $case['secrets'][0]);
    $headers = [];
    foreach ($case['headers'] as [$name, $value]) $headers[strtolower($name)] = $value;
    echo $case['contract']($headers, base64_decode($case['body'])) ? "yes\\n" : "no\\n";
}`,
    );
    return execFileSync("php", [run, cases], { encoding: "utf8" });
  },
  Go: (cases, tolerance) => {
    const names = [...signings.keys()];
    for (const name of names) write(`go/${name}/verify.go`, `package ${name}\n\n${written("Go", name, tolerance)}\n`);
    write("go/go.mod", "module snippets\n\ngo 1.18\n");
    write(
      "go/main.go",
      `package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
${names.map((name) => `\t"snippets/${name}"`).join("\n")}
)

func main() {
	var cases []struct {
		Contract string
		Headers  [][2]string
		Body     string
		Secrets  []string
	}
	text, _ := os.ReadFile(os.Args[1])
	if err := json.Unmarshal(text, &cases); err != nil {
		panic(err)
	}
	verify := map[string]func(http.Header, []byte) bool{${names.map((name) => `"${name}": ${name}.Verify`).join(", ")}}
	for _, each := range cases {
		os.Setenv("WEBHOOK_SECRET", each.Secrets[0])
		os.Setenv("WEBHOOK_PUBLIC_KEY", each.Secrets[0])
		header := http.Header{}
		for _, pair := range each.Headers {
			header.Set(pair[0], pair[1])
		}
		body, _ := base64.StdEncoding.DecodeString(each.Body)
		fmt.Println(map[bool]string{true: "yes", false: "no"}[verify[each.Contract](header, body)])
	}
}
`,
    );
    return execFileSync("go", ["run", ".", cases], { encoding: "utf8", cwd: join(folder, "go") });
  },
};

describe("a verification snippet", () => {
  const cases = write("cases.json", JSON.stringify(vectors));

  it.each(Object.keys(RUNNERS))("in %s accepts genuine requests and rejects others", { timeout: 120_000 }, (language) => {
    const printed = RUNNERS[language]!(cases, NO_TOLERANCE_LIMIT).trim().split("\n");
    const wrong = vectors.filter((each, at) => printed[at] !== (each.expect === "ok" ? "yes" : "no"));
    expect(wrong.map((each) => each.name)).toEqual([]);
    expect(vectors.length).toBeGreaterThan(40);
    const byPublicKey = vectors.filter((each) => each.contract === "public_key").map((each) => each.expect);
    expect([...new Set(byPublicKey)].sort()).toEqual(["ok", "signature_mismatch"]);
  });

  it("in Rust accepts ed25519 signatures through the receiver kit, and rejects others", { timeout: 120_000 }, () => {
    const cases = vectors.filter((each) => each.contract === "public_key");
    const bytes = (buffer: Buffer) => `vec![${[...buffer].join(", ")}]`;
    const checks = cases.map(({ secrets, headers, body }) => {
      const pairs = headers.map(([name, value]) => `(${JSON.stringify(name)}.into(), ${bytes(Buffer.from(value))})`);
      return `check(${JSON.stringify(secrets[0])}, vec![${pairs.join(", ")}], &${bytes(Buffer.from(body, "base64"))});`;
    });
    // A stub of the crate `http` with only what the kit uses.
    const http = write(
      "rust/http.rs",
      `pub struct HeaderMap(pub Vec<(String, Vec<u8>)>);
impl<'a> IntoIterator for &'a HeaderMap {
    type Item = (&'a String, &'a Vec<u8>);
    type IntoIter = Box<dyn Iterator<Item = Self::Item> + 'a>;
    fn into_iter(self) -> Self::IntoIter { Box::new(self.0.iter().map(|(name, value)| (name, value))) }
}`,
    );
    const main = write(
      "rust/main.rs",
      `#[path = ${JSON.stringify(resolve("../receivers/rust/src/posthaste_webhooks.rs"))}] mod posthaste_webhooks;
mod snippet { ${written("Rust", "public_key", NO_TOLERANCE_LIMIT)} }
fn check(key: &str, pairs: Vec<(String, Vec<u8>)>, body: &[u8]) {
    std::env::set_var("WEBHOOK_PUBLIC_KEY", key);
    println!("{}", if snippet::verify(&http::HeaderMap(pairs), body).is_some() { "yes" } else { "no" });
}
fn main() { ${checks.join("\n")} }`,
    );
    const cwd = join(folder, "rust");
    const rustc = (...given: string[]) => execFileSync("rustc", ["--edition", "2021", "-A", "warnings", ...given], { cwd });
    rustc("--crate-type", "rlib", "--crate-name", "http", http);
    rustc("--extern", "http=libhttp.rlib", "-o", "main", main);
    const printed = execFileSync(join(cwd, "main"), { encoding: "utf8" }).trim().split("\n");
    expect(printed).toEqual(cases.map((each) => (each.expect === "ok" ? "yes" : "no")));
  });

  it("rejects old requests if the time is signed", () => {
    const printed = RUNNERS["Node.js"]!(cases, 300).trim().split("\n");
    const taken = vectors.filter((_, at) => printed[at] === "yes").map((each) => each.contract);
    expect([...new Set(taken)].sort()).toEqual(["orientedos", "simpaisa"]);
  });

  it("exists for every contract in every language", () => {
    for (const document of documents.values()) {
      for (const { name } of LANGUAGES) expect(snippet(document, name)).toContain(signingOf(document)!.header);
    }
  });

  it("is written for the endpoint's kind of key", () => {
    const standard = documents.get("standard")!;
    for (const { name } of LANGUAGES) {
      expect(snippet(standard, name, keyKindOf({ id: "ep_1", key_kind: "ed25519" }))).toContain("WEBHOOK_PUBLIC_KEY");
      expect(snippet(standard, name, keyKindOf({ id: "ep_1", key_kind: "shared" }))).toContain("WEBHOOK_SECRET");
      expect(snippet(documents.get("zerofee")!, name, "ed25519")).toBeNull();
    }
    expect(keyKindOf({ id: "ep_1" })).toBe("shared");
  });

  it("does not exist if the language's kit does not support the form of an ed25519 signature", () => {
    const document = signedBy("standard", { header: "x-signed" });
    const written = LANGUAGES.filter(({ name }) => snippet(document, name, "ed25519") !== null).map(({ name }) => name);
    expect(written).toEqual(["Node.js", "Go", "PHP"]);
  });

  it("uses the contract's brand", () => {
    const document = { ...documents.get("zerofee")!, brand: "Corner" };
    expect(snippet(document, "Python")).toContain('"x-corner-signature"');
  });

  it("does not exist if the signature's form is unknown", () => {
    const document = signedBy("standard", { hmac_sha256: "{signature}@{t}@" });
    expect(snippet(document, "Go")).toBeNull();
  });
});
