// The build, and the development server. The preview sends the binary's security headers, so that violations of the policy
// show up here first. POSTHASTE_URL is the address of the API.
import { defineConfig } from "vite";

const api = process.env["POSTHASTE_URL"] ?? "http://127.0.0.1:8080";
const proxy = { "/v1": api, "/livez": api, "/readyz": api, "/openapi.json": api };

export default defineConfig({
  build: {
    target: "es2022",
    // A data: URL would need an exception in the policy.
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
