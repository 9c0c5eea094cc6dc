const at = (pool: string, ...parts: (string | number)[]): string => `/${[pool, ...parts].map((part) => encodeURIComponent(part)).join("/")}`;

export const jobPath = (pool: string, job: string): string => at(pool, "jobs", job);
export const decisionPath = (pool: string, seq: number): string => at(pool, "decisions", seq);
export const recordPath = (pool: string, seq: number): string => `${at(pool, "record")}?seq=${seq}`;

export const JobLink = ({ pool, job }: { pool: string; job: string }) => <a href={jobPath(pool, job)}>{job}</a>;
export const DecisionLink = ({ pool, seq }: { pool: string; seq: number }) => <a href={decisionPath(pool, seq)}>#{seq}</a>;
export const SeqLink = ({ pool, seq }: { pool: string; seq: number }) => <a href={recordPath(pool, seq)}>#{seq}</a>;
