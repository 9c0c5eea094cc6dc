// The form's view of a job file. The document is edited in place: comments, order, and fields that the form does not have stay.
import { isMap, isScalar, isSeq, parseDocument, Scalar, type Document, type YAMLMap } from "yaml";

import { EMPTY, FIELDS, TOPOLOGY, type JobFields, type Pair, type PairField, type TextField } from "./jobFields";

type FieldName = keyof typeof FIELDS;

const NAMES = Object.keys(FIELDS) as FieldName[];
const NUMBER = /^(0|[1-9][0-9]*)(\.[0-9]+)?$/;
const AMOUNT = /^[0-9]+(\.[0-9]+)?[A-Za-z]+$/;
const WORDS = /^[A-Za-z_/][\w./@%+=,-]*( [\w./@%+=,-]+)*$/;
const MEANING = /^(~|null|y|yes|n|no|true|false|on|off)?$/i; // what YAML 1.1, as on the server, reads as no text
const BREAKS = /[\u007f-\u009f\u2028\u2029\ufeff\v\f]/g; // of which YAML parsers make different things

/** The fields of a job file, and the names of others; or why it cannot be shown as a form. */
export function fieldsOf(yaml: string): { fields: JobFields; others: string[] } | { fault: string } {
  const document = parsed(yaml);
  if (typeof document === "string") return { fault: document };
  const fields: JobFields = { ...EMPTY, topology: { ...EMPTY.topology } };
  const others: string[] = [];
  for (const { key, value } of document.contents?.items ?? []) {
    const name = nameOf(key);
    if (!isField(name)) others.push(String(key));
    else if (!read(fields, name, value)) return { fault: `${key} is written in a way that the form does not show` };
  }
  return { fields, others };
}

/** The job file with these fields as they are in the form. */
export function withFields(yaml: string, fields: JobFields, changed: readonly FieldName[]): string {
  const document = parsed(yaml);
  if (typeof document === "string") return yaml;
  document.contents ??= document.createNode({}) as unknown as YAMLMap;
  const { items } = document.contents;
  for (const name of changed) {
    const at = items.findIndex(({ key }) => nameOf(key) === name);
    const value = written(document, name, fields);
    if (value === null && at >= 0) items.splice(at, 1);
    else if (value !== null && at >= 0) items[at]!.value = isScalar(value) && isScalar(items[at]!.value) ? Object.assign(value, { comment: items[at]!.value.comment }) : value;
    else if (value !== null) {
      const next = items.findIndex(({ key }) => NAMES.indexOf(nameOf(key) as FieldName) > NAMES.indexOf(name));
      items.splice(next < 0 ? items.length : next, 0, document.createPair(name, value));
    }
  }
  const text = document.toString({ lineWidth: 0, flowCollectionPadding: false });
  return text === "{}\n" ? "" : text;
}

const isField = (name: string): name is FieldName => Object.hasOwn(FIELDS, name);
const nameOf = (key: unknown): string => String(isScalar(key) ? key.value : key).replaceAll("-", "_");

/** The document, with each scalar as text; or why there is none. */
function parsed(yaml: string): Document<YAMLMap> | string {
  try {
    const document = parseDocument(yaml, { schema: "failsafe", version: "1.1", prettyErrors: false });
    const [error] = [...document.errors, ...document.warnings];
    if (error) return error.message;
    if (yaml.match(BREAKS) || (document.contents !== null && !isMap(document.contents))) return "It is no mapping of fields to values";
    return document as Document<YAMLMap>;
  } catch (error) {
    return String(error); // such as too many levels
  }
}

/** Sets the field; false: it has a shape that the form does not show. */
function read(fields: JobFields, name: FieldName, value: unknown): boolean {
  const kind = FIELDS[name];
  if (kind === "command" && isSeq(value)) {
    const words = value.items.map(textOf);
    if (!words.every((word) => word !== null && !word.includes("\n"))) return false;
    return Boolean(Object.assign(fields, { command: words.join("\n"), argv: true }));
  }
  if (kind === "pairs" || kind === "topology") {
    if (!isMap(value)) return textOf(value) === "";
    const pairs = value.items.map((pair): [string | null, string | null] => [textOf(pair.key), textOf(pair.value)]);
    if (pairs.some(([key, text]) => !key || text === null || text.includes("\n") || (kind === "topology" && !(TOPOLOGY as readonly string[]).includes(key)))) return false;
    if (kind === "topology") Object.assign(fields.topology, Object.fromEntries(pairs));
    else fields[name as PairField] = pairs.map(([key, text]) => ({ name: key!, value: text! }));
    return true;
  }
  const items = kind === "list" && isSeq(value) ? value.items.map(textOf) : [textOf(value)];
  if (items.some((text) => text === null || (kind === "list" && text.includes(",")) || (kind !== "command" && text.includes("\n")))) return false;
  const text = items.join(", ");
  fields[name as TextField | "command"] = kind === "bool" && MEANING.test(text) ? String(/^(y|yes|true|on)$/i.test(text)) : text;
  return true;
}

/** The text of a scalar, empty for none; null: it is no scalar, or has a tag or an anchor. */
function textOf(node: unknown): string | null {
  if (node === null) return "";
  if (!isScalar(node) || node.tag || node.anchor) return null;
  return node.type === "PLAIN" && /^(~|null)$/i.test(String(node.value)) ? "" : String(node.value ?? "");
}

/** The value of the field; null: it has none. */
function written(document: Document, name: FieldName, fields: JobFields): unknown {
  const kind = FIELDS[name];
  if (kind === "pairs" || kind === "topology") {
    const pairs: Pair[] = kind === "pairs" ? fields[name as PairField] : TOPOLOGY.map((each) => ({ name: each, value: fields.topology[each] })).filter(({ value }) => value);
    const named = pairs.filter((pair) => pair.name).map((pair): [Scalar, Scalar] => [scalar(pair.name), scalar(pair.value)]);
    return named.length ? document.createNode(new Map(named)) : null;
  }
  const typed = fields[name as TextField | "command"];
  if (!typed.trim()) return kind === "command" && typed ? scalar(typed) : null;
  if (kind === "command") return fields.argv ? document.createNode(typed.split("\n").map(scalar)) : scalar(typed);
  const text = typed.trim();
  if (kind === "list") {
    const items = text.split(",").map((item) => item.trim()).filter(Boolean);
    return items.length > 1 ? document.createNode(items.map(scalar)) : items.length ? scalar(items[0]!) : null;
  }
  return kind === "bool" || (kind === "number" && NUMBER.test(text)) ? new Scalar(text) : scalar(text);
}

/** A scalar that the server reads as this text. */
function scalar(typed: string): Scalar {
  const text = typed.replace(BREAKS, " ");
  const plain = AMOUNT.test(text) || (WORDS.test(text) && !MEANING.test(text));
  const block = text.includes("\n") && /^\S[\x20-\x7e\n]*$/.test(text);
  return Object.assign(new Scalar(text), { type: plain ? "PLAIN" : block ? "BLOCK_LITERAL" : "QUOTE_DOUBLE" } as const);
}
