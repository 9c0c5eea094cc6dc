// Plain scalars as the server reads them (YAML 1.1, PyYAML). Ambiguous ones are left to the editor.

export type ScalarKind = "text" | "number" | "bool" | "null";

const NULLS = /^(~|null|Null|NULL|)$/;
const BOOLS = /^(true|True|TRUE|false|False|FALSE|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)$/;
const TRUTHS = /^(true|True|TRUE|yes|Yes|YES|on|On|ON)$/;
const SIMPLE_NUMBER = /^(0|[1-9][0-9]*)(\.[0-9]+)?$/;
// Octal, hexadecimal, sexagesimal, exponents, dates, ∞: not meant here.
const SURPRISING = /^[-+.]?[0-9][0-9a-fA-FxXoO_.:+-]*([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF|nan|NaN|NAN)$|^[0-9]{4}-[0-9]|^(=|<<)$/;
const AMOUNT = /^[0-9]+(\.[0-9]+)?(us|ms|[smhd]|B|[kKMGT]i?B?)$/;
const PLAIN = /^[A-Za-z_/][\x20-\x7e]*$/;

/** The kind of a plain scalar; null: ambiguous. */
export function kindOf(plain: string): ScalarKind | null {
  if (NULLS.test(plain)) return "null";
  if (BOOLS.test(plain)) return "bool";
  if (SIMPLE_NUMBER.test(plain)) return "number";
  if (AMOUNT.test(plain)) return "text";
  return SURPRISING.test(plain) ? null : "text";
}

export const isTrue = (plain: string): boolean => TRUTHS.test(plain);

/** The text as a YAML scalar that is read as the same text. */
export function scalar(text: string): string {
  const plain = AMOUNT.test(text) || (PLAIN.test(text) && kindOf(text) === "text" && !/: |:$| #| $/.test(text));
  return plain ? text : quoted(text);
}

/** A number as typed; other text as a scalar, which the server rejects. */
export const numeral = (text: string): string => (SIMPLE_NUMBER.test(text) ? text : scalar(text));

/** A JSON string is valid YAML, except for characters that YAML requires to be escaped. */
function quoted(text: string): string {
  return JSON.stringify(text).replace(/[^\S ]|[\u007f-\u009f\ufffe\uffff]/g, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
