// What is on the screen. A verdict is about the row that was drawn when the key was pressed, and about no other.
import { get } from "./api.js";
import { at, el } from "./dom.js";
import * as row from "./row.js";

export const READING = 200; // milliseconds: a key that comes sooner was meant for what was on the screen before
const FITTING = 24; // characters in the field of the filter
const SLOW = 250; // milliseconds before the page says what it is waiting for

export const page = {
  state: null, // what the server said last
  queue: [], start: 0, size: 0, left: 0, odd: [], decided: 0, filter: "", kind: "", round: null,
  shown: null, // the row on the screen, once it is drawn
  opening: null, // the row that will be on the screen
  saving: "", // what is being saved; until it is, nothing else happens
  walked: false, // whether the reviewer went to the row, instead of taking rows from the top
  allColumns: false,
  go: null, // what opens a row
};
let since = Infinity; // when what is on the screen last changed
let settling = 0;
const details = new Map(); // of rows, as the current round explains them

export const forget = () => details.clear();

function settle() { // the row takes a verdict once there was time to see it
  clearTimeout(settling);
  settling = setTimeout(() => at("row").setAttribute("aria-busy", String(!page.shown || Boolean(page.opening || page.saving))), READING);
}

const unsettle = () => { clearTimeout(settling); at("row").setAttribute("aria-busy", "true"); };
const painted = () => Promise.race([ // in a hidden window, nothing is painted
  new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))), new Promise((done) => setTimeout(done, 100))]);

// Return the row that an event decides about, or null if the reader cannot have seen it yet.
export function decided(event) {
  if (page.saving || page.opening || !page.shown) return null;
  return event.timeStamp >= since + READING ? page.shown : null;
}

export async function open(entry) {
  page.opening = entry;
  unsettle();
  say("");
  const slow = setTimeout(() => cover(entry, "Explaining this row…"), SLOW);
  let found;
  try {
    if (!details.has(entry.row)) details.set(entry.row, await get(`/api/row/${entry.row}`));
    found = details.get(entry.row);
  } catch (problem) {
    if (page.opening === entry) {
      page.opening = null;
      cover(entry, "This row could not be loaded.");
    }
    throw problem;
  } finally {
    clearTimeout(slow);
  }
  if (page.opening !== entry) return; // the reader has gone on
  const shown = { ...entry, ...found.entry, digest: found.digest, round: found.round };
  at("row-head").replaceChildren(...row.head(shown));
  at("row-body").replaceChildren(...row.body(found, page, page.go));
  const examples = found.values.map(({ name, value }) => (/\s/.test(name + value) ? `"${name}=${value}"` : `${name}=${value}`));
  at("filter").placeholder = examples.find((one) => one.length <= FITTING) || examples[0];
  window.scrollTo(0, 0);
  await painted();
  if (page.opening !== entry) return;
  Object.assign(page, { opening: null, shown });
  since = performance.now();
  settle();
}

function cover(entry, text) {
  page.shown = null;
  at("row-head").replaceChildren(...row.head(entry));
  at("row-body").replaceChildren(el("section", {}, el("p", { class: "note" }, text)));
}

// Say on the row that somebody has decided it; it stays, because somebody reads it.
export function note(judged) {
  const before = page.shown.judged;
  if ((before && before.n) === (judged && judged.n)) return;
  page.shown = { ...page.shown, judged };
  at("row-head").replaceChildren(...row.head(page.shown));
  since = performance.now();
  unsettle();
  settle();
}

export function nothing(heading, text) {
  Object.assign(page, { opening: null, shown: null });
  at("row").setAttribute("aria-busy", "false");
  window.scrollTo(0, 0);
  at("row-head").replaceChildren(el("h2", { class: "row-id" }, heading));
  at("row-body").replaceChildren(el("section", {}, el("p", { class: "note" }, text)));
}

export const seconds = () => (performance.now() - since) / 1000;

// Do something that is to be saved. Nothing else is begun meanwhile; if it takes longer, the page says what it does.
export async function saving(what, job) {
  page.saving = what;
  unsettle();
  const slow = setTimeout(() => say(`${what}…`), SLOW);
  try {
    return await job();
  } finally {
    clearTimeout(slow);
    page.saving = "";
    say("");
    settle();
  }
}

export function say(text) {
  at("doing").textContent = text;
  at("doing").hidden = !text;
}
