// Rows that belong together, in one table: what is checked is what one key decides.
import { get } from "./api.js";
import { at, el, number, plural } from "./dom.js";
import { READING } from "./screen.js";

let found = null, anchor = null, since = Infinity, settling = 0; // the table, the row that it was opened from, when it was drawn

export const isOpen = () => at("grouped").open;

// Ask for the table of a row's group and show it; without other open rows, there is none to show.
export async function show(entry, by, said = "") {
  since = Infinity;
  clearTimeout(settling);
  at("grouped").setAttribute("aria-busy", "true");
  found = await get(`/api/group/${entry.row}?by=${encodeURIComponent(by)}`);
  anchor = entry;
  if (!found.rows.length) return at("grouped").close();
  draw(said);
  if (!isOpen()) at("grouped").showModal();
  at("group-all").focus();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  since = performance.now();
  settling = setTimeout(() => at("grouped").setAttribute("aria-busy", "false"), READING);
  return null;
}

function draw(said) {
  const others = found.open - found.rows.length;
  at("grouped-title").replaceChildren(`Decide ${found.title} together`, ...(found.name ? [": ", el("bdi", {}, found.name)] : []));
  at("grouped-said").textContent = said;
  at("grouped-note").textContent = [
    `${plural(found.open, "row")} without a verdict${others ? `; these are the first ${number(found.rows.length)}, the others come next` : ""}.`,
    found.decided.length ? `Decided before: ${found.decided.map(([name, n]) => `${number(n)} ${name}`).join(", ")}.` : "",
    "Values that differ from the first row are highlighted.",
  ].filter(Boolean).join(" ");
  at("grouped-head").replaceChildren(el("tr", {}, el("th", { scope: "col" }, el("label", {}, el("input", { type: "checkbox", id: "group-all", onchange: all }), el("span", { class: "quiet" }, "All rows"))),
    el("th", { scope: "col" }, "Row"), el("th", { scope: "col" }, "Score"), ...found.columns.map((name) => el("th", { scope: "col" }, el("bdi", {}, name)))));
  at("grouped-rows").replaceChildren(...found.rows.map((one, i) => el("tr", { onclick: toggle },
    el("td", {}, el("input", { type: "checkbox", checked: true, "data-place": i, "aria-label": one.id, onchange: count })),
    el("th", { scope: "row" }, el("bdi", {}, one.id)), el("td", {}, one.score.toFixed(2)),
    ...one.values.map((value, j) => el("td", { class: value === found.rows[0].values[j] ? "" : "differs" }, el("bdi", {}, value))))));
  count();
}

const boxes = () => [...at("grouped-rows").querySelectorAll("input")];

function toggle(event) {
  if (event.target.matches("input")) return;
  const box = event.currentTarget.querySelector("input");
  box.checked = !box.checked;
  count();
}

function all(event) {
  for (const box of boxes()) box.checked = event.target.checked;
  count();
}

function count() {
  const every = boxes(), n = every.filter((box) => box.checked).length;
  Object.assign(at("group-all"), { checked: n > 0, indeterminate: n > 0 && n < every.length });
  for (const row of at("grouped-rows").rows) row.classList.toggle("left-out", !row.querySelector("input").checked);
  at("grouped-count").textContent = n ? `One key decides ${n === 1 ? "the checked row" : `these ${number(n)} checked rows`}:` : "Check the rows to decide.";
  for (const button of at("grouped-verdicts").querySelectorAll("button")) button.disabled = !n;
}

// Return what an event decides, and close the table; null if the reader cannot have seen it yet.
export function chosen(event) {
  if (!isOpen() || event.timeStamp < since + READING) return null;
  const rows = boxes().filter((box) => box.checked).map((box) => found.rows[box.dataset.place]);
  if (!rows.length) return null;
  at("grouped").close();
  return { rows: rows.map(({ row, digest }) => ({ row, digest })), round: found.round };
}

// Show what is left of the group, if it is larger than a table.
export const more = (decided) => (found.open > found.rows.length ? show({ ...anchor, row: anchor.row }, found.by, `Saved: ${plural(decided, "row")}.`) : null);
export const again = (said) => show(anchor, found.by, said);
