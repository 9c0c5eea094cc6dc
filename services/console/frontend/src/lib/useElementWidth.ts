import { useSignal, type Signal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

/** The width of an element in whole pixels; 0 before layout. */
export function useElementWidth(box: RefObject<HTMLElement | null>): Signal<number> {
  const width = useSignal(0);
  useLayoutEffect(() => {
    width.value = box.current!.clientWidth; // before the first paint, so that nothing moves when it is known
    const seen = new ResizeObserver(([entry]) => (width.value = Math.floor(entry!.contentRect.width)));
    seen.observe(box.current!);
    return () => seen.disconnect();
  }, []);
  return width;
}
