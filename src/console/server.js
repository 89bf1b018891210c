// What the pages know of the server: its address, whether it is well, its tables, and its responses.

import { bytes } from "./elements.js";

/** Longer responses are not read: they help nobody and fill the memory of the page. */
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
  const response = await fetch("/_tables");
  if (!response.ok) throw new Error(`/_tables: ${response.status}`);
  return response.json();
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

/** A refusal of the server, or why there is no response. */
class Refusal extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.title);
    this.problem = problem;
  }
}

/** The text of a response, if it is not too long. */
async function textOf(response) {
  const [decoder, reader] = [new TextDecoder(), response.body.getReader()];
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
  const response = await fetch(path, { ...options, headers: { accept: "application/json", ...options?.headers }, cache: "no-store" });
  const waited = performance.now() - began;
  const { text, length } = await textOf(response);
  const took = performance.now() - began;
  if (!response.ok) {
    let problem = { title: `${response.status} ${response.statusText}` };
    try {
      problem = JSON.parse(text);
    } catch { /* the status says it */ }
    throw new Refusal(problem);
  }
  const next = /<([^>]*)>;\s*rel="next"/.exec(response.headers.get("link") ?? "")?.[1];
  return { value: parsed(text), next, length, waited, took };
}

/** When the record at a path ends, by the clock of this page; without a tag, there is none any more. */
export async function endOf(path) {
  const response = await fetch(path, { method: "HEAD", cache: "no-store" });
  if (!response.ok && response.status !== 404) throw new Error(`${response.status}`);
  const sunset = response.headers.get("sunset");
  const left = Date.parse(sunset) - Date.parse(response.headers.get("date")); // Both by the clock of the server.
  return { ends: sunset === null ? undefined : performance.now() + left, etag: response.ok ? response.headers.get("etag") : undefined };
}
