/** The public key that signed the request of a record, from its header `ce_request`; null: the request was not signed. */
export function signingKey(header: unknown): string | null {
  if (typeof header !== "string") return null;
  try {
    const kept: unknown = JSON.parse(header);
    const key = typeof kept === "object" && kept !== null ? (kept as { key?: unknown }).key : null;
    return typeof key === "string" ? key : null;
  } catch {
    return null;
  }
}
