// What both pages know of the server: its address, whether it is well, and its tables.

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
