// Progress, when to stop, and the threshold.
import { at, el, number, plural, svg } from "./dom.js";

const WIDTH = 320, HEIGHT = 150, LEFT = 30, BOTTOM = 20;

export function draw(state) {
  const { counts, recent, curve } = state;
  at("tiles").replaceChildren(
    tile(number(counts.anomaly), "anomalies"), tile(number(counts.normal), "normal"),
    tile(number(counts.reviewed), "looked at"),
    tile(recent.of ? `${Math.round((100 * recent.found) / recent.of)} %` : "–", `of the last ${recent.of || 20}`));
  const { rows, target } = state.today;
  at("today").textContent = target ? `${number(rows)} of ${number(target)} today` : rows ? `${number(rows)} today` : "";
  at("target").hidden = !target;
  Object.assign(at("target"), { max: target || 1, value: Math.min(rows, target) });
  at("curve").replaceChildren(...(curve.found.length > 1 ? [chart(curve)] : []));
  at("curve-note").textContent = curve.found.length > 1 ? "Anomalies found against rows looked at." : "The curve begins with the second verdict.";
  at("stop").textContent = stop(state);
}

const tile = (value, text) => el("div", {}, el("b", {}, value), el("span", {}, text));

function stop(state) {
  if (!state.next) return `After ${number(state.fewest)} verdicts that are not unsure, this says how many anomalies to expect among the next rows.`;
  const { rows, expected, low, high } = state.next;
  const range = `${low} to ${high} (90 % interval)`;
  if (high <= 2) return `Hardly any anomalies are left near the top: among the next ${rows} rows, expect ${range}. A good time to stop.`;
  return `Among the next ${rows} rows, expect about ${plural(Math.round(expected), "anomaly", "anomalies")}, ${range}.`;
}

function chart(curve) {
  const most = Math.ceil(Math.max(...curve.found, 1)), end = curve.looked_at.at(-1);
  const x = (n) => LEFT + ((WIDTH - LEFT - 6) * n) / end, y = (n) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 8) * n) / most;
  const line = (values) => `M${x(0).toFixed(1)} ${y(0).toFixed(1)}` +
    values.map((value, i) => `L${x(curve.looked_at[i]).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const text = (label, tx, ty, anchor) => { const made = svg("text", { x: tx, y: ty, "text-anchor": anchor, class: "small" }); made.textContent = label; return made; };
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img",
    "aria-label": `Anomalies found: ${curve.found.at(-1)} after ${end} rows` },
    svg("path", { class: "grid", d: `M${LEFT} ${y(most).toFixed(1)}H${WIDTH - 6}` }),
    svg("path", { class: "axis", d: `M${LEFT} ${y(0)}H${WIDTH - 6}` }),
    svg("path", { class: "found", d: line(curve.found) }),
    text(number(most), LEFT - 5, y(most) + 4, "end"), text("0", LEFT - 5, y(0) + 4, "end"),
    text(`${number(end)} looked at`, WIDTH - 6, HEIGHT - 4, "end"));
}

let levels = null, kept = 0; // alerts that the reviewer wants; until then, the slider is at the threshold of the model

export function threshold(data) {
  const slider = at("threshold");
  levels = data;
  slider.max = data.volume.length - 1;
  const wanted = data.volume.findIndex(({ score, alerts }) => (kept ? alerts >= kept : score <= data.threshold));
  slider.value = wanted < 0 ? data.volume.length - 1 : wanted;
  moved();
}

export function chosen() {
  if (!levels) return;
  kept = levels.volume[at("threshold").value].alerts;
  at("threshold-said").textContent = "";
  moved();
}

export const level = () => levels && { ...levels.volume[at("threshold").value], round: levels.round };

export function used({ model, score, alerts }) {
  at("threshold-said").textContent = `${model} now makes scores of at least ${score.toFixed(3)} alerts: ${number(alerts)} in this table. When the detector learns again, the threshold is set anew for as many alerts.`;
}

function moved() {
  const { score, alerts, reviewed, found, missed, others } = level();
  at("volume").textContent = `${number(alerts)} (${((100 * alerts) / levels.rows).toPrecision(2)} %)`;
  at("threshold").setAttribute("aria-valuetext", `${plural(alerts, "alert")} at a score of ${score.toFixed(3)}`);
  const left = alerts - reviewed, range = (low, high) => (low === high ? number(low) : `${number(low)} to ${number(high)}`);
  const known = reviewed ? `${number(reviewed)} reviewed, ${number(found)} of them ${found === 1 ? "an anomaly" : "anomalies"}` : "none of them reviewed";
  const rest = !left ? "" : others ? `; of the other ${number(left)}, expect ${range(...others)} (90 % interval)` : `; after ${number(levels.fewest)} verdicts, this says how many anomalies to expect among them`;
  const share = others && alerts ? ` Precision: ${range(Math.round((100 * (found + (left ? others[0] : 0))) / alerts), Math.round((100 * (found + (left ? others[1] : 0))) / alerts))}\u00a0%.` : "";
  at("threshold-note").textContent = `Score at least ${score.toFixed(3)}: ${known}${rest}.${share}${missed ? ` ${plural(missed, "known anomaly is", "known anomalies are")} below.` : ""}`;
}
