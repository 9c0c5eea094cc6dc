import { useLive } from "../../live/live";

export default function JobPage({ pool }: { pool: string }) {
  const live = useLive(pool);
  return <h1>Job of {pool}, record #{live.seq}</h1>;
}
