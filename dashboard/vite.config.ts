// The build, and a server for looking at pages: it sends the headers that the binary must send, so that what the policy
// forbids is seen here first. POSTHASTE_URL says where the API is.
import { defineConfig } from "vite";

const api = process.env["POSTHASTE_URL"] ?? "http://127.0.0.1:8080";
const proxy = { "/v1": api, "/livez": api, "/readyz": api, "/openapi.json": api };

export default defineConfig({
  build: {
    target: "es2022",
    // A data: address would need a hole in the policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy },
  preview: {
    proxy,
    headers: {
      "content-security-policy":
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    },
  },
});
