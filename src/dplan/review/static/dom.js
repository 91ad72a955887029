// Elements are made from text, never from HTML, so nothing in a table can become part of the page.
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function svg(tag, properties = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// The name of a column, which may be broken where its words are.
export const named = (name) => el("bdi", {}, ...name.split(/(?<=[_./-])/).flatMap((part) => [part, el("wbr")]));

export const at = (id) => document.getElementById(id);
export const number = (value) => Number(value).toLocaleString("en");
export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;
