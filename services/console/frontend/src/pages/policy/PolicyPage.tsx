import { usePageTitle } from "../../lib";
import { currentUser } from "../../live";
import { PolicyWhatIf } from "./PolicyWhatIf";

/** The policy and its projects: form and YAML, what a change would cause now and last week, then apply. */
export default function PolicyPage({ pool }: { pool: string }) {
  usePageTitle(`${pool}: policy`);
  const operator = currentUser.value?.operator ?? false;
  return (
    <div class="stack page">
      <div class="row page-head">
        <h1>Policy</h1>
        <span class="soft">{operator ? "Nothing changes until you apply it." : "Only operators apply policies; you can try one here."}</span>
      </div>
      <PolicyWhatIf key={pool} pool={pool} applicable={operator} />
    </div>
  );
}
