import { EMPTY, PAIRS, TEXTS, TOPOLOGY, type JobFields, type Pair, type PairField, type TextField, type TopologyField } from "./fields";
import { Beyond, readYaml, type Value } from "./yamlRead";

/** What the form can hold, or what in the YAML is more than it shows. comments: the form would write it anew without them. */
export type Held = { fields: JobFields; comments: boolean } | { more: string[] };

/** The form's fields of this YAML. */
export function fromYaml(text: string): Held {
  try {
    const { fields: found, comments } = readYaml(text);
    const fields: JobFields = { ...EMPTY, topology: { ...EMPTY.topology } };
    const more: string[] = [];
    for (const [written, value] of found) {
      const name = written.replaceAll("-", "_");
      try {
        put(fields, name, value);
      } catch (error) {
        if (!(error instanceof Beyond)) throw error;
        more.push(`${written} (line ${value.line}): ${error.what}`);
      }
    }
    return more.length ? { more } : { fields, comments };
  } catch (error) {
    if (!(error instanceof Beyond)) throw error;
    return { more: [error.message] };
  }
}

function put(fields: JobFields, name: string, value: Value): void {
  if (name === "command") return putCommand(fields, value);
  if (name === "topology") return putTopology(fields, value);
  if ((PAIRS as readonly string[]).includes(name)) {
    fields[name as PairField] = pairs(value);
  } else if (Object.hasOwn(TEXTS, name)) {
    if (fields[name as TextField] !== "") throw new Beyond(value.line, "it stands twice");
    fields[name as TextField] = text(value, TEXTS[name as TextField]);
  } else {
    throw new Beyond(value.line, "the form has no such field");
  }
}

function text(value: Value, kind: (typeof TEXTS)[TextField]): string {
  if (kind === "list" && value.is === "list") {
    const items = value.items.map((item) => plain(item));
    if (!items.length || items.some((item) => item === "" || item.includes(",") || item !== item.trim())) throw new Beyond(value.line, "the form cannot show this list");
    return items.join(", ");
  }
  if (kind === "list") {
    const only = plain(value);
    if (only.includes(",") || only !== only.trim() || only === "") throw new Beyond(value.line, "the form cannot show this name");
    return only;
  }
  if (kind === "bool") {
    if (value.is !== "bool") throw new Beyond(value.line, "it is neither true nor false");
    return value.text;
  }
  if (kind === "number" && value.is === "number") return value.text;
  return plain(value, kind === "number");
}

/** A text that is one: a number where text belongs is the server's to refuse. */
function plain(value: Value, orNumeral = false): string {
  if (value.is !== "text" || value.text === "") throw new Beyond(value.line, value.is === "text" ? "it is empty" : `it is no text but a ${value.is}`);
  if (value.text.includes("\n")) throw new Beyond(value.line, "it has several lines");
  if (orNumeral && /^(0|[1-9][0-9]*)(\.[0-9]+)?$/.test(value.text)) throw new Beyond(value.line, "it is a number in quotes");
  return value.text;
}

function putCommand(fields: JobFields, value: Value): void {
  if (value.is === "text" && value.text !== "") {
    fields.command = value.text;
  } else if (value.is === "list" && value.items.length && value.items.every((item) => item.is === "text" && !item.text.includes("\n"))) {
    const words = value.items.map((item) => (item as { text: string }).text);
    if (words.length === 1 && words[0] === "") throw new Beyond(value.line, "it is empty");
    fields.command = words.join("\n");
    fields.argv = true;
  } else {
    throw new Beyond(value.line, "it is neither a text nor a list of texts");
  }
}

function putTopology(fields: JobFields, value: Value): void {
  if (value.is !== "map") throw new Beyond(value.line, "it is no mapping");
  for (const [name, each] of value.entries) {
    if (!(TOPOLOGY as readonly string[]).includes(name)) throw new Beyond(each.line, `the form has no topology.${name}`);
    fields.topology[name as TopologyField] = plain(each);
  }
}

function pairs(value: Value): Pair[] {
  if (value.is !== "map") throw new Beyond(value.line, "it is no mapping");
  return [...value.entries].map(([name, each]) => {
    if (each.is !== "text") throw new Beyond(each.line, `${name} is no text but a ${each.is}`);
    if (each.text.includes("\n") || name === "") throw new Beyond(each.line, `the form cannot show ${name || "an empty name"}`);
    return { name, value: each.text };
  });
}
