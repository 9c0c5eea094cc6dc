import { isTrue, kindOf, type ScalarKind } from "./yamlScalar";

/** A YAML value, as far as the form needs it. Lines count from 1. */
export type Value =
  | { is: ScalarKind; text: string; line: number }
  | { is: "list"; items: Value[]; line: number }
  | { is: "map"; entries: Map<string, Value>; line: number };

/** YAML that this reader does not support: it stays in the editor, and the server validates it. */
export class UnsupportedYaml extends Error {
  constructor(
    readonly line: number,
    readonly what: string,
  ) {
    super(`line ${line}: ${what}`);
  }
}

interface Line {
  indent: number;
  text: string;
  line: number;
}

const KEY = /^([A-Za-z0-9_.\/-]+|"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*:(?:\s+|$)/;

/** Parses a block mapping of scalars, lists and mappings, with comments. Throws `UnsupportedYaml`. */
export function readYaml(text: string): { fields: Map<string, Value>; comments: boolean } {
  const raw = text.split(/\r?\n/);
  const odd = raw.findIndex((line) => /[^\S \t]|\u0085/.test(line)); // YAML treats some of them as line breaks and others as letters
  if (odd >= 0) throw new UnsupportedYaml(odd + 1, "unusual whitespace or line break");
  const reader = new Reader(raw);
  return { fields: reader.document().entries, comments: reader.comments };
}

class Reader {
  comments = false;
  private at = 0;

  constructor(private readonly raw: string[]) {}

  document(): Value & { is: "map" } {
    if (this.peek()?.text === "---") this.at += 1;
    const first = this.peek();
    if (!first) return { is: "map", entries: new Map(), line: 1 };
    if (first.indent) throw new UnsupportedYaml(first.line, "the first field is indented");
    const found = this.map(0);
    const left = this.peek();
    if (left) throw new UnsupportedYaml(left.line, "inconsistent indentation");
    return found;
  }

  /** The next line with content. */
  private peek(): Line | undefined {
    for (; this.at < this.raw.length; this.at += 1) {
      const whole = this.raw[this.at]!;
      const text = bare(whole).trimEnd();
      if (text !== whole.trimEnd()) this.comments = true;
      const indent = text.length - text.trimStart().length;
      if (!text.trim()) continue;
      if (whole.includes("\t")) throw new UnsupportedYaml(this.at + 1, "a tab character");
      return { indent, text: text.slice(indent), line: this.at + 1 };
    }
    return undefined;
  }

  private map(indent: number): Value & { is: "map" } {
    const entries = new Map<string, Value>();
    const line = this.peek()!.line;
    for (let here = this.peek(); here && here.indent === indent; here = this.peek()) {
      const match = KEY.exec(here.text);
      if (!match) throw new UnsupportedYaml(here.line, "expected a field with a value");
      const key = keyOf(match[1]!, here.line);
      if (entries.has(key)) throw new UnsupportedYaml(here.line, `duplicate field ${key}`);
      this.at += 1;
      entries.set(key, this.value(here.text.slice(match[0].length), indent, here.line));
    }
    return { is: "map", entries, line };
  }

  private value(rest: string, indent: number, line: number): Value {
    if (/^\|[-]?$/.test(rest)) return { is: "text", text: this.block(indent, rest === "|"), line };
    if (rest) {
      const next = this.peek();
      if (next && next.indent > indent) throw new UnsupportedYaml(next.line, "multi-line value");
      return inline(rest, line);
    }
    const next = this.peek();
    if (next && next.text.startsWith("-") && next.indent >= indent && /^-( |$)/.test(next.text)) return this.list(next.indent);
    if (next && next.indent > indent) return this.map(next.indent);
    return { is: "null", text: "", line };
  }

  private list(indent: number): Value {
    const items: Value[] = [];
    const line = this.peek()!.line;
    for (let here = this.peek(); here && here.indent === indent && /^-( |$)/.test(here.text); here = this.peek()) {
      const rest = here.text.slice(1).trimStart();
      if (!rest || KEY.test(rest) || rest.startsWith("- ")) throw new UnsupportedYaml(here.line, "a list item is not a single value");
      this.at += 1;
      items.push(this.value(rest, indent, here.line));
    }
    return { is: "list", items, line };
  }

  /** A literal block, as after `command: |`. */
  private block(outer: number, keepEnd: boolean): string {
    const found: string[] = [];
    let indent = -1;
    for (; this.at < this.raw.length; this.at += 1) {
      const text = this.raw[this.at]!;
      const own = text.length - text.trimStart().length;
      if (text.trim() === "") {
        if ((indent >= 0 && own > indent) || text.includes("\t")) throw new UnsupportedYaml(this.at + 1, "whitespace line within a block");
        found.push("");
        continue;
      }
      if (indent < 0) {
        if (own <= outer) break;
        if (found.length) throw new UnsupportedYaml(this.at + 1, "a block starts with an empty line");
        indent = own;
      }
      if (own < indent) break;
      found.push(text.slice(indent));
    }
    while (found.at(-1) === "") found.pop();
    const ends = this.at < this.raw.length || this.raw.at(-1) === "";
    return found.length ? found.join("\n") + (keepEnd && ends ? "\n" : "") : "";
  }
}

function keyOf(written: string, line: number): string {
  if (/^["']/.test(written)) return stringOf(written, line);
  if (kindOf(written) !== "text") throw new UnsupportedYaml(line, `${written} is not a field name`);
  return written;
}

function inline(text: string, line: number): Value {
  const flow = new Flow(text, line);
  const found = flow.value("");
  flow.end();
  return found;
}

/** A value within a line. */
class Flow {
  private at = 0;

  constructor(
    private readonly text: string,
    private readonly line: number,
  ) {}

  value(stops: string): Value {
    const { line } = this;
    const rest = this.text.slice(this.at);
    const first = rest[0] ?? "";
    if (first === "[") return this.seq();
    if (first === "{") return this.map();
    if (first === '"' || first === "'") {
      const match = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/.exec(rest);
      if (!match) throw new UnsupportedYaml(line, "unterminated quoted text");
      this.at += match[0].length;
      return { is: "text", text: stringOf(match[0], line), line };
    }
    if (/^[&*!|>%@`?,\]}]/.test(first) || /^[-:?]( |$)/.test(rest)) throw new UnsupportedYaml(line, `unsupported syntax ${first}`);
    let plain = stops ? (new RegExp(`^[^${stops}\\[\\]{},]*`).exec(rest)?.[0] ?? "") : rest;
    if (/: |:$/.test(plain)) throw new UnsupportedYaml(line, "colon within a value");
    this.at += plain.length;
    plain = plain.trim();
    const is = kindOf(plain);
    if (is === null) throw new UnsupportedYaml(line, `${plain} is ambiguous`);
    return { is, text: is === "bool" ? String(isTrue(plain)) : is === "null" ? "" : plain, line };
  }

  end(): void {
    if (this.text.slice(this.at).trim()) throw new UnsupportedYaml(this.line, "unexpected text after the value");
  }

  private skip(): void {
    while (this.text[this.at] === " ") this.at += 1;
  }

  private take(sign: string): boolean {
    this.skip();
    if (this.text[this.at] !== sign) return false;
    this.at += 1;
    this.skip();
    return true;
  }

  private seq(): Value {
    const items: Value[] = [];
    this.take("[");
    while (!this.take("]")) {
      if (items.length && !this.take(",")) throw new UnsupportedYaml(this.line, "unterminated list");
      if (this.take("]")) break;
      items.push(this.member());
    }
    return { is: "list", items, line: this.line };
  }

  private map(): Value {
    const entries = new Map<string, Value>();
    this.take("{");
    while (!this.take("}")) {
      if (entries.size && !this.take(",")) throw new UnsupportedYaml(this.line, "unterminated mapping");
      if (this.take("}")) break;
      const match = KEY.exec(this.text.slice(this.at));
      if (!match) throw new UnsupportedYaml(this.line, "expected a field with a value");
      const key = keyOf(match[1]!, this.line);
      if (entries.has(key)) throw new UnsupportedYaml(this.line, `duplicate field ${key}`);
      this.at += match[0].length;
      entries.set(key, this.member());
    }
    return { is: "map", entries, line: this.line };
  }

  private member(): Value {
    const found = this.value(",");
    if (found.is === "null") throw new UnsupportedYaml(this.line, "missing value");
    return found;
  }
}

const ESCAPES: Record<string, string> = { n: "\n", t: "\t", r: "\r", "0": "\0", b: "\b", f: "\f", '"': '"', "\\": "\\", "/": "/" };

function stringOf(written: string, line: number): string {
  if (written[0] === "'") return written.slice(1, -1).replaceAll("''", "'");
  return written.slice(1, -1).replace(/\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)/g, (_, escape: string) => {
    if (escape.length > 1) return String.fromCharCode(parseInt(escape.slice(1), 16));
    const found = ESCAPES[escape];
    if (found === undefined) throw new UnsupportedYaml(line, `unsupported escape \\${escape}`);
    return found;
  });
}

const BEFORE_VALUE = new RegExp(`^\\s*(?:- +)?(?:${KEY.source.slice(1)})?`);

/** The line without its comment. Quotes are significant only at the start of a value. */
function bare(line: string): string {
  if (!line.includes("#")) return line;
  const before = BEFORE_VALUE.exec(line)?.[0].length ?? 0;
  const value = line.slice(before);
  if (/^[[{]/.test(value) && /["']/.test(value)) return line; // the flow parser handles what follows
  const whole = before + (/^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/.exec(value)?.[0].length ?? 0);
  const comment = /(^|\s)#/.exec(line.slice(whole));
  return comment && (comment.index || comment[1] || whole === 0 || whole === before) ? line.slice(0, whole + comment.index) : line;
}
