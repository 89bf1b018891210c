// Streams: their partitions, consumer groups and latest events, and what requests do with them. It only reads, again every two seconds
// while somebody looks. The stream in view is the address: `#Click`.

import { byId, bytes, counted, element, number } from "./elements.js";
import { Digits, ask, plain, showServer, written } from "./server.js";

const AGAIN_MS = 2000;
/** So many of the latest events of a partition are shown. */
const LATEST = 20;

const KINDS = { appends: "single appends", bulks: "bulk appends", reads: "reads" };

/** A table of texts and elements; numbers are aligned to the right. What has no value is a dash. */
function table(heads, rows, empty) {
  if (rows.length === 0) return element("p", { class: "note" }, empty);
  const shown = (value) => (typeof value === "number" ? number.format(value) : value ?? "–");
  const cell = (value) => element("td", { class: typeof value === "number" && "number" }, shown(value));
  const head = heads.map((name, column) =>
    element("th", { scope: "col", class: typeof rows[0][column] === "number" && "number" }, name));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell)))));
}

const numbers = (of, ...names) => names.map((name) => plain(of[name]));
const rate = (value) => Number(plain(value).toPrecision(3));
const time = (microseconds) => (microseconds === null ? undefined : rate(microseconds));
const high = (partition) => plain(partition.highWatermark);
const low = (partition) => plain(partition.lowWatermark);
const kept = (stream) => stream.partitions.reduce((sum, partition) => sum + high(partition) - low(partition), 0);

function showActivity(stream) {
  const rows = Object.entries(KINDS).map(([kind, name]) => {
    const { last10s, microseconds, refused } = stream[kind];
    const refusals = Object.entries(refused).map(([problem, count]) => `${problem} ${number.format(plain(count))}`);
    return [name, ...numbers(stream[kind], "requests", "events", "duplicates"), refusals.join(", ") || undefined,
      rate(last10s.requestsPerSecond), rate(last10s.eventsPerSecond), bytes(plain(last10s.bytesPerSecond)),
      time(microseconds.p50), time(microseconds.p95), time(microseconds.p99)];
  });
  const heads = ["", "requests", "events", "duplicates", "refused", "requests/s", "events/s", "bytes/s", "p50 µs", "p95 µs", "p99 µs"];
  byId("activity").replaceChildren(table(heads, rows));
}

function show(stream) {
  byId("name").textContent = stream.name;
  const size = stream.partitions.reduce((sum, partition) => sum + plain(partition.bytes), 0);
  byId("facts").replaceChildren(element("span", {}, counted(stream.partitions.length, "partition")),
    element("span", {}, `${counted(kept(stream), "event")} kept`), element("span", {}, bytes(size)));
  showActivity(stream);
  const partitions = stream.partitions.map((partition) =>
    [...numbers(partition, "partition", "lowWatermark", "highWatermark"), high(partition) - low(partition), bytes(plain(partition.bytes))]);
  byId("partitions").replaceChildren(table(["partition", "low watermark", "high watermark", "events", "bytes"], partitions));
  const groups = stream.groups.flatMap(({ group, offsets }) =>
    offsets.map((offset) => [group, ...numbers(offset, "partition", "offset", "lag")]));
  byId("groups").replaceChildren(table(["group", "partition", "offset", "lag"], groups, "No group has committed offsets."));
  const choice = byId("partition");
  if (choice.options.length !== stream.partitions.length) {
    choice.replaceChildren(...stream.partitions.map((_, partition) => element("option", {}, partition)));
  }
}

async function showEvents(stream) {
  const partition = stream.partitions[byId("partition").selectedIndex];
  const from = Math.max(low(partition), high(partition) - LATEST);
  const path = `/${encodeURIComponent(stream.name)}?partition=${plain(partition.partition)}&from=${from}&limit=${LATEST}`;
  const { value } = await ask(path);
  const rows = value.records.reverse().map(({ offset, ingestedMs, key, payload }) => {
    const text = payload instanceof Digits ? payload.text : written(payload);
    return [plain(offset), new Date(plain(ingestedMs)).toISOString(), key, element("code", { title: text.slice(0, 2000) }, text.slice(0, 200))];
  });
  byId("events").replaceChildren(table(["offset", "ingested", "key", "payload"], rows, "No events are kept."));
}

function showNote(text) {
  byId("none").hidden = !text;
  byId("none").textContent = text;
}

/** Asks once, and shows the stream that the address names, or the first. */
async function look() {
  const { value } = await ask("/_stats");
  const streams = value.streams;
  const wanted = decodeURIComponent(location.hash.slice(1));
  const stream = wanted ? streams.find(({ name }) => name === wanted) : streams[0];
  byId("streams").replaceChildren(...streams.map((each) => element("li", {},
    element("a", { href: `#${encodeURIComponent(each.name)}`, "aria-current": each === stream && "true" },
      element("span", {}, each.name), element("span", { class: "count" }, number.format(kept(each)))))));
  byId("stream").hidden = !stream;
  document.title = stream ? `${stream.name} · Strata console` : "Strata console: streams";
  showNote(stream ? "" : wanted ? `There is no stream ${wanted}.` : "No streams are exported. Add type NAME @stream @export to the schema.");
  if (!stream) return;
  show(stream);
  await showEvents(stream);
}

/** Looks now; what is shown stays where there is no response. */
async function refresh() {
  try {
    await look();
  } catch (error) {
    showNote(`The streams cannot be loaded: ${error.message}`);
  }
}

async function follow() {
  for (;;) {
    await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
    const isPaused = byId("pause").getAttribute("aria-pressed") === "true";
    if (!document.hidden && !isPaused) await refresh();
  }
}

showServer();
addEventListener("hashchange", refresh);
byId("partition").addEventListener("change", refresh);
byId("pause").addEventListener("click", () => {
  const pausing = byId("pause").getAttribute("aria-pressed") !== "true";
  byId("pause").setAttribute("aria-pressed", String(pausing));
  byId("pause").textContent = pausing ? "Go on" : "Pause";
});
await refresh();
follow();
