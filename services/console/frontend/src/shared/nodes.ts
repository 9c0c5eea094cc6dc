// Texts and sums about nodes.
import type { LiveNode } from "../api";
import { count } from "../lib";

export const NODE_STATE_TEXTS: Record<string, string> = {
  ready: "is schedulable",
  draining: "is draining: its jobs are migrated, evicted or end, and no new ones are placed",
  drained: "is drained: no jobs run there and no new ones are placed",
  unreachable: "is unreachable: its jobs may still run, and no new ones are placed",
  lost: "is lost: its jobs are requeued",
};

/** `2 GPUs, 6 × 3g.40gb`: the GPUs and the MIG devices by profile. */
export function devicesText(node: LiveNode): string {
  const profiles = (node.kinds ?? []).flatMap(([, profile]) => (profile === null ? [] : [profile]));
  const whole = node.devices.length - profiles.length;
  const mig = [...new Set(profiles)].sort().map((profile) => `${profiles.filter((each) => each === profile).length} × ${profile}`);
  return [...(whole > 0 || mig.length === 0 ? [count(whole, "GPU")] : []), ...mig].join(", ");
}

/** GPUs of a node that are neither quarantined nor unhealthy. */
export const healthyGpus = (node: LiveNode): number => node.devices.filter(([state]) => state !== "quarantined" && state !== "unhealthy").length;
