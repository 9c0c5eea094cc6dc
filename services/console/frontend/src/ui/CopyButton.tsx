import { useSignal } from "@preact/signals";

/** Copies a text. what: names it, for screen readers. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const state = useSignal<"" | "copied" | "failed">("");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      state.value = "copied";
    } catch {
      state.value = "failed"; // without TLS, browsers have no clipboard but on loopback
    }
    setTimeout(() => (state.value = ""), 2_000);
  };
  return (
    <button type="button" class="copy" title={`Copy ${what}`} onClick={() => void copy()}>
      {state.value === "" ? <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linejoin="round" aria-hidden="true"><path d="M9 9h11v11H9zM5 15H4V4h11v1" /></svg> : <span aria-hidden="true">{state.value === "copied" ? "✓" : "✕"}</span>}
      <span class="visually-hidden" role="status">{state.value === "copied" ? `Copied ${what}` : state.value === "failed" ? "The browser does not permit copying" : `Copy ${what}`}</span>
    </button>
  );
}
