import { LineCounter, isAlias, isMap, isScalar, isSeq, parseDocument, visit, type Node, type Scalar, type YAMLMap, type YAMLSeq } from "yaml";

import { isTrue, kindOf, type ScalarKind } from "./yamlScalar";

/** A YAML value, as far as the form needs it. Lines count from 1. */
export type Value =
  | { is: ScalarKind; text: string; line: number }
  | { is: "list"; items: Value[]; line: number }
  | { is: "map"; entries: Map<string, Value>; line: number };

/** YAML that the form does not support: it stays in the editor, and the server validates it. */
export class UnsupportedYaml extends Error {
  constructor(
    readonly line: number,
    readonly what: string,
  ) {
    super(`line ${line}: ${what}`);
  }
}

const MAX_DEPTH = 50; // as on the server
const QUOTED = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')$/; // the package accepts '''

/** Parses a mapping of scalars, lists and mappings, with comments. Throws `UnsupportedYaml`. */
export function readYaml(text: string): { fields: Map<string, Value>; comments: boolean } {
  const odd = text.split(/\r?\n/).findIndex((line) => /[^\S \t]|[\u0085\ufeff]/.test(line)); // YAML treats some of them as line breaks and others as letters
  if (odd >= 0) throw new UnsupportedYaml(odd + 1, "unusual whitespace or line break");
  const lines = new LineCounter();
  // "failsafe": scalars stay text, and `kindOf` decides what the server makes of a plain one.
  const document = parseDocument(text, { schema: "failsafe", version: "1.1", uniqueKeys: false, lineCounter: lines, prettyErrors: false });
  const lineAt = (offset: number): number => Math.max(lines.linePos(offset).line, 1);
  const [error] = [...document.errors, ...document.warnings].sort((one, other) => one.pos[0] - other.pos[0]);
  if (error) throw new UnsupportedYaml(lineAt(error.pos[0]), error.message);
  if (/^%/m.test(text) && document.directives?.docStart) throw new UnsupportedYaml(1, "a directive");
  const { contents } = document;
  const found = contents && new Converter(text, lineAt).value(contents, 0, lineAt(contents.range[0]));
  if (found && found.is !== "map" && found.is !== "null") throw new UnsupportedYaml(found.line, "expected a field with a value");
  let comments = Boolean(document.comment || document.commentBefore);
  const blocks: [number, number][] = [];
  visit(document, {
    Node: (_, node) => {
      comments ||= Boolean(node.comment || node.commentBefore);
      if (isScalar(node) && node.type === "BLOCK_LITERAL") blocks.push([node.range![0], node.range![1]]);
    },
  });
  const tab = [...text.matchAll(/\t/g)].find(({ index }) => !blocks.some(([from, to]) => from <= index && index < to));
  if (tab) throw new UnsupportedYaml(lineAt(tab.index), "a tab character"); // outside blocks, YAML parsers differ on tabs
  return { fields: found?.is === "map" ? found.entries : new Map(), comments };
}

/** Converts nodes of the document into values. */
class Converter {
  constructor(
    private readonly source: string,
    private readonly lineAt: (offset: number) => number,
  ) {}

  /** line: of the field or list item; an empty value has none of its own. */
  value(node: Node, depth: number, line: number): Value {
    if (depth > MAX_DEPTH) throw new UnsupportedYaml(line, `more than ${MAX_DEPTH} levels`);
    if (isMap(node)) return this.map(node, depth + 1);
    if (isSeq(node)) return this.list(node, depth + 1);
    return this.scalar(node, line);
  }

  private list(node: YAMLSeq, depth: number): Value {
    this.rejectProperties(node);
    return { is: "list", items: (node.items as Node[]).map((item) => this.value(item, depth, this.line(item))), line: this.line(node) };
  }

  private map(node: YAMLMap, depth: number): Value {
    this.rejectProperties(node);
    const entries = new Map<string, Value>();
    for (const { key, value } of node.items as { key: Node; value: Node | null }[]) {
      const line = this.line(key);
      const name = this.key(key);
      if (entries.has(name)) throw new UnsupportedYaml(line, `duplicate field ${name}`);
      if (value === null) throw new UnsupportedYaml(line, "expected a field with a value");
      entries.set(name, this.value(value, depth, line));
    }
    return { is: "map", entries, line: this.line(node) };
  }

  private key(node: Node): string {
    const key = this.scalar(node, this.line(node));
    if (key.is !== "text") throw new UnsupportedYaml(key.line, `${this.written(node)} is not a field name`);
    return key.text;
  }

  private scalar(node: Node, line: number): Value & { is: ScalarKind } {
    if (isAlias(node)) throw new UnsupportedYaml(line, "unsupported syntax *");
    if (!isScalar(node)) throw new UnsupportedYaml(line, "expected a field with a value");
    this.rejectProperties(node);
    const text = String(node.source ?? "");
    if (node.type === "BLOCK_FOLDED") throw new UnsupportedYaml(line, "unsupported syntax >");
    if (/^\|[-+]?[0-9]/.test(this.written(node))) throw new UnsupportedYaml(line, "a block with a given indentation");
    if (node.type === "BLOCK_LITERAL") return { is: "text", text: this.isUnterminated(node) ? text.replace(/\n$/, "") : text, line };
    if (this.written(node).includes("\n")) throw new UnsupportedYaml(this.lineAt(this.source.indexOf("\n", node.range![0]) + 1), "multi-line value");
    if (node.type !== "PLAIN") {
      if (!QUOTED.test(this.written(node))) throw new UnsupportedYaml(line, "unterminated quoted text");
      return { is: "text", text, line };
    }
    if (/^[?:]/.test(text)) throw new UnsupportedYaml(line, `unsupported syntax ${text[0]}`); // YAML 1.1 and 1.2 differ
    const is = kindOf(text);
    if (is === null) throw new UnsupportedYaml(line, `${text} is ambiguous`);
    return { is, text: is === "bool" ? String(isTrue(text)) : is === "null" ? "" : text, line };
  }

  /** Whether the text ends within the block: the server then adds no line break to it, the package does. */
  private isUnterminated(node: Scalar): boolean {
    return node.range![1] === this.source.length && !this.source.endsWith("\n");
  }

  private rejectProperties(node: YAMLMap | YAMLSeq | Scalar): void {
    if (node.tag || node.anchor) throw new UnsupportedYaml(this.line(node), `unsupported syntax ${node.tag ? "!" : "&"}`);
  }

  private written(node: Node): string {
    return this.source.slice(node.range![0], node.range![1]);
  }

  private line(node: Node): number {
    return this.lineAt(node.range![0]);
  }
}
