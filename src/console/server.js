// What the pages know of the server: its address, whether it is well, its tables, and its answers.

import { bytes } from "./elements.js";

/** Longer answers are not read: they help nobody and fill the memory of the page. */
const MOST_BYTES = 8 << 20;

/** Shows in the bar which server this is and whether it can read and write. */
export async function showServer() {
  document.getElementById("address").textContent = location.host;
  const dot = document.getElementById("health");
  let words = "The server does not respond";
  try {
    words = (await (await fetch("/_health")).json()).status;
  } catch { /* the words say it */ }
  dot.classList.toggle("bad", words !== "ok");
  dot.title = words === "ok" ? "The server can read and write" : words;
  dot.setAttribute("role", "img");
  dot.setAttribute("aria-label", dot.title);
}

/** The tables as `/_tables` has them. */
export async function servedTables() {
  const answer = await fetch("/_tables");
  if (!answer.ok) throw new Error(`/_tables: ${answer.status}`);
  return answer.json();
}

/** A number as the server wrote it: JavaScript would lose digits of long integers. */
export class Digits {
  constructor(text) {
    this.text = text;
  }
}

/** JSON with its numbers as they stand in the text. */
function parsed(text) {
  return JSON.parse(text, (_, value, context) =>
    typeof value === "number" ? new Digits(context?.source ?? String(value)) : value);
}

/** A value of `parsed` as JSON again. */
export function written(value, indent = "", step = "") {
  if (value instanceof Digits) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const deeper = indent + step;
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const parts = Array.isArray(value)
    ? value.map((item) => written(item, deeper, step))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}:${step && " "}${written(item, deeper, step)}`);
  if (parts.length === 0) return open + close;
  return step ? `${open}\n${deeper}${parts.join(`,\n${deeper}`)}\n${indent}${close}` : open + parts.join(",") + close;
}

export const plain = (value) => (value instanceof Digits ? Number(value.text) : value);

/** A refusal of the server, or why there is no answer. */
class Refusal extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.title);
    this.problem = problem;
  }
}

/** The text of an answer, if it is not too long. */
async function textOf(answer) {
  const [decoder, reader] = [new TextDecoder(), answer.body.getReader()];
  let [text, length] = ["", 0];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { text: text + decoder.decode(), length };
    length += value.length;
    if (length > MOST_BYTES) {
      await reader.cancel();
      throw new Refusal({ title: `The response is longer than ${bytes(MOST_BYTES)}. Use limit= or select= to get less.` });
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** Asks, and says what came and how long it took. */
export async function ask(path, options) {
  const began = performance.now();
  const answer = await fetch(path, { ...options, headers: { accept: "application/json", ...options?.headers }, cache: "no-store" });
  const waited = performance.now() - began;
  const { text, length } = await textOf(answer);
  const took = performance.now() - began;
  if (!answer.ok) {
    let problem = { title: `${answer.status} ${answer.statusText}` };
    try {
      problem = JSON.parse(text);
    } catch { /* the status says it */ }
    throw new Refusal(problem);
  }
  const next = /<([^>]*)>;\s*rel="next"/.exec(answer.headers.get("link") ?? "")?.[1];
  return { value: parsed(text), next, length, waited, took };
}

/** When the record at a path ends, by the clock of this page; without a tag, there is none any more. */
export async function endOf(path) {
  const answer = await fetch(path, { method: "HEAD", cache: "no-store" });
  if (!answer.ok && answer.status !== 404) throw new Error(`${answer.status}`);
  const sunset = answer.headers.get("sunset");
  const left = Date.parse(sunset) - Date.parse(answer.headers.get("date")); // Both by the clock of the server.
  return { ends: sunset === null ? undefined : performance.now() + left, etag: answer.ok ? answer.headers.get("etag") : undefined };
}
