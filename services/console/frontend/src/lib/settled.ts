import { useEffect, useRef, useState } from "preact/hooks";

const ARCHIVED_BY_THEN_MS = 2_500;

/** Counts changes of `key`, and once more a little later: by then the archive has what the live stream told. */
export function useSettled(key: string): number {
  const [count, set] = useState(0);
  const seen = useRef(key);
  useEffect(() => {
    if (seen.current === key) return;
    seen.current = key;
    set((before) => before + 1);
    const later = setTimeout(() => set((before) => before + 1), ARCHIVED_BY_THEN_MS);
    return () => clearTimeout(later);
  }, [key]);
  return count;
}
