// Copies what the build of the dashboard made into a folder, with a gzip and a brotli version of each file where that is
// smaller, and writes a line for each: path, digest, whether there is a gzip and a brotli version. Same input, same bytes.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const [from, into] = process.argv.slice(2);
const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } };

function keepIfSmaller(path, bytes, compressed) {
  if (compressed.length >= bytes.length * 0.95) return 0;
  writeFileSync(path, compressed);
  return 1;
}

const files = readdirSync(from, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
for (const path of files.map((entry) => join(entry.parentPath, entry.name)).sort()) {
  const name = path.slice(from.length).replaceAll("\\", "/");
  const bytes = readFileSync(path);
  const target = join(into, name);
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, bytes);
  const digest = createHash("sha256").update(bytes).digest("base64url").slice(0, 27);
  const hasGzip = keepIfSmaller(`${target}.gz`, bytes, gzipSync(bytes, { level: 9 }));
  const hasBrotli = keepIfSmaller(`${target}.br`, bytes, brotliCompressSync(bytes, brotli));
  console.log([name, digest, hasGzip, hasBrotli].join("\t"));
}
