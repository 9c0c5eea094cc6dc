/** URL of a page of a pool, `/{pool}/queue`, with each part encoded. query: its parameters. */
export function pagePath(pool: string, parts: (string | number)[] = [], query: URLSearchParams | Record<string, string> = {}): string {
  const asked = new URLSearchParams(query).toString();
  return `/${[pool, ...parts].map((part) => encodeURIComponent(part)).join("/")}${asked && `?${asked}`}`;
}

export const jobPath = (pool: string, job: string): string => pagePath(pool, ["jobs", job]);
export const decisionPath = (pool: string, seq: number): string => pagePath(pool, ["decisions", seq]);
export const recordPath = (pool: string, seq: number): string => pagePath(pool, ["record"], { seq: `${seq}` });

/** The timeline, with the player at a record. */
export const replayPath = (pool: string, seq: number): string => pagePath(pool, ["timeline"], { at: `${seq}` });

export const nodePath = (pool: string, node: string): string => pagePath(pool, ["nodes", node]);
export const projectPath = (pool: string, project: string): string => pagePath(pool, ["projects"], { project });

export const JobLink = ({ pool, job }: { pool: string; job: string }) => <a href={jobPath(pool, job)}>{job}</a>;
export const DecisionLink = ({ pool, seq }: { pool: string; seq: number }) => <a href={decisionPath(pool, seq)}>#{seq}</a>;
export const SeqLink = ({ pool, seq }: { pool: string; seq: number }) => <a href={recordPath(pool, seq)}>#{seq}</a>;
export const NodeLink = ({ pool, node }: { pool: string; node: string }) => <a href={nodePath(pool, node)}>{node}</a>;

/** `train-1, train-2`, as links. */
export const JobLinks = ({ pool, jobs }: { pool: string; jobs: readonly string[] }) => (
  <>
    {jobs.map((job, place) => (
      <span key={job}>
        {place > 0 && ", "}
        <JobLink pool={pool} job={job} />
      </span>
    ))}
  </>
);

const NODES_NAMED = 3;

/** `node-1, node-2 and 3 more`, as links. */
export function NodeLinks({ pool, nodes }: { pool: string; nodes: readonly string[] }) {
  const named = nodes.length > NODES_NAMED ? nodes.slice(0, NODES_NAMED - 1) : nodes;
  const left = nodes.length - named.length;
  return (
    <>
      {named.map((node, place) => (
        <span key={node}>
          {place > 0 && (place === named.length - 1 && !left ? " and " : ", ")}
          <NodeLink pool={pool} node={node} />
        </span>
      ))}
      {left > 0 && ` and ${left} more`}
    </>
  );
}
