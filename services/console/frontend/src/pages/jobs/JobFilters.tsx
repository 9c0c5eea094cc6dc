import { useSignal } from "@preact/signals";

import { zoneName } from "../../lib";
import { currentUser, type LivePool } from "../../live";
import { Button, CheckBox, Dropdown, FilterField, MomentInput } from "../../ui";
import { addressOf, COLUMNS, DEFAULT, jobsPath, loadViews, NOT_ENDED, saveViews, SORTS, STATES, withView, type Question } from "./jobsQuery";

interface Props {
  pool: string;
  live: LivePool;
  question: Question;
  ask: (question: Question) => void;
}

/** How the list is sorted, with the words for the first of each order: descending, ascending. */
const SORT_NAMES = { submitted: ["Submitted", "newest", "oldest"], ended: ["Ended", "newest", "oldest"], gpus: ["GPUs", "most", "fewest"], job: ["Name", "Z to A", "A to Z"] } as const;
const ORDERS = SORTS.flatMap((sort) => (["desc", "asc"] as const).map((order, at): [string, string] => [`${sort} ${order}`, `${SORT_NAMES[sort][0]}, ${SORT_NAMES[sort][1 + at]}`]));
const orderOf = (option: string): Pick<Question, "sort" | "order"> => {
  const [sort, order] = option.split(" ") as [Question["sort"], Question["order"]];
  return { sort, order };
};

/** The filters, the order and the columns of the list, and the saved views. */
export function JobFilters({ pool, live, question, ask }: Props) {
  const set = (some: Partial<Question>): void => ask({ ...question, ...some });
  const quick: [string, Partial<Question>][] = [
    ["All", DEFAULT],
    ["Not ended", { ...DEFAULT, states: [...NOT_ENDED] }],
    ["Mine", { ...DEFAULT, user: currentUser.value?.name ?? "" }],
    ["Failed", { ...DEFAULT, states: ["failed"] }],
  ];
  const text = (name: "name" | "user" | "node", label: string) => (
    <FilterField label={label}>
      <input class="input" type="search" value={question[name]} maxLength={256} onInput={(event) => set({ [name]: event.currentTarget.value })} />
    </FilterField>
  );
  const choice = (name: "project" | "priorityClass", label: string, values: string[]) => (
    <FilterField label={label}>
      <Dropdown value={question[name]} options={[["", "any"], ...new Set([...values, ...(question[name] ? [question[name]] : [])])]} onChange={(next) => set({ [name]: next })} />
    </FilterField>
  );
  const when = (name: "from" | "to", label: string) => (
    <FilterField label={`${label} (${zoneName()})`}>
      <MomentInput value={question[name]} onChange={(iso) => set({ [name]: iso })} />
    </FilterField>
  );
  return (
    <>
      <div class="row toolbar">
        <div class="segmented" data-wrapping role="group" aria-label="Views">
          {quick.map(([name, each]) => (
            <button key={name} type="button" aria-pressed={addressOf({ ...DEFAULT, ...each, columns: question.columns, sort: question.sort, order: question.order }) === addressOf(question)} onClick={() => set(each)}>
              {name}
            </button>
          ))}
        </div>
        <SavedViews pool={pool} question={question} />
      </div>
      <form class="job-filters" role="search" onSubmit={(event) => event.preventDefault()}>
        {text("name", "Name contains")}
        {choice("project", "Project", [...live.projects.keys()])}
        {text("user", "User")}
        {choice("priorityClass", "Class", live.classes.value.map((row) => row.priority_class))}
        {text("node", "Node")}
        {when("from", "Submitted from")}
        {when("to", "Submitted until")}
        <FilterField label="Order">
          <Dropdown value={`${question.sort} ${question.order}`} options={ORDERS} onChange={(next) => ask({ ...question, ...orderOf(next) })} />
        </FilterField>
      </form>
      <div class="row job-choices">
        <Choices legend="States" all={STATES} chosen={question.states} choose={(states) => set({ states })} />
        <Choices legend="Columns" all={COLUMNS} chosen={question.columns} choose={(columns) => set({ columns: COLUMNS.filter((each) => each === "job" || columns.includes(each)) })} />
        {addressOf(question) !== "" && (
          <Button quiet onClick={() => ask(DEFAULT)}>
            Clear
          </Button>
        )}
      </div>
    </>
  );
}

/** A folded list of check boxes. */
function Choices<T extends string>({ legend, all, chosen, choose }: { legend: string; all: readonly T[]; chosen: readonly string[]; choose: (chosen: string[]) => void }) {
  return (
    <details class="choices">
      <summary>
        {legend}
        {chosen.length > 0 && chosen.length < all.length && <span class="soft"> {chosen.length}</span>}
      </summary>
      <fieldset>
        <legend class="visually-hidden">{legend}</legend>
        {all.map((each) => (
          <CheckBox key={each} checked={chosen.includes(each)} onChange={(on) => choose(on ? [...chosen, each] : chosen.filter((other) => other !== each))}>
            {each}
          </CheckBox>
        ))}
      </fieldset>
    </details>
  );
}

function SavedViews({ pool, question }: { pool: string; question: Question }) {
  const views = useSignal(loadViews(pool));
  const name = useSignal<string | null>(null);
  const change = (next: typeof views.value): void => {
    views.value = next;
    saveViews(pool, next);
  };
  return (
    <div class="row saved-views">
      {views.value.map((view) => (
        <span key={view.name} class="saved-view">
          <a href={jobsPath(pool, view.address)}>{view.name}</a>
          <button type="button" class="link" title={`Delete the view ${view.name}`} onClick={() => change(views.value.filter((each) => each !== view))}>
            ✕<span class="visually-hidden">Delete the view {view.name}</span>
          </button>
        </span>
      ))}
      {name.value === null ? (
        <Button quiet onClick={() => (name.value = "")}>
          Save this view
        </Button>
      ) : (
        <form
          class="saved-view"
          onSubmit={(event) => {
            event.preventDefault();
            const given = name.value?.trim();
            if (given) change(withView(views.value, { name: given.slice(0, 60), address: addressOf(question) }));
            name.value = null;
          }}
        >
          <input class="input" aria-label="Name of the view" value={name.value} maxLength={60} ref={(input) => input?.focus()} onInput={(event) => (name.value = event.currentTarget.value)} />
          <Button submit>Save</Button>
        </form>
      )}
    </div>
  );
}
