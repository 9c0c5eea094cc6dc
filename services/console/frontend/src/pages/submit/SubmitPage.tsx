import { useLive } from "../../live/live";

export default function SubmitPage({ pool }: { pool: string }) {
  const live = useLive(pool);
  return <h1>Submit of {pool}, record #{live.seq}</h1>;
}
