import { expect, test } from "vitest";

import { mayHaveTerminal } from "./jobTerminal";
import { keyText, pasteText } from "./shellKeys";
import { ShellScreen } from "./shellScreen";

const key = (name: string, held: Partial<Record<"ctrlKey" | "altKey" | "shiftKey" | "metaKey", boolean>> = {}, application = false) =>
  keyText({ key: name, ctrlKey: false, altKey: false, shiftKey: false, metaKey: false, isComposing: false, ...held }, application);

async function shown(text: string): Promise<{ lines: string[]; classes: string[]; answers: string[] }> {
  const answers: string[] = [];
  const screen = new ShellScreen({ rows: 5, columns: 40 }, (answer) => answers.push(answer));
  await screen.write(new TextEncoder().encode(text));
  const found = screen.lines();
  screen.close();
  return { lines: found.map((spans) => spans.map((span) => span.text).join("").trimEnd()), classes: found.flat().map((span) => span.classes), answers };
}

test("keys are what a terminal sends, and those of the browser stay its own", () => {
  expect([key("a"), key("é"), key("Enter"), key("Backspace"), key("Tab"), key("c", { ctrlKey: true }), key("[", { ctrlKey: true }), key(" ", { ctrlKey: true })]).toEqual(["a", "é", "\r", "\u007f", "\t", "\u0003", "\u001b", "\u0000"]);
  expect([key("ArrowUp"), key("ArrowUp", {}, true), key("ArrowLeft", { ctrlKey: true }), key("b", { altKey: true }), key("@", { ctrlKey: true, altKey: true })]).toEqual(["\u001b[A", "\u001bOA", "\u001b[1;5D", "\u001bb", "@"]);
  expect([key("Tab", { shiftKey: true }), key("C", { ctrlKey: true, shiftKey: true }), key("v", { metaKey: true }), key("Shift"), key("F11")]).toEqual([null, null, null, null, null]);
});

test("what is pasted cannot end its brackets or press keys", () => {
  expect(pasteText("rm\u001b[201~\r\nx\u0003", true)).toBe("\u001b[200~rm[201~\rx\u001b[201~");
  expect(pasteText("a\tb\n", false)).toBe("a\tb\r");
});

test("the screen has the text and its colours, and nothing of what else a program prints", async () => {
  const plain = await shown("one\r\n\u001b[31;1mred\u001b[0m \u001b[38;2;1;2;3mtrue\u001b[0m\r\n");
  expect(plain.lines.slice(0, 2)).toEqual(["one", "red true"]);
  expect(plain.classes).toContain("ansi-bad ansi-bold");
  const hostile = await shown("\u001b]0;title\u0007\u001b]52;c;aGk=\u0007\u001b]8;;javascript:x\u0007link\u001b]8;;\u0007<img src=x>\u202eabc");
  expect(hostile.lines[0]).toBe("link<img src=x>�abc");
  expect(hostile.classes.every((each) => /^(?:ansi-[a-z]+ ?)*$/.test(each))).toBe(true);
  expect(hostile.answers).toEqual([]);
});

test("a program that asks for the cursor's place is answered, one that asks for the title is not", async () => {
  expect((await shown("ab\u001b[6n")).answers).toEqual(["\u001b[1;3R"]);
  expect((await shown("\u001b]0;rm -rf ~\u0007\u001b[21t\u001b[20t")).answers).toEqual([]);
});

test("a terminal is offered until a node has found that the job has none", () => {
  const attached = (reason: string | null) => ({ seq: 1, user: "ada", user_verified: true, task: 0, port: null, shell: false, granted_at: null, started_at: null, ended_at: null, reason });
  expect([[], [attached(null)], [attached("detached")]].map((attachments) => mayHaveTerminal({ attachments }))).toEqual([true, true, true]);
  expect(mayHaveTerminal({ attachments: [attached("no-terminal"), attached("detached")] })).toBe(false);
});
