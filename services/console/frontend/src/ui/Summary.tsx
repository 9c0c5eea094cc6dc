import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** What a page is about, in view while the page scrolls; the tabs below it stay, too. */
export function Summary({ children }: { children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const seen = new ResizeObserver(() => box.current?.parentElement?.style.setProperty("--summary", `${box.current.offsetHeight - 1}px`));
    seen.observe(box.current!);
    return () => seen.disconnect();
  }, []);
  return (
    <div ref={box} class="stack summary">
      {children}
    </div>
  );
}
