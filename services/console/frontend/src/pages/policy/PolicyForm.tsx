import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { Button, CheckBox, DataTable, Dropdown, Field, SignButton } from "../../ui";
import { ACTIONS, fieldsOf, withAction, withNewProject, withoutProject, withProject, withSetting, type ProjectFields } from "./policyForm";

/** Field, head, width in characters, what stands for nothing. */
const COLUMNS: [keyof ProjectFields, string, number, string][] = [["name", "Name", 16, ""], ["parent", "Parent", 12, "none"], ["quota", "GPU quota", 7, "children’s"], ["limit", "GPU limit", 7, "unlimited"], ["weight", "Weight", 4, "1"], ["priority", "Priority", 4, "0"], ["description", "Description", 14, ""]];

/** Projects and the settings that are changed most, as a form of the YAML beside it. */
export function PolicyForm({ yaml, write }: { yaml: string; write: (yaml: string) => void }) {
  const adding = useSignal("");
  const fields = useMemo(() => fieldsOf(yaml), [yaml]);
  if (!fields) return <p class="soft">The YAML cannot be shown as a form: fix its errors first.</p>;
  return (
    <div class="stack policy-form">
      <fieldset class="row policy-settings">
        <legend class="label">Actions</legend>
        {ACTIONS.map((action) => (
          <CheckBox key={action} checked={fields.actions[action]!} onChange={(on) => write(withAction(yaml, action, on))}>
            {action}
          </CheckBox>
        ))}
      </fieldset>
      <div class="row policy-settings">
        <Field label="Preemption scope">
          <Dropdown value={fields.scope} options={[["", "own project, where there are projects"], ["pool", "whole pool"], ["project", "own project"]]} onChange={(next) => write(withSetting(yaml, "preemption", "scope", next))} />
        </Field>
        <Field label="Grace period">
          <input class="input" value={fields.grace} onInput={(event) => write(withSetting(yaml, "eviction", "grace", event.currentTarget.value))} />
        </Field>
      </div>
      <h3>Projects</h3>
      {fields.projects.length > 0 && (
        <div class="policy-projects">
          <DataTable
            caption="Projects of the policy"
            rows={fields.projects.map((row, at) => ({ row, at }))}
            rowKey={({ at }) => at}
            columns={[
              ...COLUMNS.map(([name, head, size, placeholder]) => ({
                head,
                cell: ({ row, at }: { row: ProjectFields; at: number }) => (
                  <input class="input" aria-label={`${head} of ${row.name || `project ${at + 1}`}`} size={size} value={row[name]} placeholder={placeholder} maxLength={300} onInput={(event) => write(withProject(yaml, at, name, event.currentTarget.value))} />
                ),
              })),
              { head: "Remove", narrow: true, cell: ({ row, at }) => <SignButton quiet sign="✕" label={`Remove ${row.name}`} onClick={() => write(withoutProject(yaml, at))} /> },
            ]}
          />
        </div>
      )}
      {fields.projects.length > 0 && <p class="soft note">Without a GPU quota, a project has the sum of its children’s, or 0; “unlimited” is no bound.</p>}
      <form
        class="row policy-add"
        onSubmit={(event) => {
          event.preventDefault();
          if (!adding.value.trim()) return;
          write(withNewProject(yaml, adding.value.trim()));
          adding.value = "";
        }}
      >
        <input class="input" aria-label="Name of the new project" placeholder="new project" maxLength={63} value={adding.value} onInput={(event) => (adding.value = event.currentTarget.value)} />
        <Button submit>Add project</Button>
      </form>
    </div>
  );
}
