// Elements, and numbers as people read them.

export const byId = (id) => document.getElementById(id);
export const number = new Intl.NumberFormat("en");
export const counted = (count, one, many = `${one}s`) => `${number.format(count)} ${count === 1 ? one : many}`;
export const bytes = (count) => (count < 1024 ? `${count} B` : count < 1 << 20 ? `${(count / 1024).toFixed(1)} KiB` : `${(count / (1 << 20)).toFixed(1)} MiB`);
export const milliseconds = (time) => `${time < 10 ? time.toFixed(2) : time.toFixed(0)} ms`;

/** An element with attributes and children; texts become text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== undefined));
  return made;
}
