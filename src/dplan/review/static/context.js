// Other rows of the same account, machine or customer, before and after in the table.
import { get } from "./api.js";
import { el, number, plural } from "./dom.js";

const CHOSEN = "dplan-context"; // the column, chosen once

export function section(details, go) {
  const names = details.contexts;
  if (!names.length) return null;
  const place = el("div", {}), chosen = localStorage.getItem(CHOSEN);
  const select = el("select", { "aria-label": "Column that the rows have in common" }, el("option", { value: "" }, "choose a column"),
    ...names.map((name) => el("option", { value: name, selected: name === chosen }, name)));
  const load = async () => {
    localStorage.setItem(CHOSEN, select.value);
    if (!select.value) return place.replaceChildren();
    try {
      const found = await get(`/api/context/${details.row}?column=${encodeURIComponent(select.value)}`);
      return place.replaceChildren(...table(found, go));
    } catch (problem) {
      return place.replaceChildren(el("p", { class: "note" }, problem.message));
    }
  };
  select.addEventListener("change", load);
  if (names.includes(chosen)) load();
  return el("section", { class: "context" }, el("h2", {}, "Rows with the same ", select), place);
}

function table(found, go) {
  const rows = found.rows.map((one) => el("tr", { class: one.own ? "own" : "" },
    el("td", {}, one.own ? "this row" : el("button", { type: "button", class: "link", onclick: () => go({ row: one.row, id: "", score: one.score, rank: 0, percentile: 0 }) }, `row ${number(one.row + 1)}`)),
    el("td", {}, one.score.toFixed(2)), ...one.values.map((value) => el("td", {}, el("bdi", {}, value)))));
  const body = el("tbody", {}, ...rows);
  let by = -1, down = false;
  const sort = (column) => {
    down = by === column && !down;
    by = column;
    const text = (row) => row.cells[column].textContent;
    body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * text(a).localeCompare(text(b), "en", { numeric: true })));
  };
  const heads = ["row", "score", ...found.columns].map((name, column) =>
    el("th", { scope: "col" }, el("button", { type: "button", title: "Sort", onclick: () => sort(column) }, el("bdi", {}, name))));
  return [el("p", { class: "note" }, `${plural(found.total, "row")} in the whole table${found.total > rows.length ? `, the ${number(rows.length)} nearest are listed` : ""}, in the order of the table.`),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows in context" }, el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body))];
}
