import { few } from "../lib/terms";
import type { Affected } from "./requests";

/** `moves to node-2`, `leaves`. */
export const does = (row: Pick<Affected, "what" | "to">): string =>
  row.to.length ? `${row.what} ${row.what === "starts" ? "on" : "to"} ${few(row.to)}` : row.what;
