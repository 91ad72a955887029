// All kinds of rows, with their rules: which are muted, by whom, why and until when.
import { get, post } from "./api.js";
import { at, el, number } from "./dom.js";

let chosen = null; // the kind that the form would mute

// Show the list; `reading` if nothing may be changed, `then` is called after a change.
export async function show(reading, then) {
  const { kinds } = await get("/api/kinds");
  at("muting-said").textContent = kinds.length ? "" : "No kind in the file has a rule, so it is not known which rows are of a kind.";
  draw(kinds, reading, then);
  at("mute-form").onsubmit = (event) => { event.preventDefault(); change(chosen, true, reading, then); };
  at("all-kinds").showModal();
}

function draw(kinds, reading, then) {
  at("mute-form").hidden = true;
  at("all-kinds").querySelector(".scroll").hidden = !kinds.length;
  at("mute-reason").value = "";
  at("all-kinds-rows").replaceChildren(...kinds.map((one) => el("tr", {},
    el("th", { scope: "row" }, el("bdi", {}, one.name)),
    el("td", {}, one.muted ? el("span", { class: "note" }, `until ${one.muted.until} by `, el("bdi", {}, one.muted.owner), ": ", el("bdi", {}, one.muted.reason), " ") : null,
      reading ? null : el("button", { type: "button", onclick: () => (one.muted ? change(one, false, reading, then) : ask(one)) }, one.muted ? "Unmute" : "Mute…")),
    el("td", {}, el("bdi", {}, one.rule)), el("td", {}, number(one.open)), el("td", {}, number(one.decided)))));
}

function ask(one) {
  chosen = one;
  at("mute-name").textContent = one.name;
  at("muting-said").textContent = "";
  at("mute-form").hidden = false;
  at("mute-reason").focus();
}

async function change(one, mute, reading, then) {
  try {
    const { kinds } = await post("/api/mute", { rule: one.id, mute, reason: at("mute-reason").value });
    draw(kinds, reading, then);
    at("muting-said").textContent = mute ? `Muted: ${one.name}.` : `Not muted any more: ${one.name}.`;
    await then(one, mute);
  } catch (problem) {
    at("muting-said").textContent = problem.message;
  }
}
