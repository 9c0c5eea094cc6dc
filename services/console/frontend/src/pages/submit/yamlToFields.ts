import { EMPTY, PAIRS, TEXTS, TOPOLOGY, type JobFields, type Pair, type PairField, type TextField, type TopologyField } from "./jobFields";
import { readYaml, UnsupportedYaml, type Value } from "./yamlValues";

/** The form's fields, or what the form does not support. comments: the YAML has comments, which the form does not keep. */
type ParsedJob = { fields: JobFields; comments: boolean } | { unsupported: string[] };

/** Parses a job file into form fields. */
export function yamlToFields(text: string): ParsedJob {
  try {
    const { fields: found, comments } = readYaml(text);
    const fields: JobFields = { ...EMPTY, topology: { ...EMPTY.topology } };
    const unsupported: string[] = [];
    for (const [written, value] of found) {
      const name = written.replaceAll("-", "_");
      try {
        setField(fields, name, value);
      } catch (error) {
        if (!(error instanceof UnsupportedYaml)) throw error;
        unsupported.push(`${written} (line ${value.line}): ${error.what}`);
      }
    }
    return unsupported.length ? { unsupported } : { fields, comments };
  } catch (error) {
    if (!(error instanceof UnsupportedYaml)) throw error;
    return { unsupported: [error.message] };
  }
}

function setField(fields: JobFields, name: string, value: Value): void {
  if (name === "command") return setCommand(fields, value);
  if (name === "topology") return setTopology(fields, value);
  if ((PAIRS as readonly string[]).includes(name)) {
    fields[name as PairField] = pairs(value);
  } else if (Object.hasOwn(TEXTS, name)) {
    if (fields[name as TextField] !== "") throw new UnsupportedYaml(value.line, "duplicate field");
    fields[name as TextField] = text(value, TEXTS[name as TextField]);
  } else {
    throw new UnsupportedYaml(value.line, "not supported by the form");
  }
}

function text(value: Value, kind: (typeof TEXTS)[TextField]): string {
  if (kind === "list" && value.is === "list") {
    const items = value.items.map((item) => plainText(item));
    if (!items.length || items.some((item) => item === "" || item.includes(",") || item !== item.trim())) throw new UnsupportedYaml(value.line, "this list is not supported by the form");
    return items.join(", ");
  }
  if (kind === "list") {
    const only = plainText(value);
    if (only.includes(",") || only !== only.trim() || only === "") throw new UnsupportedYaml(value.line, "this name is not supported by the form");
    return only;
  }
  if (kind === "bool") {
    if (value.is !== "bool") throw new UnsupportedYaml(value.line, "expected true or false");
    return value.text;
  }
  if (kind === "number" && value.is === "number") return value.text;
  return plainText(value, kind === "number");
}

/** A plain text value; other types are left to the server's validation. */
function plainText(value: Value, rejectNumerals = false): string {
  if (value.is !== "text" || value.text === "") throw new UnsupportedYaml(value.line, value.is === "text" ? "empty value" : `expected text, found ${value.is}`);
  if (value.text.includes("\n")) throw new UnsupportedYaml(value.line, "multi-line value");
  if (rejectNumerals && /^(0|[1-9][0-9]*)(\.[0-9]+)?$/.test(value.text)) throw new UnsupportedYaml(value.line, "quoted number");
  return value.text;
}

function setCommand(fields: JobFields, value: Value): void {
  if (value.is === "text" && value.text !== "") {
    fields.command = value.text;
  } else if (value.is === "list" && value.items.length && value.items.every((item) => item.is === "text" && !item.text.includes("\n"))) {
    const words = value.items.map((item) => (item as { text: string }).text);
    if (words.length === 1 && words[0] === "") throw new UnsupportedYaml(value.line, "empty value");
    fields.command = words.join("\n");
    fields.argv = true;
  } else {
    throw new UnsupportedYaml(value.line, "expected text or a list of texts");
  }
}

function setTopology(fields: JobFields, value: Value): void {
  if (value.is !== "map") throw new UnsupportedYaml(value.line, "expected a mapping");
  for (const [name, each] of value.entries) {
    if (!(TOPOLOGY as readonly string[]).includes(name)) throw new UnsupportedYaml(each.line, `topology.${name} is not supported by the form`);
    fields.topology[name as TopologyField] = plainText(each);
  }
}

function pairs(value: Value): Pair[] {
  if (value.is !== "map") throw new UnsupportedYaml(value.line, "expected a mapping");
  return [...value.entries].map(([name, each]) => {
    if (each.is !== "text") throw new UnsupportedYaml(each.line, `${name}: expected text, found ${each.is}`);
    if (each.text.includes("\n") || name === "") throw new UnsupportedYaml(each.line, `${name || "an empty name"} is not supported by the form`);
    return { name, value: each.text };
  });
}
