import { useEffect } from "preact/hooks";

/** Sets the title of the browser tab while the page is shown. */
export function usePageTitle(text: string): void {
  useEffect(() => {
    document.title = `${text} · Bailiff`;
    return () => void (document.title = "Bailiff");
  }, [text]);
}
