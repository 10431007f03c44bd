// Shared part of the Node.js receivers: the server around their `verify`, which returns null or the reason of a refusal.
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";

export function serve(verify) {
  const [portFile, secret] = process.argv.slice(2);
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const why = verify(request.headers, body, secret);
    const line = {
      accepted: why === null,
      why,
      method: request.method,
      path: request.url,
      headers: request.headersDistinct,
      body_base64: body.toString("base64"),
      parsed: why === null ? JSON.parse(body) : null,
    };
    process.stdout.write(`${JSON.stringify(line)}\n`);
    const forced = /^\/answer\/(\d+)$/.exec(request.url);
    response.writeHead(forced ? Number(forced[1]) : why === null ? 200 : 400, { "content-length": 0 }).end();
  });
  server.listen(0, "127.0.0.1", () => writeFileSync(portFile, `${server.address().port}\n`));
}
