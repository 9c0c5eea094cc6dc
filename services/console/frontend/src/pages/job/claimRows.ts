import type { JobPage } from "../../api";

/** What the job claims and what of it holds, and how far it is believed if that is less than others. */
export function claimRows(details: Pick<JobPage, "claims" | "believed">): [string, string][] {
  const claims = details.claims.map((each): [string, string] => [`${each.field} ${each.claimed}`, `granted: ${each.granted}`]);
  return details.believed ? [...claims, ["believed", details.believed]] : claims;
}
