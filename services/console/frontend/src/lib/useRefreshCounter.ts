import { useEffect, useRef, useState } from "preact/hooks";

const ARCHIVE_DELAY_MS = 2_500;

/** Counts changes of `key`, plus one delayed increment each, when the archive has caught up with the live stream. */
export function useRefreshCounter(key: string): number {
  const [count, set] = useState(0);
  const seen = useRef(key);
  useEffect(() => {
    if (seen.current === key) return;
    seen.current = key;
    set((before) => before + 1);
    const later = setTimeout(() => set((before) => before + 1), ARCHIVE_DELAY_MS);
    return () => clearTimeout(later);
  }, [key]);
  return count;
}
