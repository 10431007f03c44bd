// Fails the build if the compressed script of the first load exceeds its limit.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BYTES_MAX = 250 * 1024;
const dist = new URL("../dist/", import.meta.url);
const page = readFileSync(new URL("index.html", dist), "utf8");
const scripts = [...page.matchAll(/(?:src|href)="\/(assets\/[^"]+\.js)"/g)].map((match) => match[1]);
const bytes = scripts.reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, dist))).length, 0);

console.log(`script at first load: ${(bytes / 1024).toFixed(1)} KB compressed, of ${BYTES_MAX / 1024} KB`);
if (scripts.length === 0 || bytes > BYTES_MAX) process.exit(1);
