// A refusal of the server, shown at its place in the text that it is about.

import { element } from "./elements.js";

const encoder = new TextEncoder();
const bytesOf = (character) => encoder.encode(character).length;

/** Shows an error in a place of the page, and marks it in the box with the text; without an error, hides it. `sent` says how long a character is. */
export function showProblem(place, box, error, sent = bytesOf) {
  place.hidden = !error;
  box.setAttribute("aria-invalid", String(Boolean(error)));
  if (!error) return;
  const { title, status, detail, position } = error.problem ?? { detail: "The server does not respond", title: error.message };
  // The title of a 400 says only that the request is not valid.
  place.replaceChildren(element("strong", {}, detail ?? title), detail && status !== 400 ? element("p", {}, title) : "");
  if (position === undefined) return;
  const [text, at] = [box.value, characterAt(box.value, position, sent)];
  const wrong = /^[\p{L}\p{N}_.]+/u.exec(text.slice(at))?.[0] ?? String.fromCodePoint(text.codePointAt(at) ?? 0x2423);
  place.append(element("pre", { tabindex: 0 }, text.slice(0, at), element("mark", { title: `byte ${position}` }, wrong), text.slice(at + wrong.length)));
  box.setSelectionRange(at, at + wrong.length);
}

/** The place in a text of a byte of it as it was sent. */
function characterAt(text, position, sent) {
  let [at, passed] = [0, 0];
  for (const character of text) {
    passed += sent(character);
    if (passed > position) break;
    at += character.length;
  }
  return at;
}
