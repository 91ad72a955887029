// The page: state, keys and verdicts. A verdict is shown as given once the server has saved it.
import { get, post } from "./api.js";
import { at, el, number, plural } from "./dom.js";
import * as progress from "./progress.js";
import * as row from "./row.js";

const page = { state: null, queue: [], left: 0, chosen: null, shownAt: 0, details: new Map(), filter: "", round: null, allColumns: false,
  walked: false }; // whether the reviewer went to the chosen row, instead of taking rows from the top
let working = Promise.resolve(); // keys that come while a verdict is being saved wait for it
const inTurn = (job) => (working = working.then(job).catch(trouble));

// ---- what the server says
async function poll() {
  let wait = 1500;
  try {
    const version = page.state ? page.state.version : "";
    const found = await get(`/api/state?version=${version}`);
    if (at("banner").dataset.why === "lost") clear();
    if (found.table) {
      const before = page.state;
      page.state = found;
      showState(before);
      if (found.opened && (!before || !before.opened || before.round !== found.round)) await refresh(true);
      else if (found.opened && before.version !== found.version && !found.stage) await refresh();
    }
    if (page.state.stage) wait = 400;
  } catch (problem) {
    trouble(problem, "lost");
  }
  setTimeout(() => inTurn(poll), wait);
}

function showState(before) {
  const state = page.state, stage = state.stage;
  at("opening").hidden = state.opened || Boolean(state.error);
  at("layout").hidden = at("verdicts").hidden = !state.opened;
  const doing = stage ? `${stage.name}${stage.total ? `: ${stage.done} of ${stage.total}` : stage.done ? `: ${number(stage.done)}` : ""}` : "";
  at("opening-stage").textContent = stage ? `${doing} · ${Math.round(stage.seconds)} s` : "";
  if (state.error) say(state.error, "state"); else if (at("banner").dataset.why === "state") clear();
  if (!state.opened) return;
  const pill = at("activity");
  pill.className = `pill${state.refitting ? " busy" : ""}`;
  const due = state.every - state.waiting;
  pill.textContent = state.refitting ? doing || "Learning" : !state.can_learn ? "Learns from your verdicts"
    : state.every && state.waiting ? (due > 0 ? `Learns in ${plural(due, "verdict")}` : "Learning soon") : state.round ? `Learned ${state.round === 1 ? "once" : `${state.round} times`}` : "Ready";
  if (before && before.opened && before.round !== state.round) announce(`The detector has learned; the queue is in a new order.`);
  if (state.unmatched) at("queue-note").dataset.unmatched = `${plural(state.unmatched, "earlier verdict is", "earlier verdicts are")} about rows that are not in this table or have changed.`;
  at("who").placeholder = state.who;
  at("classes").replaceChildren(...state.classes.map((one, i) =>
    el("button", { type: "button", class: "chip", "data-class": i + 1, onclick: () => inTurn(() => judgeClass(i + 1)) },
      el("kbd", {}, String(i + 1)), " ", el("bdi", {}, one.name))),
    ...(state.classes.length < 9 ? [el("button", { type: "button", class: "chip new", onclick: () => inTurn(() => judgeClass(state.classes.length + 1)) },
      el("kbd", {}, String(state.classes.length + 1)), " new class")] : []));
  progress.draw(state);
}

async function refresh(newRound = false) {
  if (newRound || page.round !== page.state.round) {
    page.details.clear();
    page.walked = false; // rows that have moved to the top come next
  }
  const found = await get(`/api/queue?filter=${encodeURIComponent(page.filter)}`);
  page.round = found.round;
  page.queue = found.rows;
  page.left = found.left;
  const still = page.chosen && page.queue.find((entry) => entry.row === page.chosen.row);
  await choose(still || page.queue[0] || null, !still || newRound);
  showQueue();
  progress.threshold(await get("/api/threshold"));
}

// ---- the queue
function showQueue() {
  const note = at("queue-note"), filtered = page.filter.trim();
  note.textContent = (page.left ? `${plural(page.left, "row")}${filtered ? " match" + (page.left === 1 ? "es" : "") : " to look at"}, of ${number(page.state.rows)} in the table` :
    filtered ? "No row near the top matches the filter." : "") + (note.dataset.unmatched ? `. ${note.dataset.unmatched}` : "");
  at("queue").replaceChildren(...page.queue.map((entry) => {
    const moved = entry.moved > 0 ? el("span", { class: "up", title: "Places gained since the last round" }, `▲ ${number(entry.moved)}`)
      : entry.moved < 0 ? el("span", { class: "down", title: "Places lost since the last round" }, `▼ ${number(-entry.moved)}`) : null;
    const mine = page.chosen && page.chosen.row === entry.row;
    return el("li", {}, el("button", { type: "button", class: "entry", "aria-current": mine ? "true" : null, "data-row": entry.row,
      onclick: () => inTurn(() => walk(entry)) },
      el("span", { class: "id" }, el("bdi", {}, entry.id)), el("span", { class: "score" }, entry.score.toFixed(2)),
      el("span", { class: "marks" }, `${Math.min(99.9, entry.percentile).toFixed(1)} %`, moved,
        entry.disagree ? el("span", { title: "Members disagree" }, "≠", el("span", { class: "quiet" }, " members disagree")) : null,
        entry.explored ? el("span", { title: "Found by the explorers alone" }, "◇", el("span", { class: "quiet" }, " explorer")) : null,
        entry.alike > 1 ? el("span", { title: "Near duplicates" }, `×${number(entry.alike)}`, el("span", { class: "quiet" }, " alike")) : null)));
  }));
  const current = at("queue").querySelector("[aria-current]");
  if (current) current.scrollIntoView({ block: "nearest" });
}

async function choose(entry, moved) {
  page.chosen = entry;
  if (moved) page.shownAt = performance.now();
  showQueue();
  const group = at("group");
  group.hidden = true;
  for (const button of document.querySelectorAll(".verdict")) button.disabled = !entry;
  if (!entry) {
    at("row-head").replaceChildren(el("h2", {}, "Nothing left to look at"));
    at("row-body").replaceChildren(el("p", { class: "note" }, page.filter ? "Clear the filter to see other rows." : "Every row near the top has a verdict. Learn from them, or finish."));
    return;
  }
  at("row-head").replaceChildren(...row.head(entry));
  if (entry.confirmed && entry.alike_open > 0) {
    group.hidden = false;
    group.replaceChildren(el("kbd", {}, "G"), ` ${entry.confirmed.class || entry.confirmed.verdict} for all ${plural(entry.alike_open, "open near duplicate")}`);
  }
  if (!moved && at("row-body").dataset.row === `${page.round}-${entry.row}` && page.details.has(entry.row)) return;
  const slow = setTimeout(() => at("row-body").replaceChildren(el("p", { class: "note" }, "Explaining this row…")), 250);
  try {
    if (!page.details.has(entry.row)) page.details.set(entry.row, await get(`/api/row/${entry.row}`));
  } finally {
    clearTimeout(slow);
  }
  if (page.chosen !== entry) return;
  const found = page.details.get(entry.row), example = `${found.values[0].name}=${found.values[0].value}`;
  at("filter").placeholder = /\s/.test(example) ? `"${example}"` : example;
  at("row-head").replaceChildren(...row.head({ ...entry, judged: found.judged }));
  at("row-body").replaceChildren(...row.body(found, page));
  at("row-body").dataset.row = `${page.round}-${entry.row}`;
  if (moved) window.scrollTo(0, 0);
}

function walk(entry) {
  page.walked = true;
  return choose(entry, true);
}

function step(by) {
  const place = page.queue.findIndex((entry) => page.chosen && entry.row === page.chosen.row);
  const next = page.queue[Math.max(0, Math.min(page.queue.length - 1, place + by))];
  return next && next !== page.chosen ? walk(next).then(() => announce(`Row ${next.id}, score ${next.score.toFixed(2)}`)) : null;
}

// ---- verdicts
async function judge(verdict, name = "", more = {}) {
  const entry = page.chosen;
  if (!entry) return;
  const place = page.walked ? page.queue.indexOf(entry) : 0;
  const seconds = (performance.now() - page.shownAt) / 1000;
  let saved;
  try {
    saved = await post("/api/verdict", { row: entry.row, digest: entry.digest, verdict, class: name, seconds, ...more });
  } catch (problem) {
    if (problem.status === 409 && problem.current) return conflict(entry, problem.current, verdict, name);
    throw problem;
  }
  clear();
  const rows = new Set(saved.saved.map((one) => one.number));
  page.queue = page.queue.filter((other) => !rows.has(other.row));
  page.details.clear(); // the similar rows have changed
  page.chosen = null;
  page.state = { ...page.state, version: -1 };
  const done = `Saved: ${entry.id} is ${name || verdict}${rows.size > 1 ? ` and ${rows.size - 1} more` : ""}.`;
  const following = (next) => announce(next ? `${done} Next: ${next.id}` : done);
  if (verdict === "anomaly" && entry.alike_open > rows.size) { // near duplicates of a find come next; the server puts them first
    page.walked = false;
    await update();
    following(page.chosen);
  } else {
    const next = page.queue[Math.min(place, page.queue.length - 1)] || null;
    following(next);
    await choose(next, true);
    await update();
  }
}

async function update() {
  const before = page.state, found = await get("/api/state?version=");
  page.state = found;
  showState(before);
  await refresh(before.round !== found.round);
}

function judgeClass(key) {
  const known = page.state.classes[key - 1];
  if (known) return judge("anomaly", known.name);
  if (!page.chosen) return null;
  at("naming-key").textContent = String(page.state.classes.length + 1);
  at("class-name").value = "";
  at("naming").showModal();
  at("class-name").focus();
  return null;
}

function nameIt() {
  const name = at("class-name").value.trim();
  if (!name) return;
  at("naming").close();
  inTurn(() => judge("anomaly", name));
}

function conflict(entry, current, verdict, name) {
  const what = current.class || current.verdict;
  at("conflict-text").textContent = `${current.who || "Someone"} marked ${entry.id} as ${what} in another window. Your verdict was not saved.`;
  const change = at("change-it");
  change.textContent = `Change it to ${name || verdict}`;
  change.onclick = () => { at("conflict").close(); inTurn(() => judge(verdict, name, { replaces: current.n })); };
  at("conflict").showModal();
  return update();
}

async function undo() {
  const { undone } = await post("/api/undo");
  clear();
  announce(`Undone: ${undone[0].id} is open again${undone.length > 1 ? `, and ${undone.length - 1} more` : ""}.`);
  page.chosen = null;
  page.details.clear();
  await update();
  const back = page.queue.find((entry) => entry.row === undone[0].number);
  if (back) await choose(back, true);
}

async function learn() {
  const { started } = await post("/api/refit");
  announce(started ? "Learning from the verdicts." : page.state.refitting ? "Learning is under way." : "There is nothing to learn from yet: give a verdict first.");
  await update();
}

async function finish() {
  const { written } = await post("/api/finish");
  at("written").replaceChildren(...written.map((line) => el("li", {}, el("bdi", {}, line))));
  at("finished").showModal();
}

// ---- messages
function announce(text) { at("said").textContent = text; }
function say(text, why = "") { const banner = at("banner"); banner.textContent = text; banner.dataset.why = why; banner.hidden = false; }
function clear() { at("banner").hidden = true; at("banner").dataset.why = ""; }
function trouble(problem, why = "request") {
  console.warn(problem.message);
  say(problem.status === 0 ? `${problem.message} Trying again…` : problem.message, problem.status === 0 ? "lost" : why);
}

// ---- keys
const KEYS = {
  a: () => judge("anomaly"), n: () => judge("normal"), u: () => judge("unsure"),
  g: () => (page.chosen && page.chosen.confirmed ? judge(page.chosen.confirmed.verdict, page.chosen.confirmed.class, { group: true }) : null),
  j: () => step(1), arrowdown: () => step(1), k: () => step(-1), arrowup: () => step(-1), z: undo, r: learn,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  // A field of a dialog that has just been closed keeps the focus until the browser draws the page again.
  const typing = event.target.matches("input:not([type=range]), textarea, select") && !event.target.closest("dialog");
  const key = event.key.toLowerCase();
  if (typing) {
    if (key === "escape") { event.target.value = ""; event.target.dispatchEvent(new Event("input")); event.target.blur(); }
    if (key === "enter") event.target.blur();
    return;
  }
  if (key.startsWith("arrow") && event.target.matches("input[type=range], [role=region]")) return;
  if (key === "?") at("help").showModal();
  else if (key === "/") at("filter").focus();
  else if (!page.state || !page.state.opened || event.repeat && !"jk".includes(key) && !key.startsWith("arrow")) return;
  else if (/^[1-9]$/.test(key)) inTurn(() => judgeClass(Number(key)));
  else if (KEYS[key]) inTurn(KEYS[key]);
  else return;
  event.preventDefault();
});

for (const button of document.querySelectorAll(".verdict")) button.addEventListener("click", () => inTurn(() => judge(button.dataset.verdict)));
at("undo").addEventListener("click", () => inTurn(undo));
at("refit").addEventListener("click", () => inTurn(learn));
at("finish").addEventListener("click", () => inTurn(finish));
at("group").addEventListener("click", () => inTurn(KEYS.g));
at("help-open").addEventListener("click", () => at("help").showModal());
at("name-it").addEventListener("click", nameIt);
at("class-name").addEventListener("keydown", (event) => { if (event.key === "Enter") nameIt(); });
at("threshold").addEventListener("input", progress.chosen);
at("who").value = localStorage.getItem("dplan-who") || "";
at("who").addEventListener("input", (event) => localStorage.setItem("dplan-who", event.target.value.trim()));
for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
let typed = 0;
at("filter").addEventListener("input", (event) => {
  page.filter = event.target.value;
  clearTimeout(typed);
  typed = setTimeout(() => inTurn(() => refresh()), 150);
});

inTurn(poll);
