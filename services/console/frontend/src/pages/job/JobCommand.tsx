import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";

import { poolPath, post, toApiError, type ApiError } from "../../lib/api";
import { sanitizeLine } from "../../lib/sanitizeLine";
import { useFetch } from "../../lib/useFetch";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { CopyButton } from "../../ui/CopyButton";
import { ErrorMessage } from "../../ui/ErrorMessage";
import { prefillSubmit } from "../submit/draftStorage";
import type { JobDetails } from "./types";

interface SpecAnswer {
  spec: { command: string | string[]; env?: Record<string, string>; working_dir?: string; image?: string };
  yaml: string;
}

/** Why the policy does not permit the request, by its kind; null: it does. */
type Rights = Partial<Record<"spec" | "attach", string | null>>;

/** For whoever may: the job's ports, its command, and the way to submit it again. */
export function JobCommand({ pool, job, details }: { pool: string; job: string; details: JobDetails }) {
  const { route } = useLocation();
  const rights = useFetch<Rights>(poolPath(pool, "jobs", job, "permissions"), job).value.value;
  const found = useSignal<SpecAnswer | null>(null);
  const failure = useSignal<ApiError | null>(null);
  const mayRead = rights?.spec === null;
  const ports = rights?.attach === null ? details.request.ports ?? [] : [];
  if (!mayRead && !ports.length) return null;
  const read = async (then: (answer: SpecAnswer) => void) => {
    failure.value = null;
    try {
      then(found.value ?? (await post<SpecAnswer>(poolPath(pool, "jobs", job, "spec"), {})));
    } catch (error) {
      failure.value = toApiError(error);
    }
  };
  const again = () =>
    read((answer) => {
      prefillSubmit(pool, answer.yaml);
      route(`/${encodeURIComponent(pool)}/submit`);
    });
  return (
    <Card title="Command">
      {details.task_list.filter((task) => task.state === "running" && ports.length).map((task) => (
        <p key={task.task}>
          Task {task.task}:{" "}
          {ports.map((port) => (
            <a key={port} href={`/ports/${encodeURIComponent(pool)}/${encodeURIComponent(job)}/${task.task}/${port}`} target="_blank" rel="noopener">
              port {port}
            </a>
          ))}
        </p>
      ))}
      {found.value && <Spec spec={found.value.spec} />}
      {failure.value && <ErrorMessage error={failure.value} />}
      {mayRead && (
        <p>
          {!found.value && <Button onClick={() => void read((answer) => (found.value = answer))}>Show command</Button>} <Button onClick={() => void again()}>Run again</Button>{" "}
          <span class="soft">Reading it is on record.</span>
        </p>
      )}
    </Card>
  );
}

function Spec({ spec }: { spec: SpecAnswer["spec"] }) {
  const command = typeof spec.command === "string" ? spec.command : spec.command.join(" ");
  return (
    <dl class="facts">
      <dt>Command</dt>
      <dd class="mono">
        {sanitizeLine(command)} <CopyButton text={command} what="the command" />
      </dd>
      {spec.image && <><dt>Image</dt><dd class="mono">{sanitizeLine(spec.image)}</dd></>}
      {spec.working_dir && <><dt>Directory</dt><dd class="mono">{sanitizeLine(spec.working_dir)}</dd></>}
      {spec.env && <><dt>Environment</dt><dd>{Object.entries(spec.env).map(([name, value]) => <div key={name} class="mono">{sanitizeLine(`${name}=${value}`)}</div>)}</dd></>}
    </dl>
  );
}
