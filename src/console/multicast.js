// The box that sends a message to the records that match, and the receipt: who has it, and who was not reached.

import { byId, counted, element, number } from "./elements.js";
import { showProblem } from "./problem.js";
import { ask, plain } from "./server.js";

/** The clauses of a query: a message goes to all that satisfy its conditions. */
const CLAUSE = /^(select|sort|limit|offset|after|pagination|explain)=(?!=|[a-z]{2}=|~=)/;
/** More who were not reached are not drawn. */
const MOST_ROWS = 500;

const STATES = {
  delivered: "The connection of at least one subscriber has taken it",
  absent: "Nobody listened; who resumes gets it",
  pending: "Somebody listened, and has not taken it",
  failed: "A transport did not take it",
};

let table; // The table in view.

/** A character as it stands in a URL: only what cannot stand there is encoded, so the server reads the same text. A browser encodes `'`. */
const inUrl = (character) =>
  /[!$&()*+,\-./0-9:;=?@A-Z[\]_a-z|~%]/.test(character) ? character : encodeURIComponent(character).replace("'", "%27");

/** The conditions of a query, without its clauses: what stands between `&` outside of parentheses. */
export function conditionsOf(query) {
  const parts = [""];
  let depth = 0;
  for (const sign of query) {
    depth += "([{".includes(sign) ? 1 : ")]}".includes(sign) ? -1 : 0;
    if (sign === "&" && depth === 0) parts.push("");
    else parts[parts.length - 1] += sign;
  }
  return parts.filter((part) => part && !CLAUSE.test(part)).join("&");
}

function label() {
  byId("send").textContent = byId("targets").value.trim() ? "Send" : "Send to all";
}

/** Shows the box for a table that takes messages, with the conditions of the query in view. */
export function showMulticast(shown, query) {
  const isOther = shown !== table;
  table = shown;
  byId("multicast").hidden = !shown?.multicast;
  if (!shown?.multicast) return;
  byId("targets").value = conditionsOf(query);
  label();
  if (!isOther) return;
  showProblem(byId("multicast-problem"), byId("targets"));
  byId("receipt").hidden = true;
}

function showReceipt(sent, { value, took }) {
  const count = (name) => plain(value[name]);
  const facts = [`to ${counted(count("targets"), "record")}`, ...Object.entries(STATES).map(([name, title]) =>
    element("span", { title, class: name !== "delivered" && count(name) > 0 && "missed" }, `${number.format(count(name))} ${name}`)),
  `${took.toFixed(0)} ms`];
  byId("receipt-facts").replaceChildren(...facts.map((fact) => (typeof fact === "string" ? element("span", {}, fact) : fact)));
  byId("receipt-id").textContent = value.id;
  const rows = value.undelivered.slice(0, MOST_ROWS).map(({ id, state }) =>
    element("tr", {}, element("td", {}, id), element("td", { title: STATES[state] }, state)));
  const heads = [sent.primary_key, "state"].map((name) => element("th", { scope: "col" }, name));
  const more = value.undelivered.length - rows.length;
  byId("undelivered").hidden = rows.length === 0;
  byId("undelivered").replaceChildren(
    element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows)),
    more > 0 ? element("p", { class: "note" }, `and ${number.format(more)} more`) : "");
  byId("receipt").hidden = false;
}

async function send() {
  const [to, conditions, button] = [table, byId("targets").value.trim(), byId("send")];
  byId("targets").value = conditions;
  const text = [...conditions.toWellFormed()].map(inUrl).join("");
  const headers = { "content-type": "application/json", prefer: `return=representation, wait=${byId("wait").value}` };
  button.disabled = true;
  byId("receipt").setAttribute("aria-busy", "true");
  try {
    const path = `/${encodeURIComponent(to.name)}/multicast?${text}`;
    const response = await ask(path, { method: "POST", body: byId("message").value, headers });
    if (to !== table) return;
    showProblem(byId("multicast-problem"), byId("targets"));
    showReceipt(to, response);
  } catch (error) {
    if (to !== table) return;
    byId("receipt").hidden = true;
    showProblem(byId("multicast-problem"), byId("targets"), error, (character) => inUrl(character).length);
  } finally {
    button.disabled = false;
    byId("receipt").removeAttribute("aria-busy");
  }
}

/** Enter in the conditions goes on to the message, where Ctrl+Enter sends. */
export function startMulticast(fit) {
  byId("multicast").addEventListener("submit", (event) => { event.preventDefault(); send(); });
  byId("targets").addEventListener("input", () => { label(); fit(byId("targets")); });
  byId("targets").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); byId("message").focus(); }
  });
  byId("message").addEventListener("input", () => fit(byId("message")));
  byId("message").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.ctrlKey && !event.isComposing && !byId("send").disabled) { event.preventDefault(); send(); }
  });
}
