// The console: tables, and queries of them with their rows, plan and time. It changes no record, and sends messages to those that take them.
//
// What is shown is made as elements with text, never as markup, so no record can be anything but text. The state is the
// address: `#Product?category==light`.

import { byId, bytes, counted, element, milliseconds, number } from "./elements.js";
import { lifeOf } from "./lives.js";
import { showMulticast, startMulticast } from "./multicast.js";
import { showProblem } from "./problem.js";
import { Digits, ask, plain, servedTables, showServer, written } from "./server.js";

const FIRST_QUERY = "limit=25";
/** More rows are not drawn. */
const MOST_ROWS = 500;
/** A table that takes longer to count is not counted: the server has other work. */
const COUNT_MS = 2000;
/** The server counts no more entries for a plan. */
const MOST_COUNTED = 256;

const pathOf = (table) => `/${encodeURIComponent(table.name)}`;

/** A query is sent as a body, so that nothing in it has to be encoded for a URL, and positions are those of the text. */
const askQuery = (table, query, signal) =>
  ask(`${pathOf(table)}/query`, { method: "POST", body: query, headers: { "content-type": "text/plain" }, signal });

// ---- Tables ----------------------------------------------------------------------------------------------------------------

let tables = [];

function showTables() {
  byId("tables").replaceChildren(...tables.map((table) => element("li", {},
    element("a", { href: `#${encodeURIComponent(table.name)}`, "data-table": table.name },
      element("span", {}, table.name),
      element("span", { class: "count", "data-count": table.name }, "…")))));
}

const countOf = (table) => document.querySelector(`[data-count="${CSS.escape(table.name)}"]`);

/** Counts a table; gives up after a while, and the server with it. */
async function count(table) {
  const place = countOf(table);
  try {
    const { value } = await ask(`${pathOf(table)}?pagination=true&limit=0`, { signal: AbortSignal.timeout(COUNT_MS) });
    table.count = plain(value.total);
    place.textContent = number.format(table.count);
    place.title = counted(table.count, "record");
  } catch (error) {
    place.textContent = error.name === "TimeoutError" ? "many" : "?";
    place.title = error.name === "TimeoutError" ? "Counting took longer than two seconds" : error.message;
  }
}

async function countAll() {
  for (const table of tables) await count(table); // One after the other, for the same reason.
}

const indexedBy = (index) => index.attributes ?? [index.attribute];

function indexesOf(table, attribute) {
  const words = table.indexes.filter((index) => indexedBy(index).includes(attribute.name)).map((index) => {
    const along = indexedBy(index).length > 1 ? ` (${indexedBy(index).join(", ")})` : "";
    const state = index.state && index.state !== "ready" ? `, ${index.state}` : "";
    return element("span", { class: `chip ${index.type}` }, `${index.type}${along}${state}`);
  });
  return attribute.name === table.primary_key ? [element("span", { class: "chip key" }, "primary key"), ...words] : words;
}

function showAttributes(table) {
  const inserting = (name) => element("button", { type: "button", class: "insert", onclick: () => insert(name) }, name);
  const own = table.attributes.map((attribute) => element("tr", {},
    element("td", {}, inserting(attribute.name)),
    element("td", {}, element("code", {}, attribute.type)),
    element("td", {}, ...indexesOf(table, attribute))));
  const related = table.relationships.map((relationship) => element("tr", {},
    element("td", {}, inserting(relationship.name)),
    element("td", {}, element("a", { href: `#${encodeURIComponent(relationship.table)}` },
      element("code", {}, relationship.many ? `[${relationship.table}]` : relationship.table))),
    element("td", {}, element("span", { class: "muted" },
      `by ${relationship.many ? `${relationship.table}.` : ""}${relationship.key}`))));
  byId("attributes").replaceChildren(...own, ...related);
}

/** Puts a name into the query where the cursor is. */
function insert(name) {
  const query = byId("query");
  query.setRangeText(name, query.selectionStart, query.selectionEnd, "end");
  query.focus();
  fit(query);
}

// ---- The query -------------------------------------------------------------------------------------------------------------

let shown; // The table in view.
let running; // What aborts the query that runs.

/** A text box as high as its text, up to eight lines. */
function fit(query) {
  query.rows = 1;
  query.classList.remove("long");
  const { lineHeight, paddingTop, paddingBottom } = getComputedStyle(query);
  const lines = Math.round((query.scrollHeight - parseFloat(paddingTop) - parseFloat(paddingBottom)) / parseFloat(lineHeight));
  query.rows = Math.min(8, Math.max(1, lines));
  query.classList.toggle("long", lines > 8);
}

/** Runs the query in the box; or asks for a page of it, by its path. */
async function run(page) {
  running?.abort();
  const [table, { signal }] = [shown, (running = new AbortController())];
  const query = byId("query").value;
  byId("result").setAttribute("aria-busy", "true");
  try {
    const response = await (page ? ask(page, { signal }) : askQuery(table, query, signal));
    showRefusal();
    showResult(table, response, page);
    if (!page) await explain(table, query, signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    showRefusal(error);
  }
  byId("result").removeAttribute("aria-busy");
}

/** Asks for the plan after the rows, so that it takes none of their time. */
async function explain(table, query, signal) {
  try {
    const { value } = await askQuery(table, query ? `${query}&explain=true` : "explain=true", signal);
    showPlan(value);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    byId("plan").hidden = true; // It was asked for in the query, and is the result.
  }
}

function showRefusal(error) {
  showProblem(byId("problem"), byId("query"), error);
  if (error) byId("result").hidden = byId("plan").hidden = true;
}

// ---- The result ------------------------------------------------------------------------------------------------------------

function showResult(table, { value, next, length, waited, took }, page) {
  const list = Array.isArray(value) ? value : value.data;
  const words = [];
  if (list) words.push(counted(list.length, "row"));
  if (!Array.isArray(value) && list) words.push(`of ${number.format(plain(value.total))}`);
  if (list?.length > MOST_ROWS) words.push(`(first ${MOST_ROWS} shown)`);
  const time = element("span", { title: `Measured by the browser, including the round trip; first byte after ${milliseconds(waited)}` }, milliseconds(took));
  byId("status").replaceChildren(element("span", {}, words.join(" ") || "plan"), time, element("span", {}, bytes(length)));
  byId("first").hidden = !page;
  byId("rows").replaceChildren(list ? rows(table, list.slice(0, MOST_ROWS)) : element("pre", {}, written(value, "", "  ")));
  byId("next").hidden = !next || list?.length === 0;
  byId("next").onclick = () => run(next);
  byId("result").hidden = false;
}

function rows(table, list) {
  if (list.length === 0) return element("p", { class: "note" }, asksForAll() ? howToCreate(table) : "No records match the query.");
  const columns = columnsOf(table, list).map((column) =>
    ({ ...column, isNumber: list.some((record) => column.of(record) instanceof Digits) }));
  // Only who has an id can be asked for its life.
  const lives = table.expires && list.every((record) => typeof record[table.primary_key] === "string");
  const life = (record) => lifeOf(`${pathOf(table)}/${encodeURIComponent(record[table.primary_key])}`);
  const head = element("tr", {}, element("th", { scope: "col" }, element("span", { class: "away" }, "Record")),
    lives ? element("th", { scope: "col", class: "number" }, "ends in") : undefined,
    ...columns.map((column) => element("th", { scope: "col", class: column.isNumber && "number" }, column.name)));
  const body = list.map((record, position) => element("tr", {},
    element("td", { class: "opens" }, element("button", { type: "button", "aria-label": `Show record ${position + 1}`, onclick: () => open(table, record) }, position + 1)),
    lives ? life(record) : undefined,
    ...columns.map((column) => cell(table, column, column.of(record)))));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
}

/** What the records have, as columns; of one related record each attribute is a column. */
function columnsOf(table, list) {
  const toOne = new Set(table.relationships.filter(({ many }) => !many).map(({ name }) => name));
  const keys = (values) => [...new Set(values.flatMap((value) => Object.keys(value ?? {})))];
  return keys(list).flatMap((name) => {
    const inner = toOne.has(name) ? keys(list.map((record) => record[name])) : [];
    if (inner.length === 0) return { name, of: (record) => record[name] };
    return inner.map((key) => ({ name: `${name}.${key}`, of: (record) => (record[name] ? record[name][key] : null) }));
  });
}

function cell(table, { name: column, isNumber }, value) {
  if (value === undefined) return element("td");
  if (value === null) return element("td", { class: isNumber ? "null number" : "null" }, "null");
  if (value instanceof Digits) return element("td", { class: "number" }, value.text);
  if (typeof value === "object") return element("td", { class: "json", title: written(value, "", "  ").slice(0, 2000) }, written(value).slice(0, 200));
  const text = String(value);
  const to = table.relationships.find(({ many, key }) => !many && key === column);
  const blob = table.attributes.find(({ name, type }) => name === column && type === "Blob");
  if (blob) return element("td", { class: "blob" }, pictureAt(text, blob));
  const other = to && tables.find(({ name }) => name === to.table);
  const inside = other ? element("a", { href: addressOf(other.name, `${other.primary_key}===${inQuery(text)}`) }, text) : text.slice(0, 200);
  return element("td", { title: text.length > 40 && text.slice(0, 2000) }, inside);
}

/** A link to a blob; where that is a picture, with a thumbnail of it. */
function pictureAt(path, { thumb_sizes: sizes = ["0x40"] }) {
  const side = (size) => Math.max(...size.match(/\d+/g));
  const smallest = sizes.reduce((one, other) => (side(other) < side(one) ? other : one));
  const picture = element("img", { src: `${path}?thumb=${smallest}`, alt: "", loading: "lazy", onerror: () => picture.remove() });
  return element("a", { href: path }, picture, path);
}

function open(table, record) {
  const id = record[table.primary_key];
  byId("record-title").textContent = typeof id === "string" ? `${table.name} ${id}` : table.name;
  byId("record-json").textContent = written(record, "", "  ");
  byId("record").showModal();
}

/** Whether the query that was run has no condition and is of the first page: no row means that there is no record. */
const asksForAll = () => byId("query").value === FIRST_QUERY && byId("first").hidden;

/** Of an empty table: a command that fills in what is required. */
function howToCreate(table) {
  const samples = { Int: 1, Float: 1.5, Boolean: true, Date: "2030-01-01", Any: {} };
  const required = table.attributes.filter((attribute) => attribute.type.endsWith("!") && attribute.name !== table.primary_key);
  const sample = (type) => (type.startsWith("[") ? [] : samples[type.replace("!", "")] ?? "text");
  const body = Object.fromEntries(required.map((attribute) => [attribute.name, sample(attribute.type)]));
  const command = `curl ${location.origin}${pathOf(table)} --json ${quoted(JSON.stringify(body))}`;
  return element("span", {}, "The table is empty. To create a record: ", element("code", {}, command));
}

// ---- The plan --------------------------------------------------------------------------------------------------------------

const ACCESS = { id: "Look up by id", table: "Full table scan" };

function step({ access, index, filter }) {
  const words = index
    ? ["Index ", element("code", {}, (indexedBy(index)).join(", ")), ` (${index.type}), ${counted(index.ranges, "range")}`]
    : [ACCESS[access] ?? access];
  const asked = filter.length > 0
    ? element("p", {}, "filter: ", ...filter.flatMap((condition, at) => [at ? " and " : "", element("code", {}, condition)]))
    : undefined;
  // A scan without a filter finds what it reads.
  return element("li", { class: access === "table" && asked && "scan" }, element("p", {}, ...words), asked);
}

/** How many records are examined: the server counts entries up to a limit, several of them may be of one record, and a list may end sooner. */
function examined({ records, exact }, most) {
  const count = plain(records);
  if (!exact && count >= MOST_COUNTED) return `${number.format(count)} or more entries to examine`;
  return `${exact && count <= most ? "" : "at most "}${counted(count, "record")} examined`;
}

function showPlan(plan) {
  const of = (steps) => steps.map(({ index, ...rest }) => step({ ...rest, index: index && { ...index, ranges: plain(index.ranges) } }));
  const steps = of(plan.steps);
  byId("steps").replaceChildren(...(steps.length ? steps : [element("li", {}, "No record can match the query")]));
  const inMemory = plan.sorted === "in memory";
  const most = inMemory || plan.limit === undefined ? Infinity : plain(plan.limit) + plain(plan.offset);
  const facts = [examined(plan.estimate, most)];
  if (plain(plan.estimate.records) > most) facts.push(`limit ${number.format(plain(plan.limit))}`);
  if (plan.sorted) facts.push(inMemory ? "sorted in memory" : "read in sorted order");
  if (plan.otherwise) {
    const others = plan.otherwise.steps.map(({ index }) => (index ? indexedBy(index).join(", ") : "id"));
    facts.push(`may switch to ${others.length === 1 ? "another index" : "other indexes"} (${others.join("; ")}): ${examined(plan.otherwise.estimate, Infinity)}`);
  }
  byId("plan-facts").replaceChildren(...facts.map((fact) => element("span", {}, fact)));
  byId("plan-json").textContent = written(plan, "", "  ");
  byId("plan").hidden = false;
}

// ---- Addresses -------------------------------------------------------------------------------------------------------------

const addressOf = (table, query) => `#${encodeURIComponent(table)}?${encodeURIComponent(query)}`;

/** A text as a value in a query. */
const inQuery = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`);

/** A text for a shell, in quotation marks. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** A part of the address; as it stands, if somebody has typed what is no encoding. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Shows a text in place of a table. */
function showNote(text) {
  byId("none").hidden = !text;
  byId("none").textContent = text;
  byId("table").hidden = Boolean(text);
}

/** Shows what the address names: a table and a query; or the first table, if it names none. */
function follow() {
  const [name, query] = location.hash.slice(1).split("?", 2).map(decoded);
  const table = name ? tables.find((known) => known.name === name) : tables[0];
  shown = table;
  for (const link of byId("tables").querySelectorAll("a")) {
    if (link.dataset.table === table?.name) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  document.title = table ? `${table.name} · Strata console` : "Strata console";
  showNote(table ? "" : `There is no table ${name}.`);
  showMulticast(table, query ?? FIRST_QUERY);
  if (!table) {
    running?.abort();
    return;
  }
  byId("name").textContent = table.name;
  byId("facts").replaceChildren(
    element("span", { title: table.durability === "strong" ? "A write is on the storage device before it is acknowledged" : "A write is with the operating system before it is acknowledged" }, `durability: ${table.durability}`),
    element("span", {}, counted(table.attributes.length, "attribute")),
    element("span", {}, counted(table.indexes.length, "index", "indexes")));
  showAttributes(table);
  byId("query").value = query ?? FIRST_QUERY;
  fit(byId("query"));
  fit(byId("targets"));
  fit(byId("message"));
  run();
}

/** Runs what is typed, and puts it into the address. */
function submit() {
  const query = byId("query");
  query.value = query.value.replace(/\s*[\r\n]+\s*/g, ""); // Lines mean nothing in a query.
  fit(query);
  const address = addressOf(shown.name, query.value);
  if (location.hash === address) run();
  else location.hash = address; // `follow` runs it.
}

function copy() {
  const command = `curl ${location.origin}${pathOf(shown)}/query -H 'content-type: text/plain' --data-raw ${quoted(byId("query").value)}`;
  navigator.clipboard?.writeText(command).then(() => { byId("copy").textContent = "Copied"; });
  setTimeout(() => { byId("copy").textContent = "Copy as curl"; }, 1500);
}

async function start() {
  showServer();
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); submit(); });
  byId("query").addEventListener("input", () => fit(byId("query")));
  addEventListener("resize", () => ["query", "targets", "message"].forEach((name) => fit(byId(name))));
  startMulticast(fit);
  byId("query").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); submit(); }
  });
  // Not by the address, which names the table.
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); byId("query").focus(); });
  byId("first").addEventListener("click", () => run());
  byId("copy").addEventListener("click", copy);
  try {
    tables = await servedTables();
  } catch (error) {
    showNote(`The tables cannot be loaded: ${error.message}`);
    return;
  }
  if (tables.length === 0) {
    showNote("No tables are exported. Add @export to a table in the schema.");
    return;
  }
  showTables();
  addEventListener("hashchange", follow);
  follow();
  await countAll();
}

start();
