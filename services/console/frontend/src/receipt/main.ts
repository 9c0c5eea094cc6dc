// The page of a receipt: checks the JSON in it and shows the verdict, the checks, what was not checked, and how to repeat it.
// Everything from the receipt is written as text, never as markup.
import rules from "../../../../../libs/client/bailiff/audit/receipt/rules.json";
import { count, gpuTime } from "../lib/amounts";
import { endText } from "../lib/evictionTexts";
import { sanitizeLine } from "../lib/sanitizeLine";
import { header } from "../verify/chain";
import { checkReceipt, type Check, type Checked, type Trust } from "./check";
import type { Contents, Data, Decoded } from "./contents";
import { moment, stage } from "./text";
import "../styles/base.css";
import "../styles/tokens.css";
import "./receipt.css";

type Child = Node | string | null | undefined | false | Child[];

function h(tag: string, about: Record<string, string> | null, ...children: Child[]): HTMLElement {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(about ?? {})) element.setAttribute(name, value);
  element.append(...flat(children));
  return element;
}

const flat = (children: Child[]): (Node | string)[] => children.flatMap((each) => (Array.isArray(each) ? flat(each) : each ? [each] : []));

/** Text from the receipt: isolated, so that it cannot turn what is around it. */
const said = (text: unknown): HTMLElement => h("bdi", null, sanitizeLine(String(text ?? "")));
const code = (text: unknown): HTMLElement => h("code", null, said(text));
const card = (title: string, ...children: Child[]): HTMLElement => h("section", { class: "card" }, h("h2", null, title), ...children);
const facts = (rows: [string, Child][]): HTMLElement => h("dl", null, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));

const VERDICTS: Record<Checked["verdict"], [tone: string, mark: string, title: string, text: string]> = {
  proven: ["good", "✓", "Proven", "The log of the pool whose keys you gave has this preemption exactly as it is shown here."],
  consistent: ["warn", "✓", "Consistent", "Everything in this file fits together. It proves the preemption once you know that the keys below are your pool's."],
  refuted: ["bad", "✗", "Refuted", "A check failed: what is shown here is not what the log has. Do not rely on it."],
  unreadable: ["bad", "✗", "Not a receipt", "The file was changed or is incomplete, so that there is nothing to check."],
};
const MARKS: Record<Check["status"], [tone: string, mark: string, word: string]> = {
  passed: ["good", "✓", "passed"],
  failed: ["bad", "✗", "failed"],
  "not-checked": ["warn", "–", "not checked"],
};
const FIELDS: [keyof Trust, string, string][] = [
  ["roots", "Root key", "of the log's first record"],
  ["sealing", "Sealing key", "the log's first, or the seal's"],
  ["witnesses", "Witness", "vkey, as NAME+ID+KEY"],
];

const text = document.getElementById("receipt")?.textContent ?? "";
const page = document.getElementById("page")!;
const known: Trust = { roots: [], sealing: [], witnesses: [] };

function show(): void {
  const found = checkReceipt(text, known);
  const [tone, mark, title, about] = VERDICTS[found.verdict];
  const unfinished = found.contents && !found.finished ? "The eviction had not ended when this receipt was written." : "";
  document.title = `${title}: receipt of a preemption`;
  document.body.dataset["verdict"] = found.verdict;
  document.body.dataset["checks"] = JSON.stringify(Object.fromEntries(found.checks.map((each) => [each.id, each.status])));
  page.replaceChildren(
    h("header", { class: "verdict", "data-tone": tone }, h("p", { class: "kind" }, "Receipt of a preemption"), h("h1", null, h("span", { class: "mark", "aria-hidden": "true" }, mark), title), h("p", null, about), unfinished && h("p", null, unfinished), found.problem && h("p", null, said(found.problem))),
    ...flat([
      found.contents && story(found.contents),
      found.checks.length > 0 && checkList(found),
      found.receipt && [keys(found), notChecked(found), repeat(found)],
      found.contents && records(found.contents),
    ]),
  );
}

// --- what happened

function story(contents: Contents): Child {
  const { decision, receipt, preemptor: job } = contents;
  const { preemptor, explanation = {}, action = "preempt" } = decision.data;
  const request = contents.records.find((each) => each.seq === decision.data["request"]);
  const others = [...new Map(contents.choices().map((each) => [each["job"] as string, each])).values()].filter((each) => !receipt.victims.includes(each["job"]));
  return [
    card(
      "What happened",
      h("p", { class: "lead" }, "On ", moment(decision.time), ", ", said(receipt.pool), " took GPUs from ", names(receipt.victims), " for ", h("strong", null, said(job)), "."),
      facts([
        ["Decision", [`#${decision.seq}, action `, said(action)]],
        ["Preemptor", [said(job), " (", said(preemptor.class_name), ` ${preemptor.priority}`, preemptor.project && [", project ", said(preemptor.project)], "), ", submitter(contents, job)]],
        ["Why", request ? [said(request.data["reason"]), seq(request)] : "unknown"],
        ...receipt.victims.slice(0, SHOWN).map((victim): [string, Child] => ["Victim", [said(victim), ", ", submitter(contents, victim), contents.choices(victim).map(price), h("p", null, "Outcome: ", said(endText(contents.outcome(victim)) || "not ended yet"))]]),
        ...more(receipt.victims.length - SHOWN, "more victim"),
        ...(others.length ? ([["Also", [`${count(others.length, "other victim")} of this decision: `, said(others.slice(0, SHOWN).map((each) => `${each["job"]} (${gpuTime(each["lost_gpu_ms"])})`).join(", "))]]] as [string, Child][]) : []),
      ]),
    ),
    card("Why these, and who was spared", choice(explanation)),
    card("The eviction, stage by stage", stages(contents)),
  ];
}

const SHOWN = 20;
const more = (left: number, thing: string): [string, Child][] => (left > 0 ? [["", `and ${count(left, thing)}`]] : []);
const names = (jobs: string[]): Child => [jobs.slice(0, 5).map((job, at) => [at > 0 && ", ", h("strong", null, said(job))]), jobs.length > 5 && ` and ${jobs.length - 5} more`];

function submitter(contents: Contents, job: string): Child {
  const submission = contents.submission(job);
  if (!submission) return "its submission is not in this file";
  const isSigned = header(submission.kept, "ce_request") !== "";
  return ["submitted by ", said(header(submission.kept, "ce_actor") || submission.data["user"] || "an unnamed sender"), isSigned ? ", signed" : ", not verified", seq(submission)];
}

const seq = (record: Decoded): HTMLElement => h("span", { class: "seq" }, `#${record.seq}`);
function price(choice: Data): HTMLElement {
  const parts = [choice["tasks"] ? `tasks ${choice["tasks"]}` : "the whole job", count(choice["gpus"], "GPU"), `priority ${choice["priority"]}`, `${gpuTime(choice["lost_gpu_ms"])} of work lost and restarts`];
  if (choice["moved_to"]?.length) parts.push("with a new place reserved");
  if (choice["reserved"]) parts.push("had not started");
  if (choice["ends"]) parts.push("ends for good");
  return h("p", { class: "price" }, said(parts.join(" · ")));
}

function choice(explanation: Data): Child {
  const { candidates = 0, cost: price, proven, runner_up: next = [], attempted_actions: tried = [] } = explanation;
  return [
    h("p", null, `${count(candidates, "job")} could have been taken. `, price && `The chosen set costs ${gpuTime(price.lost_gpu_ms ?? 0)} of work lost and restarts. `, proven ? "Victim selection claims that no permitted set is cheaper." : "It is the cheapest set that was found, not proven to be the cheapest."),
    next.length > 0 && h("p", null, "The next best set: ", said(next.join(", ")), `, ${gpuTime(explanation["runner_up_cost"]?.lost_gpu_ms ?? explanation["runner_up_lost_gpu_ms"] ?? 0)}.`),
    excluded(explanation),
    (tried as Data[]).map((each) => [h("p", null, "Action ", code(each["action"]), " was tried before and found no victims", each["would_need"] && [": ", said(each["would_need"])], "."), excluded(each)]),
  ];
}

function excluded({ excluded: rows = [] }: Data): Child {
  return rows.length > 0 && h("ul", { class: "open" }, (rows as Data[]).map((each) => h("li", null, "Rule ", code(each["rule"]), ` spared ${count(each["jobs"], "job")}`, each["examples"]?.length > 0 && [": ", said(each["examples"].join(", "))])));
}

const MAX_STAGES = 200;

function stages(contents: Contents): HTMLElement {
  const about = contents.records.filter((record, at) => ["stage", "outcome", "use"].includes(contents.purpose(at)) && record.seq > contents.decision.seq);
  if (!about.length) return h("p", null, "No stage is in the log yet.");
  const several = contents.receipt.victims.length > 1;
  const row = (record: Decoded): HTMLElement => h("li", null, h("time", null, record.time.slice(11, 19)), h("span", null, several && record.kind !== "JobStarting" && [said(record.data["job"]), ": "], said(stage(record)), seq(record)));
  return h("ol", { class: "stages" }, about.slice(0, MAX_STAGES).map(row), about.length > MAX_STAGES && h("li", null, `and ${about.length - MAX_STAGES} more, in the records below`));
}

// --- the checks

function checkList(found: Checked): HTMLElement {
  const rows = found.checks.map(({ id, status, detail }) => {
    const [tone, mark, word] = MARKS[status];
    return h("li", { "data-tone": tone, "data-check": id }, h("span", { class: "mark", "aria-hidden": "true" }, mark), h("div", null, h("h3", null, rules.checks[id].title, h("span", { class: "word" }, word)), h("p", null, status !== "passed" && "It would prove: ", rules.checks[id].proves), h("p", { class: "soft" }, said(detail))));
  });
  return card("What was checked, and what it proves", h("ul", { class: "checks" }, rows));
}

function keys(found: Checked): HTMLElement {
  const { receipt, contents } = found;
  const root = contents?.records[0]?.data["root_key"] ?? "none";
  const witnesses = receipt!.cosignatures.map((each) => each.witness);
  const inputs = FIELDS.map(([name, label, hint]) => {
    const input = h("input", { id: `known-${name}`, value: known[name].join(" "), placeholder: hint, spellcheck: "false", autocomplete: "off" }) as HTMLInputElement;
    input.addEventListener("change", () => {
      known[name] = input.value.split(/[\s,]+/).filter(Boolean);
      show();
      document.getElementById(`known-${name}`)?.focus();
    });
    return h("label", { for: `known-${name}` }, label, input);
  });
  return card(
    "Whose keys these are",
    h("p", null, "Anybody can make a log with keys of their own. Paste the keys that your operators published elsewhere; they are compared here, and sent nowhere."),
    facts([["Root key in the file", code(root)], ["Sealing key in the file", code(receipt!.seal.key)], ["Witnesses in the file", witnesses.length ? witnesses.map((each) => h("p", null, code(each))) : "none"]]),
    h("div", { class: "known" }, inputs),
  );
}

function notChecked(found: Checked): HTMLElement {
  return card("What was not checked", h("ul", { class: "open" }, found.notChecked.map((id) => h("li", { "data-open": id }, rules.not_checked[id]))));
}

function repeat(found: Checked): HTMLElement {
  const { pool, decision } = found.receipt!;
  const name = decodeURIComponent(location.pathname.split("/").pop() ?? "") || "FILE";
  const file = /^[\w.@%+=:,/-]+$/.test(name) && !name.startsWith("-") ? name : `'./${name.replaceAll("'", "'\\''")}'`;
  const commands = [`bailiff audit check-receipt ${file} --root KEY --trust KEY`, `bailiff audit verify --pool ${pool} --trust KEY`, `bailiff audit replay --pool ${pool} --from ${decision} --to ${decision}`, `bailiff explain ${decision} --all --pool ${pool}`];
  return card("To repeat it, and to check what a file cannot show", h("p", null, "The first command needs this file alone, the others the log."), commands.map((each) => h("pre", null, said(each))));
}

function records(contents: Contents): HTMLElement {
  const rows = contents.records.map((record, at) =>
    h("details", null, h("summary", null, `#${record.seq} `, said(record.kind), h("span", { class: "soft" }, ` ${contents.purpose(at) || "not needed"}`)), h("pre", null, JSON.stringify(record.data, null, 1).split("\n").map(sanitizeLine).join("\n"))),
  );
  return card("The records", h("p", null, "As the log has them, in its order. The hashes are computed from their exact bytes, which are in this file."), rows);
}

document.documentElement.dataset["theme"] = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => (document.documentElement.dataset["theme"] = event.matches ? "dark" : "light"));
show();
