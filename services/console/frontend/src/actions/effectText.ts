import { few } from "../lib/format";
import type { Affected } from "./requests";

/** `migrates to node-2`, `evicted`. */
export const effectText = (row: Pick<Affected, "effect" | "to">): string =>
  row.to.length ? `${row.effect} ${row.effect === "starts" ? "on" : "to"} ${few(row.to)}` : row.effect;
