// Merkle trees (RFC 6962, section 2.1) over SHA-256. Paths go from the leaf, or the smaller tree, to the root.
import { compareBytes, hash } from "./bytes";

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

export const leafHash = (data: Uint8Array): Uint8Array => hash(LEAF, data);
const nodeHash = (left: Uint8Array, right: Uint8Array): Uint8Array => hash(NODE, left, right);
const same = (left: Uint8Array, right: Uint8Array): boolean => compareBytes(left, right) === 0;

/** The root over these leaf hashes. */
export function rootOf(leaves: Uint8Array[], low = 0, high = leaves.length): Uint8Array {
  if (high <= low) return hash();
  if (high - low === 1) return leaves[low]!;
  const middle = low + split(high - low);
  return nodeHash(rootOf(leaves, low, middle), rootOf(leaves, middle, high));
}

/** The root that these leaf hashes, by their sorted positions, and their multiproof lead to; null: it is not theirs. */
export function multiproofRoot(leaves: ReadonlyMap<number, Uint8Array>, size: number, proof: readonly Uint8Array[]): Uint8Array | null {
  const positions = [...leaves.keys()];
  if (!positions.length || positions.some((each, at) => each >= size || each < 0 || (at > 0 && each <= positions[at - 1]!))) return null;
  let used = 0;
  const root = (first: number, end: number, low: number, high: number): Uint8Array | null => {
    if (first === end) return proof[used++] ?? null;
    if (high - low === 1) return leaves.get(low)!;
    const middle = low + split(high - low);
    let at = first;
    while (at < end && positions[at]! < middle) at += 1;
    const left = root(first, at, low, middle);
    const right = root(at, end, middle, high);
    return left && right && nodeHash(left, right);
  };
  const found = root(0, positions.length, 0, size);
  return used === proof.length ? found : null;
}

/** The inclusion path of the leaf at `index` (2.1.1). */
export function inclusionPath(leaves: Uint8Array[], index: number): Uint8Array[] {
  let [low, high] = [0, leaves.length];
  if (index < low || index >= high) throw new Error(`there is no leaf ${index} in a tree of ${high}`);
  const path: Uint8Array[] = [];
  while (high - low > 1) {
    const middle = low + split(high - low);
    if (index < middle) {
      path.unshift(rootOf(leaves, middle, high));
      high = middle;
    } else {
      path.unshift(rootOf(leaves, low, middle));
      low = middle;
    }
  }
  return path;
}

/** Verifies an inclusion path (RFC 9162, 2.1.3.2). */
export function included(leaf: Uint8Array, index: number, size: number, path: Uint8Array[], root: Uint8Array): boolean {
  if (index < 0 || index >= size) return false;
  let [at, last, found] = [index, size - 1, leaf];
  for (const sibling of path) {
    if (last === 0) return false;
    if (at % 2 || at === last) {
      found = nodeHash(sibling, found);
      while (at && at % 2 === 0) [at, last] = [half(at), half(last)];
    } else found = nodeHash(found, sibling);
    [at, last] = [half(at), half(last)];
  }
  return last === 0 && same(found, root);
}

/** Verifies a consistency proof: the first tree is a prefix of the second (RFC 9162, 2.1.4.2). */
export function consistent(before: number, size: number, path: Uint8Array[], beforeRoot: Uint8Array, root: Uint8Array): boolean {
  if (before <= 0 || before > size) return false;
  if (before === size) return path.length === 0 && same(beforeRoot, root);
  const proof = Number.isInteger(Math.log2(before)) ? [beforeRoot, ...path] : [...path];
  if (!proof.length) return false;
  let [at, last] = [before - 1, size - 1];
  while (at % 2) [at, last] = [half(at), half(last)];
  let old = proof[0]!;
  let now = proof[0]!;
  for (const sibling of proof.slice(1)) {
    if (last === 0) return false;
    if (at % 2 || at === last) {
      [old, now] = [nodeHash(sibling, old), nodeHash(sibling, now)];
      while (at && at % 2 === 0) [at, last] = [half(at), half(last)];
    } else now = nodeHash(now, sibling);
    [at, last] = [half(at), half(last)];
  }
  return last === 0 && same(old, beforeRoot) && same(now, root);
}

const half = (value: number): number => Math.floor(value / 2);

/** The largest power of two below `size`. */
function split(size: number): number {
  let found = 1;
  while (found * 2 < size) found *= 2;
  return found;
}
