// The page: state, keys and verdicts. A verdict is shown as given once the server has saved it.
import { get, post, who, windowId } from "./api.js";
import { at, el, number, plural } from "./dom.js";
import * as group from "./group.js";
import * as kindList from "./kinds.js";
import { isCharacter, isTyping, keyOf, lettersAreOn, switchLetters } from "./keys.js";
import * as history from "./history.js";
import * as progress from "./progress.js";
import * as queue from "./queue.js";
import { decided, forget, note, nothing, open, page, saving, say, seconds } from "./screen.js";

const AGAIN = 2000; // milliseconds until a verdict that could not be saved is sent again
const HOUR = 3_600_000;

// ---- what the server says
async function poll() {
  let wait = 1500;
  try {
    const found = await get(`/api/state?version=${page.state ? page.state.version : ""}&${me()}`);
    if (at("banner").dataset.why === "lost") clear();
    if (found.table && !page.saving) {
      const before = page.state;
      page.state = found;
      showState(before);
      if (found.opened && (!before || before.version !== found.version)) await refresh();
    }
    people(found.people);
    if (page.state.stage) wait = 400;
  } catch (problem) {
    trouble(problem, "lost");
  }
  setTimeout(poll, wait);
}

// Who reads which row, so that several people get different ones.
const me = () => `window=${windowId}&who=${encodeURIComponent(who())}${page.shown ? `&open=${page.shown.row}` : ""}`;

function people(names) {
  const own = who() || (page.state ? page.state.who : ""), others = [...new Set(names)].filter((name) => name && name !== own);
  at("me").replaceChildren(...(own ? ["You are ", el("bdi", {}, own)] : ["Add your name"]), others.length ? el("span", {}, `, with `, el("bdi", {}, others.join(", "))) : "");
}

function showState(before) {
  const state = page.state, stage = state.stage;
  at("opening").hidden = state.opened || Boolean(state.error);
  at("layout").hidden = !state.opened;
  at("verdicts").hidden = !state.opened || state.reading;
  if (state.reading !== undefined) document.body.classList.toggle("reading", state.reading);
  const done = stage && stage.total ? `: ${number(stage.done)} of ${number(stage.total)}` : stage && stage.done ? `: ${number(stage.done)}` : "";
  const doing = stage ? `${stage.name}${done}` : "";
  const left = stage && stage.total && stage.done ? Math.max(1, Math.round((stage.seconds / stage.done) * (stage.total - stage.done))) : 0;
  at("opening-stage").textContent = stage ? `${doing} · ${Math.round(stage.seconds)} s${left ? `, about ${number(left)} s left` : ""}` : "";
  const bar = document.querySelector("#opening progress");
  if (stage && stage.total) Object.assign(bar, { max: stage.total, value: stage.done }); else bar.removeAttribute("value");
  if (state.error) warn(state.error, "state"); else if (at("banner").dataset.why === "state") clear();
  if (!state.opened) return;
  const pill = at("activity");
  pill.className = `pill${state.refitting ? " busy" : ""}`;
  pill.textContent = state.refitting ? doing || "Learning" : learning(state);
  if (before && before.opened && before.round !== state.round) announce("The detector has learned; the queue is in a new order.");
  at("who").placeholder = state.who;
  at("excel").hidden = !state.excel;
  showClasses(state.classes);
  showKinds(state.kinds, state.muted);
  progress.draw(state);
}

function learning(state) {
  const due = state.every - state.waiting;
  if (!state.can_learn) return "Learns from your verdicts";
  if (state.every && state.waiting && due > 0) return `Learns in ${plural(due, "verdict")}`;
  return state.round ? `Learned ${state.round === 1 ? "once" : `${number(state.round)} times`}` : "Ready";
}

let classes = ""; // as shown: buttons that are replaced would lose the focus
function showClasses(found) {
  const names = JSON.stringify(found.map((one) => one.name));
  if (names === classes) return;
  classes = names;
  const chip = (give, key, kind, ...text) => el("button", { type: "button", class: `chip${kind}`, onclick: (event) => judgeClass(event, key, give) },
    el("kbd", {}, String(key)), " ", ...text);
  const chips = (give) => [...found.map((one, i) => chip(give, i + 1, "", el("bdi", {}, one.name))),
    ...(found.length < 9 ? [chip(give, found.length + 1, " new", "new class")] : [])];
  at("classes").replaceChildren(...chips(judge));
  at("group-classes").replaceChildren(...chips(judgeGroup));
}

let kinds = ""; // as shown: a list that is replaced would close under the reader's hand
function showKinds(found, muted) {
  showRest();
  const named = JSON.stringify([page.kind, found, muted]), chosen = page.kind;
  if (named === kinds) return;
  kinds = named;
  const gone = chosen && !found.some((one) => String(one.number) === chosen); // all decided
  at("kinds").hidden = !muted;
  at("by-kind").parentElement.hidden = !found.length && !chosen;
  at("kinds-open").textContent = muted && muted.kinds ? `All kinds (${number(muted.kinds)} muted)` : "All kinds";
  at("by-kind").replaceChildren(el("option", { value: "" }, "all"),
    ...found.map((one) => el("option", { value: one.number, title: one.rule }, `${one.name} · ${plural(one.open, "row")}`)),
    ...(gone ? [el("option", { value: chosen }, "no row left")] : []));
  at("by-kind").value = chosen;
}

// After equal verdicts about rows of a kind, offer the others: of the kind on the screen or, if it has none, of the last one decided.
let last = -1;
function offer() {
  const one = (number) => page.state.kinds.find((kind) => kind.number === number && kind.equal);
  return (page.shown && one(page.shown.kind_number)) || one(last);
}

function showRest() {
  const found = page.state.reading ? null : offer();
  at("rest").hidden = !found;
  if (found) at("rest").replaceChildren(el("kbd", {}, "S"), ` ${plural(found.open, "more row")} of `, el("bdi", {}, found.name), `: ${found.equal}?`);
}

function openRest() {
  const found = !page.opening && !page.saving && offer();
  return found ? group.show(found, "kind", `The last verdicts about this kind were ${found.equal}. Look at its other rows, and uncheck those that are different.`) : null;
}

// Show the queue as it is now. The row on the screen stays until the reader leaves it.
let latest = 0; // of the refreshes, which may overtake each other
async function refresh() {
  const own = ++latest, asked = page.shown;
  if (page.round !== page.state.round) page.start = 0;
  const found = await get(`/api/queue?window=${windowId}&filter=${encodeURIComponent(page.filter)}&start=${page.start}${page.kind && `&kind=${page.kind}`}${asked ? `&open=${asked.row}` : ""}`);
  if (own !== latest) return;
  if (page.round !== found.round) { // which may be newer than the state
    forget();
    page.walked = false; // rows that have moved to the top come next
  }
  Object.assign(page, { round: found.round, queue: found.rows, start: found.start, size: found.size, left: found.left, odd: found.odd, decided: found.decided });
  if (page.shown && page.shown === asked) {
    note(found.open);
    const entry = found.rows.find((other) => other.row === asked.row);
    if (entry) showGroup(Object.assign(page.shown, { groups: entry.groups }));
  }
  queue.draw(page, walk, turn);
  progress.threshold(await get("/api/threshold"));
  if (!page.shown && !page.opening && !page.saving) await next(page.queue.find(isOpen));
}

async function filtered() {
  page.start = 0;
  await refresh();
  const found = page.shown && page.queue.find((entry) => entry.row === page.shown.row);
  if (!found && !page.saving) await next(page.queue[0]);
}

async function update() {
  const before = page.state;
  page.state = await get(`/api/state?version=&${me()}`);
  showState(before);
  await refresh();
}

// ---- from row to row
function next(entry) {
  for (const button of document.querySelectorAll("#verdicts .verdict")) button.disabled = !entry;
  if (!entry) {
    nothing(page.filter && !page.decided ? "No row matches" : "Nothing left to look at", page.filter ? "Clear the filter to see other rows." : page.kind ? "Choose another kind, or all." : "Every row near the top has a verdict. Learn from them, or finish.");
    return null;
  }
  showGroup(entry);
  const opened = open(entry).then(() => { if (page.shown) { showGroup(page.shown); showRest(); } });
  queue.draw(page, walk, turn);
  return opened;
}

const isOpen = (entry) => !entry.judged; // a filter lists decided rows, too
const groupOf = (entry) => (entry.groups || []).find((one) => one.by === "duplicates" && one.open > 1);

function showGroup(entry) {
  const found = groupOf(entry);
  at("group").hidden = !found || page.state.reading;
  if (found) at("group").replaceChildren(el("kbd", {}, "G"), ` ${number(found.open)} ${found.title} in one table`);
}

// Show another part of the queue.
async function turn(to, last = false) {
  if (page.saving) return;
  page.start = to;
  await refresh();
  await walk(page.queue.at(last ? -1 : 0));
}

// A row that may not be in the queue; the server says more about it.
const entryOf = (one) => ({ row: one.number, id: one.id, score: 0, rank: 0, percentile: 0 });

function walk(entry) {
  if (page.saving) return null;
  page.walked = true;
  return next(entry).catch(trouble);
}

function step(by) {
  const current = page.opening || page.shown;
  const place = page.queue.findIndex((entry) => current && entry.row === current.row);
  if (place + by >= page.queue.length && page.start + page.queue.length < page.left + page.decided) return turn(page.start + page.queue.length);
  if (place + by < 0 && page.start) return turn(Math.max(0, page.start - page.size), true);
  const to = page.queue[Math.max(0, Math.min(page.queue.length - 1, place + by))];
  if (!to || page.saving || (current && to.row === current.row)) return null;
  return walk(to).then(() => announce(`Row ${to.id}, score ${to.score.toFixed(2)}`));
}

// ---- verdicts
// Return the row that an event decides about; if the reader cannot have seen it yet, say so.
function aimed(event) {
  const entry = decided(event);
  if (!entry && !page.saving && (page.shown || page.opening)) say("That was too quick: the row had just appeared or changed. Look at it and try again.");
  return entry;
}

function judge(event, verdict, name = "") {
  const entry = aimed(event);
  return entry && save(entry, { row: entry.row, digest: entry.digest, round: entry.round, verdict, class: name, seconds: seconds(), comment: at("comment").value });
}

async function save(entry, given) {
  const what = `${entry.id} is ${given.class || given.verdict}`;
  let saved;
  try {
    saved = await saving(`Saving: ${what}`, () => sent(what, given));
  } catch (problem) {
    if (problem.status === 409 && problem.current) return conflict(entry, problem.current, given);
    if (problem.status === 400 && given.class) return misnamed(problem, given.class);
    return trouble(problem);
  }
  at("row").focus({ preventScroll: true }); // a button that keeps the focus would decide the next row, too
  if (!saved) return update().catch(trouble); // taken back
  clear();
  if (saved.note) say(saved.note);
  at("comment").value = "";
  return after(entry, given, saved.saved, what).catch(trouble);
}

// Send a verdict until it is saved or taken back, for which null is returned.
async function sent(what, given) {
  try {
    for (;;) {
      try {
        return await post("/api/verdict", given);
      } catch (problem) {
        if (problem.status !== 0) throw problem;
      }
      at("unsaved-text").textContent = `Not saved yet: ${what}. The server does not answer; it is sent again until it is saved.`;
      at("unsaved").hidden = false;
      const back = await new Promise((done) => {
        at("take-back").onclick = () => done(true);
        setTimeout(done, AGAIN, false);
      });
      if (back) return null;
    }
  } finally {
    at("unsaved").hidden = true;
  }
}

async function after(entry, given, saved, what) {
  const place = page.walked ? page.queue.findIndex((other) => other.row === entry.row) : 0;
  const rows = new Set(saved.map((one) => one.number));
  page.queue = page.queue.filter((other) => !rows.has(other.row));
  page.shown = null;
  last = entry.kind_number;
  forget(); // the similar rows have changed
  const done = `Saved: ${what}${rows.size > 1 ? ` and ${plural(rows.size - 1, "more row")}` : ""}.`;
  const following = (then) => announce(then ? `${done} Next: ${then.id}` : done);
  if (given.verdict === "anomaly" && groupOf(entry)) { // near duplicates of a find come next; the server puts them first
    page.walked = false;
    await update();
    following(page.shown);
  } else {
    const others = page.queue.filter(isOpen), then = others[Math.max(0, Math.min(place, others.length - 1))];
    following(then);
    await next(then);
    await update();
  }
}

let naming = judge; // what gets the name
function judgeClass(event, key, give = judge) {
  const known = page.state.classes[key - 1];
  if (known) return give(event, "anomaly", known.name);
  if (give === judge && !aimed(event)) return null;
  naming = give;
  at("naming-key").textContent = String(page.state.classes.length + 1);
  at("class-name").value = "";
  at("naming-note").textContent = "From now on, the key gives this class.";
  at("naming").showModal();
  at("class-name").focus();
  return null;
}

// A name that cannot be a class: say so where it was typed.
function misnamed(problem, name) {
  at("class-name").value = name;
  at("naming-note").textContent = problem.message;
  at("naming").showModal();
}

function nameIt(event) {
  event.preventDefault(); // or the key would press the button that opened the dialog, too
  const name = at("class-name").value.trim();
  if (!name) return;
  at("naming").close();
  naming(event, "anomaly", name);
}

// Decide the rows that are checked in the table, all that the reader sees there.
async function judgeGroup(event, verdict, name = "") {
  const chosen = page.saving ? null : group.chosen(event);
  if (!chosen) return;
  const n = chosen.rows.length, what = `${plural(n, "row")}: ${name || verdict}`;
  let saved;
  try {
    saved = await saving(`Saving: ${what}`, () => sent(what, { ...chosen, verdict, class: name, seconds: seconds(), comment: at("comment").value }));
  } catch (problem) {
    if (problem.status !== 409 && problem.status !== 400) throw problem;
    const { current } = problem, by = current && `${current.who || "Someone"} marked ${current.id} as ${current.class || current.verdict}. Nothing was saved; these are the rows without a verdict now.`;
    await update();
    await group.again(by || problem.message);
    return;
  }
  at("row").focus({ preventScroll: true });
  if (saved) {
    clear();
    if (saved.note) say(saved.note);
    at("comment").value = "";
    announce(`Saved: ${what}.`);
    forget(); // the similar rows have changed
    if (page.shown && chosen.rows.some((one) => one.row === page.shown.row)) page.shown = null;
  }
  await update();
  if (saved) await group.more(n);
}

const openGroup = () => {
  const found = page.shown && !page.opening && !page.saving && groupOf(page.shown);
  return found ? group.show(page.shown, found.by) : null;
};

function conflict(entry, current, given) {
  at("conflict-text").textContent = `${current.who || "Someone"} marked ${entry.id} as ${current.class || current.verdict}${current.comment ? ` (“${current.comment}”)` : ""}. Your verdict was not saved.`;
  const change = at("change-it");
  change.textContent = `Change it to ${given.class || given.verdict}`;
  change.onclick = () => { at("conflict").close(); save(entry, { ...given, replaces: current.n }); };
  at("conflict").showModal();
  return update().catch(trouble);
}

async function undo() {
  if (page.saving) return;
  const { undone } = await saving("Undoing your last verdict", () => post("/api/undo"));
  at("row").focus({ preventScroll: true });
  clear();
  announce(`Undone: ${undone[0].id} is open again${undone.length > 1 ? `, and ${plural(undone.length - 1, "more row")}` : ""}.`);
  forget();
  await update();
  await next(page.queue.find((entry) => entry.row === undone[0].number) || entryOf(undone[0]));
}

async function learn() {
  const { started } = await post("/api/refit");
  announce(started ? "Learning from the verdicts." : page.state.refitting ? "Learning is under way." : "There is nothing to learn from yet: give a verdict first.");
  await update();
}

async function finish() {
  const { written } = await saving("Writing the results", () => post("/api/finish", {}, HOUR));
  at("written").replaceChildren(...written.map((line) => el("li", {}, el("bdi", {}, line))));
  at("finished").showModal();
}

async function useThreshold() {
  const level = progress.level();
  if (!level || page.saving) return;
  const found = await saving("Writing the threshold", () => post("/api/threshold", { score: level.score, round: level.round }));
  progress.used(found);
  await update();
}

// ---- messages
function announce(text) { at("said").textContent = text; }
function warn(text, why = "") { const banner = at("banner"); banner.textContent = text; banner.dataset.why = why; banner.hidden = false; }
function clear() { at("banner").hidden = true; at("banner").dataset.why = ""; }
function trouble(problem, why = "request") {
  console.warn(problem.message);
  warn(problem.message, problem.status === 0 ? "lost" : why);
}

// ---- keys and buttons
function help() {
  at("help").showModal();
  at("help").scrollTop = 0; // the button with the focus is at the end
}

const attempt = (job) => (event) => Promise.resolve(job(event)).catch(trouble);
const KEYS = {
  a: (event) => judge(event, "anomaly"), n: (event) => judge(event, "normal"), u: (event) => judge(event, "unsure"), g: openGroup, s: openRest,
  j: () => step(1), arrowdown: () => step(1), k: () => step(-1), arrowup: () => step(-1), z: undo, r: learn,
  h: () => history.show(walk), c: () => at("comment").focus(),
  "?": help, "/": () => at("filter").focus(),
};
const READING_KEYS = ["j", "k", "arrowdown", "arrowup", "h", "?", "/"];
const WHILE_HELD = ["j", "k", "arrowdown", "arrowup"];

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const key = keyOf(event);
  if (isTyping(event)) {
    if (key === "escape") { event.target.value = ""; event.target.dispatchEvent(new Event("input")); event.target.blur(); }
    if (key === "enter") event.target.blur();
    return;
  }
  if (key.startsWith("arrow") && event.target.matches("input[type=range], [role=region]")) return;
  if (isCharacter(key) && !lettersAreOn()) return;
  if (page.state && page.state.reading && !READING_KEYS.includes(key)) return;
  const job = /^[1-9]$/.test(key) ? (pressed) => judgeClass(pressed, Number(key)) : KEYS[key];
  if (!job || !page.state || !page.state.opened || (event.repeat && !WHILE_HELD.includes(key))) return;
  event.preventDefault();
  attempt(job)(event);
});

at("grouped").addEventListener("keydown", (event) => {
  const key = keyOf(event), verdict = { a: "anomaly", n: "normal", u: "unsure" }[key];
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || !lettersAreOn()) return;
  if (verdict) attempt((pressed) => judgeGroup(pressed, verdict))(event);
  else if (/^[1-9]$/.test(key)) attempt((pressed) => judgeClass(pressed, Number(key), judgeGroup))(event);
});
for (const button of document.querySelectorAll(".verdict")) button.addEventListener("click", attempt((event) => (group.isOpen() ? judgeGroup : judge)(event, button.dataset.verdict)));
at("undo").addEventListener("click", attempt(undo));
at("refit").addEventListener("click", attempt(learn));
at("finish").addEventListener("click", attempt(finish));
at("group").addEventListener("click", attempt(openGroup));
at("rest").addEventListener("click", attempt(openRest));
at("by-kind").addEventListener("change", attempt(async (event) => { page.kind = event.target.value; await filtered(); }));
at("kinds-open").addEventListener("click", attempt(() => kindList.show(page.state.reading, async (kind, muted) => {
  if (muted && page.kind === String(kind.number)) page.kind = "";
  await update();
})));
at("me").addEventListener("click", () => { at("help").showModal(); at("who").focus(); });
at("help-open").addEventListener("click", help);
at("naming-form").addEventListener("submit", nameIt);
at("threshold").addEventListener("input", progress.chosen);
page.go = walk;
at("history-open").addEventListener("click", attempt(() => history.show(walk)));
for (const name of ["by-who", "by-label", "by-day", "by-split"]) at(name).addEventListener("change", attempt(() => history.show(walk)));
at("rename-form").addEventListener("submit", (event) => history.rename(event, async () => { await history.show(walk); await update(); }));
at("use-threshold").addEventListener("click", attempt(useThreshold));
at("letters").checked = lettersAreOn();
at("letters").addEventListener("change", (event) => switchLetters(event.target.checked));
at("who").value = localStorage.getItem("dplan-who") || "";
at("who").addEventListener("input", (event) => localStorage.setItem("dplan-who", event.target.value.trim()));
for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
at("filter").value = ""; // which a browser may have kept from before a reload
let typed = 0;
at("filter").addEventListener("input", (event) => {
  page.filter = event.target.value;
  clearTimeout(typed);
  typed = setTimeout(() => filtered().catch(trouble), 150);
});

poll();
