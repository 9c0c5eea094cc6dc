import { signal } from "@preact/signals";

type Choice = "system" | "light" | "dark";
const KEY = "bailiff-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

const kept = (): Choice => {
  const found = localStorage.getItem(KEY);
  return found === "light" || found === "dark" ? found : "system";
};

export const choice = signal<Choice>("system");
/** Counts changes of the theme: who draws on a canvas draws again. */
export const themeAt = signal(0);

export function applyTheme(): void {
  choice.value = kept();
  show();
  dark.addEventListener("change", show);
}

export function choose(next: Choice): void {
  choice.value = next;
  if (next === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, next);
  show();
}

function show(): void {
  const is = choice.value === "system" ? (dark.matches ? "dark" : "light") : choice.value;
  document.documentElement.dataset.theme = is;
  themeAt.value += 1;
}
