// Checkpoints and cosignatures (C2SP tlog-checkpoint, tlog-cosignature), as bailiff_log.checkpoints: the ones of one seal, in their only form.
import { concat, fromBase64Url, fromHex, hash, hex, toBase64, utf8 } from "../verify/bytes";
import { signedBytes, type Seal } from "../verify/seals";

const NAME = "[!-*,-~]{1,255}";
const SIGNATURE = new RegExp(`^— (${NAME}) ([A-Za-z0-9+/]+={0,2})$`);
const VKEY = new RegExp(`^(${NAME})\\+([0-9a-f]{8})\\+([A-Za-z0-9+/]+={0,2})$`);
const LOG_KEY = 1;
const WITNESS_KEY = 4;
const MAX_SIGNATURES = 32;
const LATEST_TIME = 2 ** 33;

interface NoteSignature {
  name: string;
  id: string;
  value: Uint8Array;
}

/** The signatures under a checkpoint. Throws unless it is that of this seal, and the log's key signed it. */
export function checkpointSignatures(note: string, pool: string, seal: Seal): NoteSignature[] {
  const [origin, rest] = [note.slice(0, note.indexOf("\n")), `bailiff/${pool}/${seal.identity}`];
  if (!origin.startsWith(rest) || !/^(\/[1-9][0-9]{0,8})?$/.test(origin.slice(rest.length))) throw new Error("the checkpoint is of another log");
  const text = `${origin}\n${seal.size}\n${toBase64(fromHex(seal.root))}\n`;
  if (!note.startsWith(`${text}\n`)) throw new Error("the checkpoint has another size or root");
  const lines = note.slice(text.length + 1).split("\n");
  if (lines.pop() !== "" || !lines.length || lines.length > MAX_SIGNATURES) throw new Error("the checkpoint has no signatures, or too many");
  const signatures = lines.map(noteSignature);
  const key = fromBase64Url(seal.key);
  const own = signatures.filter((each) => each.name === origin && each.id === keyId(origin, LOG_KEY, key));
  if (!own.length || !own.every((each) => signedBytes(key, each.value, utf8(text)))) throw new Error("the log's key did not sign the checkpoint");
  return signatures;
}

/** The name of the witness with this key. Throws unless it cosigned this checkpoint of the seal. */
export function cosigner(note: string, witness: string, pool: string, seal: Seal): string {
  const signatures = checkpointSignatures(note, pool, seal);
  const [, name, id, content] = VKEY.exec(witness) ?? [];
  const raw = strictBase64(content ?? "");
  if (name === undefined || raw.length !== 33 || raw[0] !== WITNESS_KEY || keyId(name, WITNESS_KEY, raw.slice(1)) !== id) throw new Error("not the key of a witness");
  const own = signatures.filter((each) => each.name === name && each.id === id);
  const text = note.slice(0, note.indexOf("\n\n") + 1);
  const valid = own.every((each) => {
    const time = each.value.slice(0, 8).reduce((sum, byte) => sum * 256 + byte, 0);
    return each.value.length === 72 && time <= LATEST_TIME && signedBytes(raw.slice(1), each.value.slice(8), utf8(`cosignature/v1\ntime ${time}\n${text}`));
  });
  if (!own.length || !valid) throw new Error(`${name} did not cosign the seal`);
  return name;
}

function noteSignature(line: string): NoteSignature {
  const [, name, content] = SIGNATURE.exec(line) ?? [];
  const raw = strictBase64(content ?? "");
  if (name === undefined || raw.length <= 4) throw new Error("a line after the checkpoint is not a signature");
  return { name, id: hex(raw.slice(0, 4)), value: raw.slice(4) };
}

/** The first four bytes of the hash of a key with its name and kind. */
const keyId = (name: string, kind: number, key: Uint8Array): string => hex(hash(concat([utf8(`${name}\n`), Uint8Array.of(kind), key])).slice(0, 4));

/** Decodes base64 that is written in its only form. */
export function strictBase64(content: string): Uint8Array {
  const raw = /^[A-Za-z0-9+/]*={0,2}$/.test(content) && content.length % 4 === 0 ? Uint8Array.from(atob(content), (char) => char.charCodeAt(0)) : null;
  if (raw === null || toBase64(raw) !== content) throw new Error("not base64");
  return raw;
}
