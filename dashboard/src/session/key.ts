// The key that came in the address: `#key=…`. A fragment is never sent to a server; it is taken out of the address at once,
// so that it is in no history entry, no copied link and no screenshot.

export function takeKeyFromAddress(): string | null {
  const given = new URLSearchParams(window.location.hash.slice(1)).get("key");
  if (window.location.hash !== "") {
    window.history.replaceState(null, "", window.location.pathname + window.location.search);
  }
  return given === "" ? null : given;
}
