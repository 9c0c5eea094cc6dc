// Byte encoding, hashing and comparison as defined by the log protocol.
import { sha256 } from "@noble/hashes/sha2.js";

const encoder = new TextEncoder();

export const utf8 = (text: string): Uint8Array => encoder.encode(text);
export const hash = (...parts: Uint8Array[]): Uint8Array => sha256(concat(parts));

export function concat(parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** A number in four bytes, big-endian. */
export function uint32(value: number): Uint8Array {
  const found = new Uint8Array(4);
  new DataView(found.buffer).setUint32(0, value);
  return found;
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
export const hex = (raw: Uint8Array): string => Array.from(raw, (byte) => HEX[byte]).join("");

/** Decodes hexadecimal text; throws if invalid. */
export function fromHex(text: string): Uint8Array {
  if (text.length % 2 || !/^[0-9a-f]*$/.test(text)) throw new Error(`${text.slice(0, 20)} is not hexadecimal`);
  return Uint8Array.from({ length: text.length / 2 }, (_, at) => parseInt(text.slice(2 * at, 2 * at + 2), 16));
}

export const fromBase64 = (text: string): Uint8Array => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
export const fromBase64Url = (text: string): Uint8Array => fromBase64(text.replace(/-/g, "+").replace(/_/g, "/"));
export const toBase64 = (raw: Uint8Array): string => btoa(Array.from(raw, (byte) => String.fromCharCode(byte)).join(""));

/** -1, 0 or 1, byte by byte: the order in which the protocol sorts names. */
export function compareBytes(left: Uint8Array, right: Uint8Array): number {
  for (let at = 0; at < Math.min(left.length, right.length); at += 1) {
    if (left[at] !== right[at]) return left[at]! < right[at]! ? -1 : 1;
  }
  return Math.sign(left.length - right.length);
}
