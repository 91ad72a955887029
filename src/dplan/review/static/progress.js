// Progress, when to stop, and the threshold.
import { at, el, number, plural, svg } from "./dom.js";

const WIDTH = 320, HEIGHT = 150, LEFT = 30, BOTTOM = 20;

export function draw(state) {
  const { counts, recent, curve } = state;
  at("tiles").replaceChildren(
    tile(number(counts.anomaly), "anomalies"), tile(number(counts.normal), "normal"),
    tile(number(counts.reviewed), "looked at"),
    tile(recent.of ? `${Math.round((100 * recent.found) / recent.of)} %` : "–", `of the last ${recent.of || 20}`));
  at("curve").replaceChildren(...(curve.found.length > 1 ? [chart(curve)] : []));
  const last = curve.without.length ? Math.round(curve.without.at(-1)) : null;
  at("curve-note").replaceChildren(...(curve.found.length > 1 && last !== null
    ? [el("i", { class: "line found" }), `this review: ${number(curve.found.at(-1))} `, el("i", { class: "line without" }),
      `without feedback: about ${number(last)}`] : ["The curve begins with the second verdict."]));
  at("stop").textContent = stop(state);
}

const tile = (value, text) => el("div", {}, el("b", {}, value), el("span", {}, text));

function stop(state) {
  if (!state.next) return "After ten verdicts, this says how many anomalies to expect among the next rows.";
  const { rows, expected, low, high } = state.next;
  const range = `${low} to ${high} (90 % interval)`;
  if (high <= 2) return `Hardly any anomalies are left near the top: among the next ${rows} rows, expect ${range}. A good time to stop.`;
  return `Among the next ${rows} rows, expect about ${Math.round(expected)} anomalies, ${range}.`;
}

function chart(curve) {
  const most = Math.ceil(Math.max(...curve.found, ...curve.without, 1)), end = curve.looked_at.at(-1);
  const x = (n) => LEFT + ((WIDTH - LEFT - 6) * n) / end, y = (n) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 8) * n) / most;
  const line = (values) => `M${x(0).toFixed(1)} ${y(0).toFixed(1)}` +
    values.map((value, i) => `L${x(curve.looked_at[i]).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const text = (label, tx, ty, anchor) => { const made = svg("text", { x: tx, y: ty, "text-anchor": anchor, class: "small" }); made.textContent = label; return made; };
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img",
    "aria-label": `Anomalies found: ${curve.found.at(-1)} after ${end} rows; without feedback about ${Math.round(curve.without.at(-1) ?? 0)}` },
    svg("path", { class: "grid", d: `M${LEFT} ${y(most).toFixed(1)}H${WIDTH - 6}` }),
    svg("path", { class: "axis", d: `M${LEFT} ${y(0)}H${WIDTH - 6}` }),
    svg("path", { class: "without", d: line(curve.without) }),
    svg("path", { class: "found", d: line(curve.found) }),
    text(number(most), LEFT - 5, y(most) + 4, "end"), text("0", LEFT - 5, y(0) + 4, "end"),
    text(`${number(end)} looked at`, WIDTH - 6, HEIGHT - 4, "end"));
}

let volumes = null, kept = 0; // alerts that the reviewer wants; until then, the slider is at the threshold of the model

export function threshold(data) {
  const slider = at("threshold");
  volumes = data;
  slider.max = data.volume.length - 1;
  const wanted = data.volume.findIndex(([score, volume]) => (kept ? volume >= kept : score <= data.threshold));
  slider.value = wanted < 0 ? data.volume.length - 1 : wanted;
  moved();
}

export function chosen() {
  if (!volumes) return;
  kept = volumes.volume[at("threshold").value][1];
  moved();
}

function moved() {
  const [score, volume] = volumes.volume[at("threshold").value];
  const above = volumes.reviewed.filter(([found]) => found >= score);
  const hits = above.filter(([, anomaly]) => anomaly).length;
  const missed = volumes.reviewed.filter(([found, anomaly]) => anomaly && found < score).length;
  at("volume").textContent = `${number(volume)} (${((100 * volume) / volumes.rows).toPrecision(2)} %)`;
  at("threshold").setAttribute("aria-valuetext", `${number(volume)} alerts at a score of ${score.toFixed(3)}`);
  const precision = above.length ? `${Math.round((100 * hits) / above.length)} % of ${plural(above.length, "reviewed alert")} ${above.length === 1 ? "is an anomaly" : "are anomalies"}` : "none of these alerts has been reviewed";
  at("threshold-note").textContent = `Score at least ${score.toFixed(3)}: ${precision}; ${plural(missed, "known anomaly", "known anomalies")} below.`;
}
