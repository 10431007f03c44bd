// Reads the key from the address: `#key=…`. A fragment is never sent to a server. It is removed from the address at once, so
// that it appears in no history entry, copied link or screenshot.

export function takeKeyFromAddress(): string | null {
  const key = new URLSearchParams(window.location.hash.slice(1)).get("key");
  if (window.location.hash !== "") {
    window.history.replaceState(null, "", window.location.pathname + window.location.search);
  }
  return key === "" ? null : key;
}
