// The remaining life of records that end, counted down. A list does not say it: each record in view is asked for its head, again every few
// seconds, since a registration may be renewed at any time, and that changes nothing else.

import { element } from "./elements.js";
import { endOf } from "./server.js";

const AGAIN_MS = 5000;

const PARTS = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]];

/** A number of seconds in its two greatest parts. */
function duration(seconds) {
  const first = PARTS.findIndex(([, length]) => seconds >= length);
  if (first < 0) return "0 s";
  let rest = seconds;
  const words = PARTS.slice(first, first + 2).map(([name, length]) => {
    const count = Math.floor(rest / length);
    rest -= count * length;
    return count > 0 || name === "s" ? `${count} ${name}` : "";
  });
  return words.filter(Boolean).join(" ");
}

const lives = new WeakMap(); // By cell.
const inView = new Set();

const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) inView.delete(target);
    else {
      inView.add(target);
      look(target);
    }
  }
});

async function look(cell) {
  const life = lives.get(cell);
  if (life.isOver || performance.now() < life.next) return;
  life.next = performance.now() + AGAIN_MS;
  try {
    const { ends, etag } = await endOf(life.path);
    // The record as it was, and a later end.
    life.isRenewed ||= etag === life.etag && ends > life.ends + 1500;
    Object.assign(life, { ends, etag, isOver: etag === undefined, isKnown: true });
  } catch { /* what was known stays */ }
  show(cell);
}

function show(cell) {
  const { ends, isOver, isKnown, isRenewed } = lives.get(cell);
  if (!isKnown) return;
  const left = Math.round((ends - performance.now()) / 1000);
  const words = isOver ? "ended" : ends === undefined ? "no end" : left > 0 ? duration(left) : "ends now";
  if (cell.firstChild?.data !== words) cell.firstChild ? (cell.firstChild.data = words) : cell.append(words);
  cell.classList.toggle("null", isOver || ends === undefined);
  if (isRenewed && !isOver && cell.children.length === 0) {
    const title = "It was renewed while you watched, by a subscriber that holds it or by a write that changed nothing";
    cell.append(" ", element("span", { class: "chip", title }, "renewed"));
  }
}

setInterval(() => {
  if (document.hidden) return;
  for (const cell of inView) {
    if (!cell.isConnected) inView.delete(cell);
    else {
      show(cell);
      look(cell);
    }
  }
}, 1000);

/** A cell with the remaining life of the record at a path. */
export function lifeOf(path) {
  const cell = element("td", { class: "number life" }, "…");
  lives.set(cell, { path, next: 0, ends: undefined, etag: undefined, isKnown: false, isOver: false, isRenewed: false });
  observer.observe(cell);
  return cell;
}
