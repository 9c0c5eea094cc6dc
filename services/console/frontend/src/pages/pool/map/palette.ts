import { cssValues } from "../../../lib";
import { COLOURS } from "../../../shared/colourGroups";

export type Palette = ReturnType<typeof paletteOf>;

/** The colours of the stylesheet, for the canvas. */
export function paletteOf(element: Element) {
  const read = cssValues(element);
  const groups = Array.from({ length: COLOURS }, (_, at) => read(`--cat-${at}`));
  return {
    ground: read("--ground"),
    surface: read("--surface"),
    line: read("--line"),
    lineStrong: read("--line-strong"),
    ink: read("--ink"),
    inkSoft: read("--ink-soft"),
    accent: read("--accent"),
    warn: read("--warn"),
    bad: read("--bad"),
    free: read("--cell-free"),
    unusable: read("--cell-unusable"),
    focus: read("--focus"),
    groups,
    inks: groups.map(inkOn),
    font: read("--font"),
  };
}

/** Black or white, whichever has more contrast on a colour `#rrggbb`. */
export function inkOn(colour: string): string {
  return contrast(colour, "#000000") >= contrast(colour, "#ffffff") ? "#000000" : "#ffffff";
}

/** Contrast ratio as defined by WCAG 2. */
export function contrast(one: string, other: string): number {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

function luminance(colour: string): number {
  const parts = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * parts[0]! + 0.7152 * parts[1]! + 0.0722 * parts[2]!;
}
