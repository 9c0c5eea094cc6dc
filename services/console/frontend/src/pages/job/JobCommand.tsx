import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";

import type { Permissions } from "../../actions/allowedActions";
import { poolPath, post, toApiError, type ApiError, type JobPage, type ReadableSpec } from "../../api";
import { sanitizeLine } from "../../lib";
import { prefillSubmit } from "../../shared/draftStorage";
import { Button, Card, CopyButton, ErrorMessage, pagePath } from "../../ui";

interface Spec {
  command: string | string[];
  env?: Record<string, string>;
  working_dir?: string;
  image?: string;
}

/** For whoever may: the job's ports, its command, and the way to submit it again. */
export function JobCommand({ pool, job, details, rights }: { pool: string; job: string; details: JobPage; rights: Permissions | null }) {
  const { route } = useLocation();
  const found = useSignal<ReadableSpec | null>(null);
  const failure = useSignal<ApiError | null>(null);
  const mayRead = rights?.spec === null;
  const ports = rights?.attach === null ? ((details.request.ports ?? []) as number[]) : [];
  if (!mayRead && !ports.length) return null;
  const read = async (then: (answer: ReadableSpec) => void) => {
    failure.value = null;
    try {
      then(found.value ?? (await post<ReadableSpec>(poolPath(pool, "jobs", job, "spec"), {})));
    } catch (error) {
      failure.value = toApiError(error);
    }
  };
  const again = () =>
    read((answer) => {
      prefillSubmit(pool, answer.yaml);
      route(pagePath(pool, ["submit"]));
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
      {found.value && <SpecFacts spec={found.value.spec as unknown as Spec} />}
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

function SpecFacts({ spec }: { spec: Spec }) {
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
