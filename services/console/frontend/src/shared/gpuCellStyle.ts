// Colour, letter and text of a GPU on the small map. A letter accompanies each colour.
import type { Cell, LiveNode } from "../api";

const COLOURS = 10;

/** Index of a categorical colour, derived from the job's name. */
export function colourOf(job: string): number {
  let hash = 7;
  for (let at = 0; at < job.length; at += 1) hash = (hash * 31 + job.charCodeAt(at)) >>> 0;
  return hash % COLOURS;
}

/** The sign of each job on a map: what tells its name from the others, in at most two characters. */
export function jobSigns(nodes: readonly LiveNode[]): Map<string, string> {
  const jobs = [...new Set(nodes.flatMap((node) => node.devices.flatMap(([, job, reserved]) => [job, reserved])))].filter((job) => job !== null).sort();
  const taken = new Set<string>();
  return new Map(
    jobs.map((job) => {
      const stem = /^(.*?)[-_.]?(\d+)$/.exec(job);
      const letters = [...job.toUpperCase()].filter((each) => /[A-Z0-9]/.test(each));
      const numbered = stem ? [stem[2]!.slice(-2), `${initial(job)}${stem[2]!.slice(-1)}`] : [];
      const others = letters.flatMap((first) => letters.map((second) => first + second));
      const alone = jobs.filter((each) => initial(each) === initial(job)).length === 1;
      const sign = [...(alone ? [initial(job)] : numbered), ...letters, ...others].find((each) => !taken.has(each)) ?? initial(job);
      taken.add(sign);
      return [job, sign];
    }),
  );
}

/** The symbol in a cell: the job's sign; ◌ reserved, ✕ unavailable, empty if free. */
export function signOf([state, job, reserved, others]: Cell, signs: ReadonlyMap<string, string>): string {
  const of = (name: string): string => signs.get(name) ?? initial(name);
  if (state === "unhealthy" || state === "quarantined") return "✕";
  if (state === "shared") return String(others.length);
  if (state === "reserved") return reserved ? of(reserved) : "◌";
  return job ? of(job) : "";
}

/** The state of a GPU as text. */
export function cellText([state, job, reserved, others, problem]: Cell): string {
  if (state === "allocated") return `allocated to ${job}`;
  if (state === "releasing") return `being released by ${job ?? "a job"}${reserved ? `, reserved for ${reserved}` : ""}`;
  if (state === "reserved") return `reserved for ${reserved}`;
  if (state === "shared") return `shared by ${others.join(", ")}`;
  return problem ? `${state}: ${problem}` : state;
}

const initial = (job: string): string => [...job][0]!.toUpperCase();

/** `GPU 3`, or `MIG device 5 (3g.40gb)` */
export function deviceName(node: LiveNode, gpu: number): string {
  const [number, profile] = node.kinds?.[gpu] ?? [gpu, null];
  return profile === null ? `GPU ${number}` : `MIG device ${number} (${profile})`;
}

export const cellTitle = (node: LiveNode, gpu: number): string => `${node.node}, ${deviceName(node, gpu)}`;
