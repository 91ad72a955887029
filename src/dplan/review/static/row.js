// One row: its reasons with small pictures, similar rows that were decided before, and all values.
import { get } from "./api.js";
import * as context from "./context.js";
import { at, el, named, number, plural, svg } from "./dom.js";

const WIDTH = 220, HEIGHT = 44;

function histogram(picture, label) {
  const step = WIDTH / picture.bins.length;
  const [low, high] = (picture.typical || [0, 0]).map((share) => share * WIDTH);
  const typical = picture.typical ? [svg("rect", { class: "typical", x: low.toFixed(1),
    width: Math.max(high - low, 1).toFixed(1), y: 0, height: HEIGHT })] : [];
  const bars = picture.bins.map((share, i) =>
    svg("rect", { class: "bin", x: (i * step + 0.5).toFixed(1), width: (step - 1).toFixed(1),
      y: (HEIGHT - share * (HEIGHT - 8)).toFixed(1), height: (share * (HEIGHT - 8)).toFixed(1) }));
  const x = (picture.at * (WIDTH - 4) + 2).toFixed(1);
  const here = picture.at === null ? [] : [svg("path", { class: "here", d: `M${x} 0V${HEIGHT}` }),
    svg("circle", { class: "here-dot", cx: x, cy: 4, r: 4 })];
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + 2}`, class: "spread", role: "img", "aria-label": label },
    ...typical, ...bars,
    svg("path", { class: "base", d: `M0 ${HEIGHT + 0.5}H${WIDTH}` }),
    ...here);
  return el("figure", { class: "picture" }, chart,
    el("figcaption", {}, el("span", {}, picture.ends[0]), el("span", {}, picture.ends[1])));
}

function levels(picture, label) {
  const most = Math.max(...picture.bars.map((bar) => bar[1]), 0.0001);
  const rows = picture.bars.map(([name, share, mine]) => {
    const fill = el("i", { class: mine ? "mine" : "" });
    fill.style.width = `${Math.max((100 * share) / most, 1)}%`;
    return el("div", { class: mine ? "mine" : "" }, el("bdi", {}, name), el("span", { class: "track" }, fill),
      el("span", { class: "share" }, share < 0.005 && share > 0 ? "<1 %" : `${Math.round(100 * share)} %`));
  });
  return el("div", { class: "levels", role: "img", "aria-label": label }, ...rows);
}

function reason(found) {
  const label = `${found.name}: this row has ${found.value}; typical ${found.typical}`;
  const picture = found.picture.bins ? histogram(found.picture, label) : levels(found.picture, label);
  const meter = el("i");
  meter.style.width = `${Math.min(100, Math.max(2, 100 * found.share))}%`;
  return el("li", { class: "reason" },
    el("div", { class: "what" },
      el("h3", {}, named(found.name)),
      el("p", { class: "value" }, el("bdi", {}, found.value)),
      el("p", { class: "note" }, el("bdi", {}, found.note.replaceAll(" %", "\u00a0%"))),
      el("p", { class: "effect", title: "Some columns raise the score of a row, others lower it" },
        el("span", { class: "track" }, meter), `${Math.round(100 * found.share)} % of what raises the score`)),
    picture);
}

function similar(details, shown) {
  const groups = [["anomaly", "Known anomalies"], ["normal", "Checked, normal"]];
  const cases = groups.flatMap(([kind]) => details.similar[kind].map((one) => ({ ...one, kind })));
  if (!cases.length) {
    return el("p", { class: "note" }, "As soon as some rows have a verdict, the most similar ones appear here.");
  }
  const heads = groups.filter(([kind]) => details.similar[kind].length).map(([kind, name]) =>
    el("th", { scope: "colgroup", colspan: details.similar[kind].length, class: kind }, name));
  const titles = cases.map((one) => el("th", { scope: "col", class: one.kind }, el("bdi", {}, one.title)));
  const rows = details.values.slice(0, shown).map((value, j) =>
    el("tr", {}, el("th", { scope: "row" }, named(value.name)),
      el("td", { class: "own" }, el("bdi", {}, value.value)),
      ...cases.map((one) => el("td", { class: one.differs[j] ? "differs" : "" },
        el("bdi", {}, one.values[j]), one.differs[j] ? el("span", { class: "quiet" }, " (differs)") : null))));
  const table = el("table", { class: "similar" },
    el("thead", {}, el("tr", {}, el("td", {}), el("th", { scope: "col" }, "This row"), ...heads),
      el("tr", {}, el("td", {}), el("td", {}), ...titles)),
    el("tbody", {}, ...rows));
  table.style.setProperty("--columns", 1 + cases.length);
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Similar rows" }, table);
}

function values(details, page) {
  const line = (value) => el("tr", { class: value.unusual ? "unusual" : "" },
    el("th", { scope: "row" }, named(value.name)), el("td", {}, el("bdi", {}, value.value), whole(details, value)),
    el("td", { class: "note" }, value.typical ? el("bdi", {}, value.typical) : "not used by the model"));
  const all = [...details.values, ...details.others];
  const remember = (event) => { page.allColumns = event.target.open; };
  return el("details", { class: "all", open: page.allColumns, ontoggle: remember }, el("summary", {}, `All ${plural(all.length, "column")}`),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "All columns" },
      el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Column"), el("th", { scope: "col" }, "This row"),
        el("th", { scope: "col" }, "Typical"))), el("tbody", {}, ...all.map(line)))));
}

// Long text is cut; all of it can be read.
function whole(details, value) {
  if (value.cut === undefined) return null;
  const read = async () => {
    const found = await get(`/api/value/${details.row}/${value.cut}`);
    at("whole-title").textContent = found.name;
    at("whole-value").textContent = found.value;
    at("whole").showModal();
  };
  return el("button", { type: "button", class: "link", onclick: read }, "read all");
}

export function head(entry) {
  const badges = [
    entry.disagree ? el("span", { class: "badge", title: "The members of the detector rank this row very differently" }, "members disagree") : null,
    entry.explored ? el("span", { class: "badge", title: "Only the unsupervised explorers find this row" }, "explorer") : null,
    entry.kind ? el("span", { class: "badge kind" }, "kind: ", el("bdi", {}, entry.kind)) : null,
    ...(entry.groups || []).map((one) => el("span", { class: "badge" }, `one of ${number(one.rows)} ${one.title}`)),
  ];
  return [
    el("h2", { class: "row-id" }, el("bdi", {}, entry.id)),
    el("p", { class: "standing" },
      el("b", {}, entry.score.toFixed(2)), " score · rank ", el("b", {}, number(entry.rank)),
      ` · above ${Math.min(99.9, entry.percentile).toFixed(1)} % of training rows`),
    el("p", { class: "badges" }, ...badges),
    entry.judged ? el("p", { class: `row-note ${entry.judged.verdict}`, role: "status" },
      el("bdi", {}, entry.judged.who || "Someone"), " marked this row as ", el("bdi", {}, entry.judged.class || entry.judged.verdict), ` (${new Date(entry.judged.time).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}).`,
      entry.judged.comment ? el("bdi", {}, ` “${entry.judged.comment}”`) : null) : "",
  ];
}

export function body(details, page, go) {
  const reasons = details.reasons.length
    ? el("ol", { class: "reasons" }, ...details.reasons.map(reason))
    : el("p", { class: "note" }, "No single column explains the score of this row.");
  const novelty = details.novelty === null ? null
    : el("p", { class: "note novelty" }, `More unusual than ${Math.min(99.9, details.novelty).toFixed(1)} % of training rows, whatever the labels say.`);
  return [
    el("section", {}, el("h2", {}, "Why this row"), reasons, novelty),
    el("section", {}, el("h2", {}, "Similar rows"), similar(details, 10)),
    context.section(details, go) || "",
    el("section", {}, values(details, page)),
  ];
}
