// Colours of a program's output as parts of a line with classes. Every other escape is removed, and all text is sanitized.
import { sanitizeLine } from "./sanitizeLine";

export interface Span {
  text: string;
  classes: string;
}

const SGR = /\u001b\[([0-9;]*)m/g;
const MAX_SPANS = 200;
const COLOURS = ["faint", "bad", "good", "warn", "accent", "violet", "accent", "ink"]; // by ANSI number: black, red, green, yellow, blue, magenta, cyan, white

interface Style {
  colour: string;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

/** The class of a colour of the palette; of the other 256 and 16 million colours none is sure to be readable here. */
export const colourClass = (number: number): string => (number < 16 ? `ansi-${COLOURS[number % 8]!}` : "");

const PLAIN: Style = { colour: "", bold: false, dim: false, italic: false, underline: false };

/** The parts of this line, or null where it has no colours: then its sanitized text is all that there is to show. */
export function ansiSpans(line: string): Span[] | null {
  if (!line.includes("\u001b[")) return null;
  const spans: Span[] = [];
  let [style, at] = [PLAIN, 0];
  const push = (text: string): void => {
    const shown = sanitizeLine(text);
    if (shown) spans.push({ text: shown, classes: classesOf(style) });
  };
  for (const found of line.matchAll(SGR)) {
    if (spans.length >= MAX_SPANS) break;
    push(line.slice(at, found.index));
    at = found.index + found[0].length;
    style = styled(style, found[1]!);
  }
  push(line.slice(at));
  return spans.some((span) => span.classes) ? spans : null;
}

function styled(before: Style, codes: string): Style {
  let style = { ...before };
  const numbers = codes.split(";").map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at]!;
    if (code === 0) style = { ...PLAIN };
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code >= 30 && code <= 37) style.colour = COLOURS[code - 30]!;
    else if (code >= 90 && code <= 97) style.colour = COLOURS[code - 90]!;
    else if (code === 39) style.colour = "";
    else if (code === 38 || code === 48) {
      const indexed = numbers[at + 1] === 5;
      const colour = numbers[at + 2] ?? 16;
      if (code === 38) style.colour = indexed && colour < 16 ? COLOURS[colour % 8]! : "";
      at += indexed ? 2 : 4; // of the other 256 and 16 million colours none is sure to be readable here
    }
  }
  return style;
}

function classesOf(style: Style): string {
  const { colour, ...flags } = style;
  const set = Object.entries(flags).filter(([, on]) => on);
  return [...(colour ? [`ansi-${colour}`] : []), ...set.map(([name]) => `ansi-${name}`)].join(" ");
}
