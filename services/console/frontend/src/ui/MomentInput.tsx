import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { parseMoment, timeZone, typedMoment } from "../lib";

/** A time as text in the chosen zone. value: ISO, empty: none. onChange is not called while the text is no time. */
export function MomentInput({ value, onChange, label }: { value: string; onChange: (iso: string) => void; label?: string }) {
  const text = useSignal(typedMoment(value));
  const zone = timeZone.value;
  useEffect(() => {
    if ((parseMoment(text.peek()) ?? "") !== value) text.value = typedMoment(value);
  }, [value, zone]);
  const wrong = text.value.trim() !== "" && parseMoment(text.value) === null;
  const take = (typed: string): void => {
    text.value = typed;
    const found = typed.trim() === "" ? "" : parseMoment(typed);
    if (found !== null) onChange(found);
  };
  return <input class="input number" type="text" aria-label={label} aria-invalid={wrong} placeholder="2026-01-31 12:00" maxLength={19} value={text.value} title={wrong ? "A time such as 2026-01-31 or 2026-01-31 12:00" : undefined} onInput={(event) => take(event.currentTarget.value)} />;
}
