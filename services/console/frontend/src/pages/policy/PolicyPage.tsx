import { usePageTitle } from "../../lib/usePageTitle";
import { currentUser } from "../../shell/currentUser";
import { PolicyWhatIf } from "../whatif/PolicyWhatIf";
import { PolicyForm } from "./PolicyForm";
import "../submit/submit.css";
import "../whatif/whatif.css";
import "./policy.css";

/** The policy and its projects: form and YAML, what a change would cause now and last week, then apply. */
export default function PolicyPage({ pool }: { pool: string }) {
  usePageTitle(`${pool}: policy`);
  const operator = currentUser.value?.operator ?? false;
  return (
    <div class="page">
      <div class="page-head">
        <h1>Policy</h1>
        <span class="soft">{operator ? "Nothing changes until you apply it." : "Only operators apply policies; you can try one here."}</span>
      </div>
      <PolicyWhatIf key={pool} pool={pool} form={(yaml, write) => <PolicyForm yaml={yaml} write={write} />} applicable={operator} />
    </div>
  );
}
