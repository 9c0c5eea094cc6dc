import { useEffect } from "preact/hooks";

const isInView = (element: Element): boolean => {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
};

/** What comes later above the element that has the focus may move it down, but not out of view. */
export function useFocusInView(): void {
  useEffect(() => {
    let seen: Element | null = null;
    const look = (): void => {
      const at = document.activeElement;
      seen = at?.matches(":focus-visible") && isInView(at) ? at : null;
    };
    const grown = new ResizeObserver(() => {
      if (seen && seen === document.activeElement && !isInView(seen)) seen.scrollIntoView({ block: "nearest" });
      look();
    });
    grown.observe(document.body);
    addEventListener("focusin", look);
    addEventListener("scroll", look, { passive: true });
    return () => {
      grown.disconnect();
      removeEventListener("focusin", look);
      removeEventListener("scroll", look);
    };
  }, []);
}
