// What was decided: every row with a verdict, by person, label and day; open one to see it again and to change it.
import { get, post } from "./api.js";
import { at, el, number, plural } from "./dom.js";

const FIELDS = ["who", "label", "day"];
const local = (time) => new Date(time).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
const label = (one) => one.class || one.verdict;

export async function show(go) {
  const wanted = FIELDS.map((name) => `${name}=${encodeURIComponent(at(`by-${name}`).value || "")}`).join("&");
  const found = await get(`/api/history?${wanted}&split=${at("by-split").checked ? 1 : ""}`);
  for (const name of FIELDS) choices(at(`by-${name}`), found.choices[name]);
  at("by-split-label").lastChild.textContent = ` only disagreements (${number(found.split)})`;
  const both = found.twice ? ` ${plural(found.twice, "row was", "rows were")} decided by several people; they agree on ${number(found.twice - found.split)}.` : "";
  at("history-note").textContent = found.total ? `${plural(found.total, "row")}${found.total > found.rows.length ? `, the latest ${number(found.rows.length)} are listed` : ""}.${both}` : "No row has such a verdict.";
  at("history-rows").replaceChildren(...found.rows.map((one) => line(one, go)));
  const named = found.choices.label.map(([name]) => name).filter((name) => !["anomaly", "normal", "unsure"].includes(name));
  at("rename-from").replaceChildren(...named.map((name) => el("option", { value: name }, name)));
  at("rename-form").hidden = !named.length;
  if (!at("history").open) at("history").showModal();
}

function choices(select, found) {
  const before = select.value;
  select.replaceChildren(el("option", { value: "" }, "all"), ...found.map(([name, n]) => el("option", { value: name }, `${name} (${number(n)})`)));
  select.value = found.some(([name]) => name === before) ? before : "";
}

function line(one, go) {
  const open = one.row === null ? el("bdi", {}, one.id)
    : el("button", { type: "button", class: "link", onclick: () => { at("history").close(); go({ row: one.row, id: one.id, score: one.score, rank: 0, percentile: 0 }); } }, el("bdi", {}, one.id));
  const earlier = one.earlier.length ? el("span", { class: "note" }, ` before: ${one.earlier.map((other) => `${label(other)} (${other.who}${other.comment ? `: “${other.comment}”` : ""})`).join(", ")}`) : null;
  return el("tr", {}, el("td", {}, open), el("td", {}, el("bdi", {}, label(one)), earlier), el("td", {}, el("bdi", {}, one.who)),
    el("td", {}, local(one.time)), el("td", {}, one.score.toFixed(2)), el("td", {}, el("bdi", {}, one.comment)));
}

export async function rename(event, then) {
  event.preventDefault();
  const before = at("rename-from").value, after = at("rename-to").value.trim();
  if (!before || !after) return;
  try {
    const { name } = await post("/api/rename", { from: before, to: after });
    at("rename-said").textContent = `${before} is now ${name}.`;
    at("rename-to").value = "";
    await then();
  } catch (problem) {
    at("rename-said").textContent = problem.message;
  }
}
