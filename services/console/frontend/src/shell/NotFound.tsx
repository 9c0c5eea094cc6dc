import { useLayoutEffect } from "preact/hooks";

import { EmptyState } from "../ui";

/** onShown: no code of a page is loaded for it, so nothing else ends the loading notice. */
export function NotFound({ onShown }: { onShown: () => void }) {
  useLayoutEffect(onShown, []);
  return (
    <EmptyState title="Page not found">
      <a href="/">All pools</a>
    </EmptyState>
  );
}
