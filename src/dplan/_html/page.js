"use strict";
// Makes tables searchable and sortable and lets a threshold be tried. Without it, the page shows the same data.

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function number(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim().replaceAll(",", "");
  return text === "" ? NaN : Number(text);
}

function compare(a, b) {
  const [x, y] = [number(a), number(b)];
  if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
  return a.textContent.localeCompare(b.textContent, "en", { numeric: true });
}

for (const table of document.querySelectorAll("table.interactive")) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const heads = Array.from(table.tHead.rows[0].cells);
  if (rows.length < 2) continue;
  const title = table.caption ? table.caption.textContent : "rows";
  const search = element("input", { type: "search", placeholder: "Search", "aria-label": `Search: ${title}` });
  const count = element("span", { role: "status" });
  const tools = element("p", { class: "tools" }, search, count);
  const unlabelled = element("input", { type: "checkbox" });
  if (rows.some((row) => row.dataset.labelled)) {
    tools.append(element("label", {}, unlabelled, " hide rows that are known already"));
  }

  const kinds = new Map();
  for (const row of rows) if (row.dataset.kind) kinds.set(row.dataset.kind, (kinds.get(row.dataset.kind) ?? 0) + 1);
  let kind = "";
  const choices = [["", "all kinds"], ...Array.from(kinds, ([name, n]) => [name, `${name} (${n})`])].map(([name, text]) => {
    const button = element("button", { type: "button", "aria-pressed": String(name === "") }, text);
    button.addEventListener("click", () => {
      kind = name;
      for (const other of choices) other.setAttribute("aria-pressed", String(other === button));
      show();
    });
    return button;
  });
  const filter = element("p", { class: "tools kinds", role: "group", "aria-label": "Filter by kind" }, ...choices);

  function show() {
    const words = search.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word)) || (unlabelled.checked && Boolean(row.dataset.labelled)) ||
        (kind !== "" && row.dataset.kind !== kind);
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = shown < rows.length ? `${shown} of ${rows.length} rows` : `${shown} rows`;
  }

  heads.forEach((head, column) => {
    if (!head.textContent) return;
    const button = element("button", { type: "button" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const ordered = rows.toSorted((a, b) => compare(a.cells[column], b.cells[column]));
      body.append(...(descending ? ordered.reverse() : ordered));
    });
  });
  search.addEventListener("input", show);
  unlabelled.addEventListener("change", show);
  show();
  if (kinds.size) table.parentElement.before(filter);
  table.parentElement.before(tools);
  table.classList.add("sortable");
}

for (const box of document.querySelectorAll(".threshold")) {
  const steps = JSON.parse(box.dataset.steps); // threshold, alerts and, with labels, anomalies among them
  const [rows, anomalies] = [Number(box.dataset.rows), Number(box.dataset.anomalies)];
  const [slider, output] = [box.querySelector("input"), box.querySelector("output")];
  const percent = (part, whole) => `${((100 * part) / whole).toFixed(part / whole < 0.1 ? 1 : 0)} %`;

  function show() {
    const [threshold, alerts, found] = steps[slider.valueAsNumber];
    const count = `${alerts.toLocaleString("en")} ${alerts === 1 ? "alert" : "alerts"} (${percent(alerts, rows)} of the rows)`;
    let text = `threshold ${Number(threshold.toPrecision(4))}: ${count}`;
    if (anomalies) {
      const precision = alerts ? percent(found, alerts) : "undefined";
      text += `; precision ${precision}; recall ${percent(found, anomalies)}`;
    }
    output.textContent = text;
    slider.setAttribute("aria-valuetext", text);
    for (const row of document.querySelectorAll("tr[data-score]")) {
      const alert = Number(row.querySelector("[data-label=rank]").textContent) <= alerts;
      row.querySelector("[data-label=alert]").textContent = alert ? "alert" : "no";
    }
  }

  slider.addEventListener("input", show);
  output.textContent = "";
  box.hidden = false;
  show();
}
