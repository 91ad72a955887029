// The list of the rows to look at, a part at a time, each with its first reason.
import { get } from "./api.js";
import { at, el, number, plural } from "./dom.js";

const reasons = new Map(); // of the current round, by row
let round = null;

export function draw(page, go, turn) {
  const note = at("queue-note"), filtered = page.filter.trim();
  const total = number(page.state.rows), gone = page.state.unmatched;
  const end = page.start + page.queue.length, listed = page.left + page.decided, part = page.start || end < listed ? `Rows ${number(page.start + 1)}–${number(end)}. ` : "";
  const muted = page.state.muted && page.state.muted.rows ? `${number(page.state.muted.rows)} muted` : "";
  const found = !filtered && page.kind ? `${page.left ? plural(page.left, "row") : "No row"} of this kind without a verdict`
    : !filtered ? (page.left ? `${part}${plural(page.left, "row")} without a verdict, of ${total} in the table` : "")
    : `${part}${listed ? plural(listed, "row") : "No row"}${listed > 1 ? " match" : " matches"} in the whole table of ${total}${page.decided ? `; ${number(page.decided)} of them ${page.decided === 1 ? "has" : "have"} a verdict` : ""}`;
  note.textContent = [found, muted, ...page.odd, gone ? `${plural(gone, "earlier verdict is", "earlier verdicts are")} about rows that are not in this table or have changed` : ""]
    .filter(Boolean).map((part) => `${part[0].toUpperCase()}${part.slice(1)}`).join(". ");
  const current = page.opening || page.shown;
  if (round !== page.round) { reasons.clear(); round = page.round; }
  at("queue").replaceChildren(...page.queue.map((entry) => line(entry, current && current.row === entry.row, go)));
  const pages = [[at("queue-before"), page.start - page.size, page.start > 0], [at("queue-more"), end, end < listed]];
  for (const [button, to, possible] of pages) Object.assign(button, { hidden: !possible, onclick: () => turn(Math.max(0, to)) });
  const mine = at("queue").querySelector("[aria-current]");
  if (mine) mine.scrollIntoView({ block: "nearest" });
  explain(page).catch((problem) => console.warn(problem.message)); // the list is of use without reasons, too
}

async function explain(page) {
  const rows = page.queue.map((entry) => entry.row).filter((row) => !reasons.has(row)), own = page.round;
  if (!rows.length) return;
  for (const row of rows) reasons.set(row, null); // asked for
  const found = await get(`/api/reasons?rows=${rows.join(",")}`);
  if (found.round !== own || round !== own) return;
  for (const [row, reason] of Object.entries(found.reasons)) {
    reasons.set(Number(row), reason);
    const place = at("queue").querySelector(`[data-row="${row}"] .why`);
    if (place) place.replaceChildren(...why(reason));
  }
}

const why = (reason) => (reason ? [el("bdi", { title: reason.text }, `${reason.name} ${reason.value}`)] : []);

function line(entry, current, go) {
  const mark = (text, title, quiet = null) => el("span", { title }, text, quiet ? el("span", { class: "quiet" }, ` ${quiet}`) : null);
  return el("li", {}, el("button", { type: "button", class: "entry", "aria-current": current ? "true" : null, "data-row": entry.row, onclick: () => go(entry) },
    el("span", { class: "id" }, el("bdi", {}, entry.id)), el("span", { class: "score" }, entry.score.toFixed(2)),
    el("span", { class: "marks" }, entry.judged ? el("span", { class: `badge ${entry.judged.verdict}` }, el("bdi", {}, entry.judged.class || entry.judged.verdict)) : null, `${Math.min(99.9, entry.percentile).toFixed(1)} %`,
      entry.moved > 0 ? el("span", { class: "up", title: "Places gained since the last round" }, `▲ ${number(entry.moved)}`) : null,
      entry.moved < 0 ? el("span", { class: "down", title: "Places lost since the last round" }, `▼ ${number(-entry.moved)}`) : null,
      entry.disagree ? mark("≠", "Members disagree", "members disagree") : null,
      entry.explored ? mark("◇", "Found by the explorers alone", "explorer") : null,
      ...entry.groups.filter((one) => !one.name).map((one) => mark(`×${number(one.rows)}`, one.title, one.title))),
    entry.kind ? el("span", { class: "kind", title: "Kind" }, el("span", { class: "quiet" }, "kind "), el("bdi", {}, entry.kind)) : null,
    el("span", { class: "why" }, ...why(reasons.get(entry.row)))));
}
