import { useEffect } from "preact/hooks";

/** The name of the page in the browser's tab and history, while it is shown. */
export function useTitle(text: string): void {
  useEffect(() => {
    document.title = `${text} · Bailiff`;
    return () => void (document.title = "Bailiff");
  }, [text]);
}
