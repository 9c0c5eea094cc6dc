import { useState } from "preact/hooks";

import { Button } from "./Button";

/** The first rows of a long list and a button that shows more; null: all are shown. */
export function useShowMore<T>(rows: readonly T[], initial: number, step: number): [T[], preact.JSX.Element | null] {
  const [visible, setVisible] = useState(initial);
  const button = rows.length > visible && (
    <div class="more">
      <Button onClick={() => setVisible(visible + step)}>{(rows.length - visible).toLocaleString("en")} more</Button>
    </div>
  );
  return [rows.slice(0, visible), button || null];
}
