import { isTrue, kindOf, type ScalarKind } from "./yamlScalar";

/** What YAML says, as far as the form needs it. Lines count from 1. */
export type Value =
  | { is: ScalarKind; text: string; line: number }
  | { is: "list"; items: Value[]; line: number }
  | { is: "map"; entries: Map<string, Value>; line: number };

/** YAML that is beyond this reader: right or wrong, it stays in the editor, and the server judges it. */
export class Beyond extends Error {
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

/** A mapping in block style, whose values are scalars, lists and mappings; comments may stand anywhere. Raises `Beyond`. */
export function readYaml(text: string): { fields: Map<string, Value>; comments: boolean } {
  const raw = text.split(/\r?\n/);
  const odd = raw.findIndex((line) => /[^\S \t]|\u0085/.test(line)); // YAML ends lines at some of them, and takes others for letters
  if (odd >= 0) throw new Beyond(odd + 1, "there is an unusual blank or end of a line");
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
    if (first.indent) throw new Beyond(first.line, "the first field is indented");
    const found = this.map(0);
    const left = this.peek();
    if (left) throw new Beyond(left.line, "it is indented otherwise than what it belongs to");
    return found;
  }

  /** The next line that says something. */
  private peek(): Line | undefined {
    for (; this.at < this.raw.length; this.at += 1) {
      const whole = this.raw[this.at]!;
      const text = bare(whole).trimEnd();
      if (text !== whole.trimEnd()) this.comments = true;
      const indent = text.length - text.trimStart().length;
      if (!text.trim()) continue;
      if (whole.includes("\t")) throw new Beyond(this.at + 1, "there is a tab");
      return { indent, text: text.slice(indent), line: this.at + 1 };
    }
    return undefined;
  }

  private map(indent: number): Value & { is: "map" } {
    const entries = new Map<string, Value>();
    const line = this.peek()!.line;
    for (let here = this.peek(); here && here.indent === indent; here = this.peek()) {
      const match = KEY.exec(here.text);
      if (!match) throw new Beyond(here.line, "it is no field with a value");
      const key = keyOf(match[1]!, here.line);
      if (entries.has(key)) throw new Beyond(here.line, `${key} stands twice`);
      this.at += 1;
      entries.set(key, this.value(here.text.slice(match[0].length), indent, here.line));
    }
    return { is: "map", entries, line };
  }

  private value(rest: string, indent: number, line: number): Value {
    if (/^\|[-]?$/.test(rest)) return { is: "text", text: this.block(indent, rest === "|"), line };
    if (rest) {
      const next = this.peek();
      if (next && next.indent > indent) throw new Beyond(next.line, "a value goes on over several lines");
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
      if (!rest || KEY.test(rest) || rest.startsWith("- ")) throw new Beyond(here.line, "a list holds more than single values");
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
        if ((indent >= 0 && own > indent) || text.includes("\t")) throw new Beyond(this.at + 1, "a line of blanks within a block");
        found.push("");
        continue;
      }
      if (indent < 0) {
        if (own <= outer) break;
        if (found.length) throw new Beyond(this.at + 1, "a block begins with an empty line");
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
  if (kindOf(written) !== "text") throw new Beyond(line, `${written} is no name of a field`);
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
      if (!match) throw new Beyond(line, "a quoted text does not end in its line");
      this.at += match[0].length;
      return { is: "text", text: stringOf(match[0], line), line };
    }
    if (/^[&*!|>%@`?,\]}]/.test(first) || /^[-:?]( |$)/.test(rest)) throw new Beyond(line, `it begins with ${first}`);
    let plain = stops ? (new RegExp(`^[^${stops}\\[\\]{},]*`).exec(rest)?.[0] ?? "") : rest;
    if (/: |:$/.test(plain)) throw new Beyond(line, "a colon stands within a value");
    this.at += plain.length;
    plain = plain.trim();
    const is = kindOf(plain);
    if (is === null) throw new Beyond(line, `${plain} may mean several things`);
    return { is, text: is === "bool" ? String(isTrue(plain)) : is === "null" ? "" : plain, line };
  }

  end(): void {
    if (this.text.slice(this.at).trim()) throw new Beyond(this.line, "there is more after the value");
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
      if (items.length && !this.take(",")) throw new Beyond(this.line, "a list does not end in its line");
      if (this.take("]")) break;
      items.push(this.member());
    }
    return { is: "list", items, line: this.line };
  }

  private map(): Value {
    const entries = new Map<string, Value>();
    this.take("{");
    while (!this.take("}")) {
      if (entries.size && !this.take(",")) throw new Beyond(this.line, "a mapping does not end in its line");
      if (this.take("}")) break;
      const match = KEY.exec(this.text.slice(this.at));
      if (!match) throw new Beyond(this.line, "it is no field with a value");
      const key = keyOf(match[1]!, this.line);
      if (entries.has(key)) throw new Beyond(this.line, `${key} stands twice`);
      this.at += match[0].length;
      entries.set(key, this.member());
    }
    return { is: "map", entries, line: this.line };
  }

  private member(): Value {
    const found = this.value(",");
    if (found.is === "null") throw new Beyond(this.line, "a value is missing");
    return found;
  }
}

const ESCAPES: Record<string, string> = { n: "\n", t: "\t", r: "\r", "0": "\0", b: "\b", f: "\f", '"': '"', "\\": "\\", "/": "/" };

function stringOf(written: string, line: number): string {
  if (written[0] === "'") return written.slice(1, -1).replaceAll("''", "'");
  return written.slice(1, -1).replace(/\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)/g, (_, escape: string) => {
    if (escape.length > 1) return String.fromCharCode(parseInt(escape.slice(1), 16));
    const found = ESCAPES[escape];
    if (found === undefined) throw new Beyond(line, `\\${escape} stands in a quoted text`);
    return found;
  });
}

const BEFORE_VALUE = new RegExp(`^\\s*(?:- +)?(?:${KEY.source.slice(1)})?`);

/** The line without its comment. A quote is one only where a value begins. */
function bare(line: string): string {
  if (!line.includes("#")) return line;
  const before = BEFORE_VALUE.exec(line)?.[0].length ?? 0;
  const value = line.slice(before);
  if (/^[[{]/.test(value) && /["']/.test(value)) return line; // whoever reads the list finds what follows it
  const whole = before + (/^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/.exec(value)?.[0].length ?? 0);
  const comment = /(^|\s)#/.exec(line.slice(whole));
  return comment && (comment.index || comment[1] || whole === 0 || whole === before) ? line.slice(0, whole + comment.index) : line;
}
