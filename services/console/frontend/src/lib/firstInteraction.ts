const SIGNS = ["pointermove", "pointerdown", "keydown", "focusin"] as const;

/** Resolves at the first sign of a person in this window; what makes a page nicer to edit, but not to read, is loaded then. */
export const firstInteraction = new Promise<void>((resolve) => {
  if (typeof window === "undefined") return;
  for (const sign of SIGNS) window.addEventListener(sign, () => resolve(), { once: true, capture: true, passive: true });
});
