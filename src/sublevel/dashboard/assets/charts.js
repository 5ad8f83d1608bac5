// Charts as SVG. Every text of a run is set by textContent, and no markup is ever made from text.

const SVG = "http://www.w3.org/2000/svg";
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
export const COLOURS = 12, SHADES = 6;

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "text") made.textContent = value;
    else if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

export function format(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) {
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    return `${mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa}e${exponent.replace("+", "")}`;
  }
  return String(Number(value.toPrecision(digits)));
}

export const whole = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en").replaceAll(",", " "));

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 60) return `${format(seconds, 3)} s`;
  if (seconds < 3600) return `${format(seconds / 60, 3)} min`;
  return seconds < 86400 ? `${format(seconds / 3600, 3)} h` : `${format(seconds / 86400, 3)} d`;
}

function power(exponent) {
  const digits = [...String(Math.abs(exponent))].map((digit) => SUPERSCRIPTS[digit]).join("");
  return exponent === 0 ? "1" : exponent === 1 ? "10" : `10${exponent < 0 ? "⁻" : ""}${digits}`;
}

function count(value) {
  if (value >= 1e6) return `${format(value / 1e6, 3)} M`;
  return value >= 1e4 ? `${format(value / 1e3, 3)} k` : format(value, 5);
}

const FORMATS = { number: (value) => format(value, 4), count, seconds: duration };

function niceTicks(low, high, most) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / Math.max(most, 1), unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((candidate) => candidate >= rough) ?? 10 * unit;
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step && ticks.length < 20; k++) ticks.push(k * step);
  return ticks;
}

/** A map from values to pixels, with ticks. Values that have no place on a logarithmic axis map to NaN. */
export class Scale {
  constructor(values, kind, from, to, form = "number", most = 5) {
    const log = kind === "log";
    let low = Infinity, high = -Infinity;
    for (const value of values) {
      if (value === null || !Number.isFinite(value) || (log && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    this.isEmpty = low > high;
    if (this.isEmpty) [low, high] = [1, 10];
    this.log = log;
    let [a, b] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
    if (b - a < 1e-12 * Math.max(Math.abs(a), Math.abs(b), 1e-290)) {
      const margin = log ? 0.3 : Math.abs(a) * 0.05 || 1;
      [a, b] = [a - margin, b + margin];
    }
    Object.assign(this, { a, b, from, to, form, most });
  }

  at(value) {
    if (value === null || (this.log && !(value > 0))) return NaN;
    const place = ((this.log ? Math.log10(value) : value) - this.a) / (this.b - this.a);
    return this.from + place * (this.to - this.from);
  }

  invert(pixel) {
    const place = this.a + ((pixel - this.from) / (this.to - this.from)) * (this.b - this.a);
    return this.log ? 10 ** place : place;
  }

  ticks() {
    const text = FORMATS[this.form];
    if (!this.log) return niceTicks(this.a, this.b, this.most).map((value) => [value, text(value)]);
    if (this.b - this.a < 1.2) {
      return niceTicks(10 ** this.a, 10 ** this.b, this.most).filter((value) => value > 0).map((value) => [value, text(value)]);
    }
    const first = Math.ceil(this.a - 1e-9), last = Math.floor(this.b + 1e-9);
    const step = Math.max(1, Math.ceil((last - first) / this.most)), ticks = [];
    for (let k = Math.ceil(first / step) * step; k <= last; k += step) ticks.push([10 ** k, power(k)]);
    return ticks;
  }
}

/** A figure with a title, a plot that follows its size, and a legend. */
export class Figure {
  constructor(host, title, draw) {
    this.host = host;
    this.heading = element("h3", { text: title });
    this.hint = element("span", { class: "faint" });
    this.svg = shape("svg", { role: "img", "aria-label": title });
    this.tip = element("div", { class: "tip", "aria-hidden": "true", hidden: "" });
    this.plot = element("div", { class: "plot" }, this.svg, this.tip);
    this.legend = element("ul", { class: "legend" });
    host.replaceChildren(element("figcaption", {}, this.heading, this.hint), this.plot, this.legend);
    this.draw = draw;
    this.observer = new ResizeObserver(() => this.render());
    this.observer.observe(this.plot);
    this.svg.addEventListener("pointermove", (event) => this.point?.(event));
    this.svg.addEventListener("pointerleave", () => this.hideTip());
  }

  update(spec) {
    this.spec = spec;
    if (spec.hint !== undefined) this.hint.textContent = spec.hint;
    this.render();
  }

  render() {
    const width = this.plot.clientWidth, height = this.plot.clientHeight;
    if (!this.spec || width < 40 || height < 30) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.draw(this, this.spec, width, height);
  }

  label(text) {
    this.svg.setAttribute("aria-label", text);
  }

  empty(width, height, text) {
    this.svg.replaceChildren(shape("text", { x: width / 2, y: height / 2, class: "empty" }, text));
    this.legend.replaceChildren();
    this.point = null;
    this.label(`${this.heading.textContent}: ${text}`);
  }

  hideTip() {
    this.tip.hidden = true;
    this.cursor?.remove();
  }

  showTip(x, y, rows) {
    this.tip.replaceChildren(...rows.map(([name, value]) =>
      element("div", {}, element("span", { text: name }), element("span", { text: value }))));
    this.tip.hidden = false;
    const width = this.plot.clientWidth, height = this.plot.clientHeight;
    const left = x + this.tip.offsetWidth + 16 > width ? Math.max(x - this.tip.offsetWidth - 12, 0) : x + 12;
    const top = Math.max(Math.min(y - this.tip.offsetHeight / 2, height - this.tip.offsetHeight), 0);
    this.tip.style.transform = `translate(${left}px, ${top}px)`;
  }
}

function axes(svg, x, y, box, xLabel) {
  for (const [value, text] of y.ticks()) {
    const place = y.at(value);
    svg.append(shape("line", { class: "gridline", x1: box.left, x2: box.right, y1: place, y2: place }));
    svg.append(shape("text", { class: "end", x: box.left - 6, y: place + 4 }, text));
  }
  for (const [value, text] of x.ticks()) {
    const place = Math.min(Math.max(x.at(value), box.left + 2), box.right);
    const side = place > box.right - 22 ? "end" : place < box.left + 12 ? "" : "middle";
    svg.append(shape("text", { class: side, x: place, y: box.bottom + 15 }, text));
  }
  svg.append(shape("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  if (xLabel) svg.append(shape("text", { class: "end", x: box.right, y: box.bottom + 28 }, xLabel));
}

function path(xs, ys, x, y, breaks) {
  let text = "", isDown = false;
  for (let i = 0; i < xs.length; i++) {
    const a = x.at(xs[i]), b = y.at(ys[i]);
    if (!Number.isFinite(a) || !Number.isFinite(b)) { isDown = false; continue; }
    if (breaks && i && breaks[i] !== breaks[i - 1]) isDown = false;
    text += isDown ? `L${a.toFixed(1)} ${b.toFixed(1)}` : `M${a.toFixed(1)} ${b.toFixed(1)}h.01`;
    isDown = true;
  }
  return text;
}

function* all(series, key) {
  for (const one of series) yield* one[key];
}

const last = (values) => values.findLast((value) => value !== null && value !== undefined);

/** Curves: spec.series is a list of {name, x, y, colour, weight, breaks, bars}. */
export function drawLines(figure, spec, width, height) {
  const series = spec.series.filter((one) => one.x.length);
  const box = { left: 54, right: width - 8, top: 8, bottom: height - (spec.xLabel ? 32 : 20) };
  const x = new Scale(all(series, "x"), "linear", box.left, box.right, spec.xForm ?? "count", width / 90);
  const y = new Scale(all(series, "y"), spec.kind ?? "linear", box.bottom, box.top, "number", Math.max(height / 55, 2));
  if (!series.length || y.isEmpty) return figure.empty(width, height, spec.none ?? "no data yet");
  figure.svg.replaceChildren();
  axes(figure.svg, x, y, box, spec.xLabel);
  for (const one of series) {
    const names = `line ${one.weight ?? ""} c${one.colour % COLOURS}`;
    figure.svg.append(shape("path", { class: names, d: path(one.x, one.y, x, y, one.breaks) }));
  }
  for (const place of spec.marks ?? []) {
    const a = x.at(place);
    figure.svg.append(shape("line", { class: "cursor", x1: a, x2: a, y1: box.top, y2: box.bottom }));
  }
  figure.legend.replaceChildren(...series.filter((one) => one.name).map((one) =>
    element("li", {}, element("i", { class: `c${one.colour % COLOURS}` }), element("span", { text: one.name }))));
  const named = series.filter((one) => one.name);
  figure.label(`${figure.heading.textContent}. ${named.map((one) => `${one.name}: ${format(last(one.y))}`).join(", ")}`);
  const xText = FORMATS[spec.xForm ?? "count"];
  figure.point = (event) => pointAt(figure, named, x, box, xText, event);
}

function nearest(xs, wanted) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < wanted) low = middle; else high = middle;
  }
  return wanted - xs[low] < xs[high] - wanted ? low : high;
}

function pointAt(figure, series, x, box, text, event) {
  if (!series.length) return;
  const frame = figure.svg.getBoundingClientRect(), pixel = event.clientX - frame.left;
  if (pixel < box.left - 4) return figure.hideTip();
  const wanted = x.invert(pixel), rows = [];
  let place = null;
  for (const one of series) {
    const i = nearest(one.x, wanted);
    place ??= one.x[i];
    rows.push([one.name, format(one.y[i], 6)]);
  }
  figure.cursor?.remove();
  figure.cursor = shape("line", { class: "cursor", x1: x.at(place), x2: x.at(place), y1: box.top, y2: box.bottom });
  figure.svg.append(figure.cursor);
  figure.showTip(x.at(place), event.clientY - frame.top, [[text(place), ""], ...rows]);
}

/** Points of one variable: spec has x, y, shade (a number below SHADES, or null), kind, labels, best. */
export function drawDots(figure, spec, width, height) {
  const box = { left: 44, right: width - 6, top: 6, bottom: height - 20 };
  const isNamed = Boolean(spec.labels);
  const places = isNamed ? [-0.5, spec.labels.length - 0.5, ...spec.x] : spec.x;
  const x = new Scale(places, spec.xKind, box.left + 4, box.right - 4, "number", Math.max(width / 80, 2));
  const y = new Scale(spec.best ? [...spec.y, spec.best[1]] : spec.y, spec.kind, box.bottom - 3, box.top + 3, "number", Math.max(height / 45, 2));
  if (!spec.x.length || y.isEmpty) return figure.empty(width, height, "no evaluations");
  if (isNamed) x.ticks = () => (spec.labels.length <= 6 ? spec.labels.map((text, k) => [k, text.slice(0, 9)]) : []);
  figure.svg.replaceChildren();
  axes(figure.svg, x, y, box);
  const dots = new Map();
  for (let i = 0; i < spec.x.length; i++) {
    const shift = isNamed ? ((i * 0.618) % 1 - 0.5) * 0.5 : 0; // so that equal values do not cover each other
    const a = x.at(spec.x[i] === null ? null : spec.x[i] + shift), b = y.at(spec.y[i]);
    if (!Number.isFinite(a) || !Number.isFinite(b)) continue;
    const key = spec.shade[i] === null ? "sx" : `s${spec.shade[i]}`;
    dots.set(key, `${dots.get(key) ?? ""}M${a.toFixed(1)} ${b.toFixed(1)}h.01`);
  }
  for (const key of ["sx", ...Array.from({ length: SHADES }, (_, k) => `s${k}`)]) {
    if (dots.has(key)) figure.svg.append(shape("path", { class: `dots ${key}`, d: dots.get(key) }));
  }
  if (spec.best) {
    const [a, b] = [x.at(spec.best[0]), y.at(spec.best[1])];
    if (Number.isFinite(a) && Number.isFinite(b)) figure.svg.append(shape("circle", { class: "mark", cx: a, cy: b, r: 5 }));
  }
  figure.label(`${figure.heading.textContent} against the value, ${spec.x.length} evaluations`);
}

/** Parallel coordinates: spec.axes is a list of {name, values, kind, labels}; spec.order and spec.shade are per line. */
export function drawParallel(figure, spec, width, height) {
  const count = spec.axes.length, box = { left: 26, right: width - 34, top: 26, bottom: height - 18 };
  if (!count || !spec.order.length) return figure.empty(width, height, "no evaluations");
  const step = count > 1 ? (box.right - box.left) / (count - 1) : 0;
  figure.svg.replaceChildren();
  const scales = spec.axes.map((axis) => {
    const made = new Scale(axis.labels ? [0, axis.labels.length - 1, ...axis.values] : axis.values, axis.kind, box.bottom, box.top, "number", height / 70);
    if (axis.labels) made.ticks = () => axis.labels.map((text, k) => [k, text.slice(0, 12)]);
    return made;
  });
  const strands = new Map();
  for (const i of spec.order) {
    let text = "";
    for (let k = 0; k < count; k++) {
      const place = scales[k].at(spec.axes[k].values[i]);
      if (!Number.isFinite(place)) continue;
      text += `${text ? "L" : "M"}${(box.left + k * step).toFixed(1)} ${place.toFixed(1)}`;
    }
    const key = spec.shade[i] === null ? "sx" : `s${spec.shade[i]}`;
    strands.set(key, (strands.get(key) ?? "") + text);
  }
  for (const key of ["sx", ...Array.from({ length: SHADES }, (_, k) => `s${k}`)]) {
    if (strands.has(key)) figure.svg.append(shape("path", { class: `strand ${key} ${key === `s${SHADES - 1}` ? "top" : ""}`, d: strands.get(key) }));
  }
  spec.axes.forEach((axis, k) => axisOf(figure, spec, axis, scales[k], box.left + k * step, box, step, k === count - 1));
  figure.label(`Parallel coordinates of ${spec.axes.map((axis) => axis.name).join(", ")}; ${spec.order.length} evaluations`);
}

function axisOf(figure, spec, axis, scale, place, box, step, isLast) {
  const svg = figure.svg, most = Math.max(Math.floor(step / 7), 3);
  svg.append(shape("line", { class: "axis", x1: place, x2: place, y1: box.top, y2: box.bottom }));
  const name = axis.name.length > most ? `${axis.name.slice(0, most - 1)}…` : axis.name;
  svg.append(shape("text", { class: "middle label", x: place, y: 13 }, name));
  if (step > 46) for (const [value, text] of scale.ticks()) svg.append(shape("text", { x: place + 5, y: scale.at(value) + 4, class: isLast && text.length > 6 ? "end" : "" }, text));
  const range = spec.brushes.get(axis.key);
  if (range) {
    const ends = range.map((share) => box.bottom + share * (box.top - box.bottom));
    svg.append(shape("rect", { class: "brush", x: place - 7, width: 14, y: Math.min(...ends), height: Math.abs(ends[1] - ends[0]) }));
  }
  const handle = shape("rect", { class: "handle", x: place - 11, width: 22, y: box.top - 6, height: box.bottom - box.top + 12, "data-axis": axis.key });
  handle.addEventListener("pointerdown", (event) => startBrush(figure, spec, axis, box, handle, event));
  svg.append(handle);
}

function startBrush(figure, spec, axis, box, handle, event) {
  const share = (one) => {
    const pixel = one.clientY - figure.svg.getBoundingClientRect().top;
    return Math.min(Math.max((pixel - box.bottom) / (box.top - box.bottom), -0.02), 1.02);
  };
  const first = share(event);
  event.preventDefault();
  const move = (one) => {
    const now = share(one);
    spec.onBrush(axis.key, Math.abs(now - first) < 0.015 ? null : [Math.min(first, now), Math.max(first, now)]);
  };
  const end = (one) => {
    move(one);
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", end);
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end);
}

/** The share of an axis, 0 to 1, at which a value lies; by the same scale as the drawing. */
export function shares(axis) {
  const scale = new Scale(axis.labels ? [0, axis.labels.length - 1, ...axis.values] : axis.values, axis.kind, 0, 1);
  return axis.values.map((value) => scale.at(value));
}
