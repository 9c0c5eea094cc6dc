import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect } from "preact/hooks";

/** Whether a page was shown: until then it is loading. */
export const shown = signal(false);

export function Shown({ children }: { children: ComponentChildren }) {
  useLayoutEffect(() => void (shown.value = true), []);
  return <>{children}</>;
}
