import { useLive } from "../../live/live";

export default function PoolPage({ pool }: { pool: string }) {
  const live = useLive(pool);
  return <h1>Pool of {pool}, record #{live.seq}</h1>;
}
