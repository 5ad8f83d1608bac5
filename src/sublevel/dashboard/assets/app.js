// The page: asks the server for what is new, and draws it.

import { SHADES, Figure, drawDots, drawLines, drawParallel, duration, element, format, shares, whole } from "./charts.js";

const $ = (id) => document.getElementById(id);
const RUNNING = 1000, IDLE = 2000, LOST = 3000, HIDDEN = 15000, AT_ONCE = 20; // milliseconds until the next request
const WINDOWS = 32; // over which the rate of evaluations is averaged
const page = { run: 0, seen: "", runs: [], detail: null, comparison: [], compared: null, brushes: new Map(), slices: new Map(), timer: 0, asked: 0 };

const figures = {
  compare: new Figure($("chart-compare"), "Best value", drawLines),
  values: new Figure($("chart-values"), "Values", drawLines),
  axes: new Figure($("chart-axes"), "Step size and principal axes", drawLines),
  mean: new Figure($("chart-mean"), "Mean of the search", drawLines),
  deviations: new Figure($("chart-deviations"), "Standard deviations of the search", drawLines),
  rate: new Figure($("chart-rate"), "Evaluations per second", drawLines),
  violation: new Figure($("chart-violation"), "Constraint violation", drawLines),
  agreement: new Figure($("chart-agreement"), "Agreement of the surrogate", drawLines),
  failed: new Figure($("chart-failed"), "Failed evaluations", drawLines),
  parallel: new Figure($("chart-parallel"), "Parallel coordinates", drawParallel),
};

figures.parallel.legend.hidden = true;

async function ask() {
  clearTimeout(page.timer);
  const asked = ++page.asked;
  const query = new URLSearchParams({ run: page.run, seen: page.seen, filter: $("filter").value });
  if (page.compared?.size) query.set("compare", [...page.compared].join(","));
  let wait = LOST;
  try {
    const response = await fetch(`api/update?${query}`);
    if (!response.ok) throw new Error(await response.text());
    const answer = await response.json();
    if (asked !== page.asked) return; // another run or filter was chosen meanwhile
    wait = take(answer);
  } catch (error) {
    if (asked !== page.asked) return;
    setLive("off", "no connection");
    console.info(String(error));
  }
  page.timer = setTimeout(ask, document.hidden ? HIDDEN : wait);
}

/** Show an answer; returns the milliseconds until the next request. */
function take(answer) {
  page.runs = answer.runs;
  page.comparison = answer.comparison ?? [];
  const isFirst = page.compared === null;
  if (isFirst) page.compared = new Set(page.runs.length > 1 ? page.runs.slice(0, 8).map((run) => run.id) : []);
  showRuns();
  const detail = answer.run;
  showError(detail?.error);
  if (detail && !detail.error && detail.version !== page.seen) {
    page.seen = detail.version;
    page.detail = detail;
    showDetail();
  }
  const isRunning = page.runs.some((run) => run.running);
  setLive(page.detail?.running ? "on" : "", page.detail ? page.detail.state.replaceAll("_", " ") : "no run");
  document.body.dataset.ready = "yes";
  if (page.detail && page.detail.read < 1 && !detail?.error) return AT_ONCE;
  return isFirst && page.compared.size ? AT_ONCE : isRunning ? RUNNING : IDLE;
}

function setLive(state, text) {
  $("live").className = `live ${state}`;
  if ($("live-text").textContent !== text) $("live-text").textContent = text;
}

function showError(text) {
  $("error").hidden = !text;
  $("error").textContent = text ?? "";
}

function choose(number) {
  page.run = number;
  page.seen = "";
  page.detail = null;
  page.brushes.clear();
  history.replaceState(null, "", `#${number}`);
  $("run").value = String(number);
  ask();
}

/* The list of runs and their comparison. */

function showRuns() {
  const isMany = page.runs.length > 1;
  $("comparison").hidden = $("picker").hidden = !isMany;
  const current = page.runs.find((run) => run.id === page.run);
  setText($("name"), current?.name ?? "no run");
  document.title = current ? `${current.name} – sublevel` : "sublevel dashboard";
  $("csv").href = `api/runs/${page.run}/evaluations.csv`;
  $("json").href = `api/runs/${page.run}/run.json`;
  if (!isMany) return;
  const key = JSON.stringify([page.runs.map((run) => [run.id, run.name])]);
  if ($("run").dataset.key !== key) {
    $("run").dataset.key = key;
    $("run").replaceChildren(...page.runs.map((run) => element("option", { value: run.id, text: run.name })));
    $("run").value = String(page.run);
  }
  keepRows($("runs").tBodies[0], page.runs, newRunRow, fillRunRow);
  showComparison();
}

/** Rows of a table, one for each item; rows are kept, so that focus and scrolling are. */
function keepRows(body, items, make, fill) {
  while (body.rows.length > items.length) body.lastElementChild.remove();
  items.forEach((item, i) => {
    if (i >= body.rows.length) body.append(make(item));
    fill(body.rows[i], item);
  });
}

function setText(node, text, name) {
  if (node.textContent !== text) node.textContent = text;
  if (name !== undefined && node.className !== name) node.className = name;
}

function newRunRow(run) {
  const box = element("input", { type: "checkbox" }), button = element("button", { type: "button" });
  box.addEventListener("change", () => {
    if (box.checked) page.compared.add(run.id); else page.compared.delete(run.id);
    ask();
  });
  button.addEventListener("click", () => choose(run.id));
  return element("tr", {}, element("td", {}, box), element("td", {}, button), element("td", {}, element("span")),
    ...Array.from({ length: 4 }, () => element("td", { class: "number" })));
}

function fillRunRow(row, run) {
  const [box, name, state, ...numbers] = row.cells;
  row.className = run.id === page.run ? "current" : "";
  box.firstChild.checked = page.compared.has(run.id);
  box.firstChild.setAttribute("aria-label", `compare ${run.name}`);
  setText(name.firstChild, run.name);
  setText(state.firstChild, run.state.replaceAll("_", " "), `pill ${run.running ? "running" : run.error ? "bad" : ""}`);
  row.title = run.error ?? "";
  const texts = run.error ? ["", "", "", ""] : [format(run.best, 6), whole(run.nfev), whole(run.restarts), duration(run.seconds)];
  texts.forEach((text, i) => setText(numbers[i], text));
}

function showComparison() {
  const by = $("compare-by").value, found = page.comparison;
  const best = Math.min(...found.flatMap((one) => one.best.filter((value) => value !== null)));
  const view = valueView($("scale").value, found.flatMap((one) => one.best), best);
  figures.compare.update({
    series: found.map((one) => ({ name: page.runs[one.id]?.name ?? "", x: one[by], y: one.best.map(view.map), colour: one.id, weight: one.id === page.run ? "bold" : "" })),
    kind: view.kind, xForm: by === "nfev" ? "count" : "seconds", xLabel: by === "nfev" ? "evaluations" : "", hint: view.hint, none: "choose runs to compare",
  });
}

/* One run. */

/** How values are drawn: as they are, or above the best one; on a linear or a logarithmic axis. */
function valueView(mode, values, best) {
  const known = values.filter((value) => value !== null);
  const low = Math.min(...known), high = Math.max(...known);
  const plain = (value) => value;
  if (mode === "log" || (mode === "auto" && low > 0 && high > 50 * low)) return { kind: "log", map: plain, hint: "" };
  if (mode === "distance") return { kind: "log", map: (value) => (value === null ? null : value - best), hint: "above the best value" };
  return { kind: "linear", map: plain, hint: "" };
}

function showDetail() {
  const { totals, curves } = page.detail;
  $("reading").value = page.detail.read;
  $("reading").className = page.detail.read >= 1 ? "done" : "";
  setText($("message"), page.detail.message);
  const tiles = {
    best: format(totals.best, 6) + (totals.error === null ? "" : ` ± ${format(totals.error, 2)}`), nfev: whole(totals.nfev), nit: whole(totals.nit), sigma: format(totals.sigma, 3), ratio: format(totals.ratio, 3),
    restarts: whole(totals.restarts), failed: whole(totals.failed), rate: format(totals.rate, 3),
  };
  for (const [name, text] of Object.entries(tiles)) setText($(`tile-${name}`), text);
  $("tile-best").title = String(totals.best ?? "");
  $("tile-failed").className = totals.failed ? "bad" : "";
  document.body.dataset.nfev = totals.nfev;
  showValues(curves, totals);
  showTrace(page.detail.trace, page.detail.variables.shown);
  showRate(curves);
  showMore(curves);
  showVariables(page.detail.variables);
  showEvaluations();
  showTables();
}

const byTime = () => $("by").value === "seconds";
const overX = () => ({ xForm: byTime() ? "seconds" : "count", xLabel: byTime() ? "" : "evaluations" });

/** Evaluations at which restarts begin; none if there are so many that they would cover the curves. */
function restartMarks(curves) {
  const places = curves.run.flatMap((run, i) => (i && run !== curves.run[i - 1] ? [curves[$("by").value][i - 1]] : []));
  return places.length <= 20 ? places : [];
}

function showValues(curves, totals) {
  const view = valueView($("scale").value, [...curves.best, ...curves.lowest], totals.best), x = curves[$("by").value];
  const open = totals.open ? `${whole(totals.open)} evaluated in the next generation` : "";
  figures.values.update({
    series: [
      { name: "median of a generation", x, y: curves.median.map(view.map), colour: 8, weight: "dim", breaks: curves.run },
      { name: "best of a generation", x, y: curves.lowest.map(view.map), colour: 9, weight: "thin", breaks: curves.run },
      { name: page.detail.noise ? "level of the answer" : "best so far", x, y: curves.best.map(view.map), colour: 0, weight: "bold" },
    ],
    kind: view.kind, ...overX(), marks: restartMarks(curves), hint: [view.hint, open].filter(Boolean).join(" · "), none: "no finished generation yet",
  });
}

function showTrace(trace, shown) {
  const x = trace.nfev, breaks = trace.run, xLabel = "evaluations";
  const axes = trace.axes.map((y, i) => ({ name: i === 0 ? "principal axes" : "", x, y, colour: 9, weight: "thin", breaks }));
  figures.axes.update({ series: [...axes, { name: "σ, their geometric mean", x, y: trace.sigma, colour: 1, weight: "bold", breaks }], kind: "log", xLabel });
  const named = (list, keep = () => true) => list.map((y, i) => ({ name: shown[i].name, x, y, colour: i, breaks })).filter((one, i) => keep(shown[i]));
  const areLog = shown.length > 0 && shown.every((one) => one.log);
  figures.mean.update({ series: named(trace.mean), kind: areLog ? "log" : "linear", xLabel, hint: someOf() });
  figures.deviations.update({ series: named(trace.deviations, (one) => !one.labels), kind: "log", xLabel, hint: someOf() });
}

function someOf() {
  const { count, shown } = page.detail.variables;
  return shown.length < count ? `${shown.length} of ${whole(count)} variables` : "";
}

function showRate(curves) {
  const step = Math.max(Math.ceil(curves.nfev.length / WINDOWS), 1), x = [], y = [];
  for (let i = step; i < curves.nfev.length; i += step) {
    const time = curves.seconds[i] - curves.seconds[i - step];
    x.push(curves[$("by").value][i]);
    y.push(time > 0 ? (curves.nfev[i] - curves.nfev[i - step]) / time : null);
  }
  const workers = page.detail.facts.workers;
  figures.rate.update({ series: [{ name: "evaluations per second", x, y, colour: 2 }], ...overX(), hint: workers === "1" ? "" : `workers: ${workers}` });
}

/** Charts that only some runs have. */
function showMore(curves) {
  const x = curves[$("by").value];
  for (const name of ["violation", "agreement"]) $(`chart-${name}`).hidden = !curves[name];
  $("chart-failed").hidden = !page.detail.totals.failed;
  if (curves.violation) {
    const share = curves.feasible.map((count, i) => (curves.evaluated[i] ? count / curves.evaluated[i] : null));
    figures.violation.update({
      series: [{ name: "violation at the best point", x, y: curves.violation, colour: 1, weight: "bold" }, { name: "share of feasible points", x, y: share, colour: 2, weight: "thin" }], ...overX(),
    });
  }
  if (curves.agreement) figures.agreement.update({ series: [{ name: "rank correlation", x, y: curves.agreement, colour: 3, breaks: curves.run }], ...overX() });
  if (page.detail.totals.failed) {
    let sum = 0;
    const y = curves.failed.map((count) => (sum += count)), share = format((100 * page.detail.totals.failed) / page.detail.totals.nfev, 2);
    figures.failed.update({ series: [{ name: "failed so far", x: [0, ...x], y: [0, ...y], colour: 10, weight: "bold" }], ...overX(), hint: `${share} % of the evaluations` });
  }
}

function showVariables(variables) {
  setText($("matching"), $("filter").value.trim() ? `${whole(variables.matching)} of ${whole(variables.count)}` : `${whole(variables.count)} ${variables.count === 1 ? "variable" : "variables"}`);
  const constants = Object.entries(variables.constants).map(([name, best]) => ({ name, best, mean: "", spread: "constant", covariance: null, evaluations: null }));
  keepRows($("variables").tBodies[0], [...variables.rows, ...constants], newVariableRow, fillVariableRow);
}

function newVariableRow() {
  const bars = element("div", { class: "importance", role: "img" }, element("span", { class: "k1" }, element("i")), element("span", { class: "k2" }, element("i")));
  return element("tr", {}, element("td"), element("td", {}, bars), ...Array.from({ length: 3 }, () => element("td", { class: "number" })));
}

function fillVariableRow(row, variable) {
  setText(row.cells[0], variable.name);
  [variable.best, variable.mean, variable.spread].forEach((text, i) => setText(row.cells[i + 2], text));
  const bars = row.cells[1].firstChild, percent = (share) => (share === null ? "unknown" : `${format(100 * share, 2)} %`);
  bars.setAttribute("aria-label", `importance of ${variable.name}: ${percent(variable.covariance)} from the covariance, ${percent(variable.evaluations)} from the evaluations`);
  bars.title = `covariance ${percent(variable.covariance)}, evaluations ${percent(variable.evaluations)}`;
  [variable.covariance, variable.evaluations].forEach((share, i) => { bars.children[i].firstChild.style.width = `${100 * (share ?? 0)}%`; });
}

/* Single evaluations: parallel coordinates and slices, with a selection. */

function evaluationView() {
  const { evaluations, variables, totals } = page.detail;
  const view = valueView($("scale").value, evaluations.value, totals.best), values = evaluations.value.map(view.map);
  const axes = variables.shown.map((one, k) => ({ key: String(one.index), name: one.name, values: evaluations.points[k], kind: one.log ? "log" : "linear", labels: one.labels, best: one.best }));
  axes.push({ key: "value", name: "value", values, kind: view.kind, labels: null });
  const { feasible, value } = evaluations; // from the worst to the best; points that violate constraints are the worst
  const order = values.map((_, i) => i).filter((i) => values[i] !== null).sort((i, j) => feasible[i] - feasible[j] || value[j] - value[i]);
  return { axes, values, order, kind: view.kind, best: totals.best === null ? null : view.map(totals.best) };
}

function selected(view) {
  const best = view.order.slice(Math.floor(view.order.length * (1 - Number($("share").value) / 100)));
  const limits = view.axes.filter((axis) => page.brushes.has(axis.key)).map((axis) => [shares(axis), page.brushes.get(axis.key)]);
  return best.filter((i) => limits.every(([places, [low, high]]) => places[i] >= low && places[i] <= high));
}

function showEvaluations() {
  if (!page.detail) return;
  const view = evaluationView(), { evaluations } = page.detail, chosen = selected(view), rank = new Map();
  const usable = view.order.filter((i) => evaluations.feasible[i]);
  usable.forEach((i, k) => rank.set(i, Math.min(Math.floor((SHADES * k) / usable.length), SHADES - 1)));
  const shade = view.values.map((_, i) => rank.get(i) ?? null);
  figures.parallel.update({
    axes: view.axes, order: chosen, shade, brushes: page.brushes, hint: "drag along an axis to select; the best sixth is orange",
    onBrush: (key, range) => { if (range) page.brushes.set(key, range); else page.brushes.delete(key); showEvaluations(); },
  });
  setText($("selected"), `${whole(chosen.length)} of ${whole(evaluations.index.length)} evaluations drawn, of ${whole(page.detail.totals.nfev)}`);
  setText($("share-text"), `${$("share").value} %`);
  $("clear").disabled = !page.brushes.size && $("share").value === "100";
  showSlices(view, chosen);
}

function showSlices(view, chosen) {
  const variables = view.axes.slice(0, -1), host = $("slices"), keys = variables.map((axis) => axis.key);
  for (const [key, figure] of page.slices) {
    if (!keys.includes(key)) { figure.observer.disconnect(); figure.host.remove(); page.slices.delete(key); }
  }
  const { evaluations } = page.detail, last = evaluations.index.at(-1) || 1;
  const age = (i) => (evaluations.feasible[i] ? Math.min(Math.floor((SHADES * evaluations.index[i]) / (last + 1)), SHADES - 1) : null);
  const shade = chosen.map(age), y = chosen.map((i) => view.values[i]);
  variables.forEach((axis, k) => {
    if (!page.slices.has(axis.key)) page.slices.set(axis.key, new Figure(element("figure", { class: "card chart small" }), axis.name, drawDots));
    const figure = page.slices.get(axis.key);
    setText(figure.heading, axis.name);
    if (host.children[k] !== figure.host) host.insertBefore(figure.host, host.children[k] ?? null);
    figure.legend.hidden = true;
    figure.update({ x: chosen.map((i) => axis.values[i]), y, shade, kind: view.kind, xKind: axis.kind, labels: axis.labels, best: view.best === null ? null : [axis.best, view.best] });
  });
}

/* Tables. */

function plainRows(id, rows, kinds) {
  keepRows($(id).tBodies[0], rows, (row) => element("tr", {}, ...row.map((_, i) => element("td", { class: kinds[i] ?? "" }))), (line, row) => row.forEach((text, i) => setText(line.cells[i], text)));
}

function showErrorBars(bars) {
  $("error-bars-section").hidden = !bars;
  if (!bars) return;
  const kinds = bars.header.map((_, i) => (i ? "number" : ""));
  $("error-bars").tHead.rows[0].replaceChildren(...bars.header.map((text, i) => element("th", { scope: "col", class: kinds[i] }, text)));
  plainRows("error-bars", bars.rows, kinds);
  setText($("error-bars-meaning"), `${bars.meaning}.`);
  plainRows("error-bar-problems", bars.problems.map((text) => [text]), []);
}

function showTables() {
  const { restarts, failures, constraints, facts } = page.detail;
  showErrorBars(page.detail.error_bars);
  plainRows("restarts", restarts.toReversed().map((one) => [String(one.run), whole(one.popsize), whole(one.nfev), format(one.best, 7), one.reason]), ["number", "number", "number", "number"]);
  const counts = Object.entries(failures.counts).map(([kind, count]) => `${whole(count)} ${kind}`).join(", ");
  setText($("failure-counts"), counts || "No evaluation has failed.");
  plainRows("failures", failures.last.map((one) => [one.kind, one.detail, one.point]), ["", "", "faint"]);
  $("constraints-section").hidden = !constraints.length;
  plainRows("constraints", constraints.map((one) => [one.name, format(one.value, 6), format(one.violation, 4)]), ["", "number", "number"]);
  plainRows("settings", Object.entries(facts).filter(([, text]) => text), []);
}

/** Save the page as it looks now: one file without scripts. */
async function saveHtml() {
  const style = await (await fetch("style.css")).text();
  const copy = document.documentElement.cloneNode(true);
  copy.querySelectorAll("script, link, button, select, input, progress, output, noscript, .bar, .tip, nav, label, meta, [hidden], .handle").forEach((node) => node.remove());
  const head = copy.querySelector("head");
  head.prepend(element("meta", { charset: "utf-8" }),
    element("meta", { "http-equiv": "Content-Security-Policy", content: "default-src 'none'; style-src 'unsafe-inline'" }),
    element("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }), element("style", { text: style }));
  const url = URL.createObjectURL(new Blob([`<!doctype html>\n${copy.outerHTML}`], { type: "text/html" }));
  const name = page.runs.find((run) => run.id === page.run)?.name ?? "run";
  const link = element("a", { href: url, download: `${name.replace(/\.[^.]*$/, "").replace(/[^\w.-]+/g, "_") || "run"}.html` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

$("run").addEventListener("change", () => choose(Number($("run").value)));
$("filter").addEventListener("input", () => { page.seen = ""; ask(); });
$("share").addEventListener("input", showEvaluations);
$("clear").addEventListener("click", () => { page.brushes.clear(); $("share").value = "100"; showEvaluations(); });
$("html").addEventListener("click", saveHtml);
$("compare-by").addEventListener("change", showComparison);
for (const id of ["scale", "by"]) $(id).addEventListener("change", () => { if (page.detail) showDetail(); if (page.runs.length > 1) showComparison(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
page.run = /^#\d{1,6}$/.test(location.hash) ? Number(location.hash.slice(1)) : 0;
ask();
