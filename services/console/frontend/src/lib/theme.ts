import { signal } from "@preact/signals";

type Choice = "system" | "light" | "dark";
const STORAGE_KEY = "bailiff-theme";
const dark = (): MediaQueryList => matchMedia("(prefers-color-scheme: dark)");

const storedChoice = (): Choice => {
  const found = localStorage.getItem(STORAGE_KEY);
  return found === "light" || found === "dark" ? found : "system";
};

export const themeChoice = signal<Choice>("system");
/** Incremented when the theme changes, so that canvases are redrawn. */
export const themeVersion = signal(0);

export function applyTheme(): void {
  themeChoice.value = storedChoice();
  apply();
  dark().addEventListener("change", apply);
}

export function chooseTheme(next: Choice): void {
  themeChoice.value = next;
  if (next === "system") localStorage.removeItem(STORAGE_KEY);
  else localStorage.setItem(STORAGE_KEY, next);
  apply();
}

function apply(): void {
  const theme = themeChoice.value === "system" ? (dark().matches ? "dark" : "light") : themeChoice.value;
  document.documentElement.dataset.theme = theme;
  themeVersion.value += 1;
}
