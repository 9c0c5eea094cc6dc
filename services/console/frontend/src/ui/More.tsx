import { useState } from "preact/hooks";

import { Button } from "./Button";

/** The first of a long list, and the button that shows more of them; null: all are shown. */
export function useMore<T>(rows: readonly T[], atFirst: number, step: number): [T[], preact.JSX.Element | null] {
  const [shown, show] = useState(atFirst);
  const button = rows.length > shown && (
    <div class="more">
      <Button onClick={() => show(shown + step)}>{(rows.length - shown).toLocaleString("en")} more</Button>
    </div>
  );
  return [rows.slice(0, shown), button || null];
}
