import { useLive } from "../../live/live";

export default function ProjectsPage({ pool }: { pool: string }) {
  const live = useLive(pool);
  return <h1>Projects of {pool}, record #{live.seq}</h1>;
}
