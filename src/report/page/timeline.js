// ------------------------ Charts: lanes, colours, drawing

const ROW = 18, AXIS = 24, LANE_GAP = 8, MOST_ROWS = 12, MEMORY_HEIGHT = 132, PRINT_WIDTH = 872;
const COLOURS = new Map([["host", "host"], ["to_device", "to-device"], ["kernels", "kernels"], ["to_host", "to-host"], ["wait", "wait"]]);
const lanes = new Map();          // id → lane
const plots = [];                 // { wrapper, canvas, cursor, height, draw }
let whole = 1, view = { from: 0, to: 1 }; // ms
let hovered = null;               // a span

/** Packs the spans of each lane in rows: a span takes the first row that is free; beyond MOST_ROWS they overlap. Returns the height. */
function packLanes() {
  for (const { id, title } of profile.timeline.lanes ?? []) lanes.set(id, { id, title, spans: [] });
  for (const span of spans) {
    if (!lanes.has(span.lane)) lanes.set(span.lane, { id: span.lane, title: String(span.lane), spans: [] });
    lanes.get(span.lane).spans.push(span);
  }
  let top = AXIS;
  for (const lane of lanes.values()) {
    lane.spans.sort((a, b) => a.start_ms - b.start_ms || b.ms - a.ms);
    Object.assign(lane, { colour: COLOURS.get(lane.id) ?? "other", rows: [[]], busy: 0, top });
    const ends = [0];
    let busyUntil = 0;
    for (const span of lane.spans) {
      const end = span.start_ms + span.ms;
      let row = ends.findIndex(until => until <= span.start_ms + 0.0015); // times are rounded to µs
      if (row < 0) row = ends.length < MOST_ROWS ? ends.length : ends.indexOf(Math.min(...ends));
      (lane.rows[row] ??= []).push(span);
      span.row = row;
      ends[row] = Math.max(ends[row] ?? 0, end);
      lane.busy += Math.max(0, end - Math.max(busyUntil, span.start_ms));
      busyUntil = Math.max(busyUntil, end);
    }
    whole = Math.max(whole, busyUntil);
    lane.height = Math.max(lane.rows.length, 2) * ROW + LANE_GAP;
    top += lane.height;
  }
  return top;
}

/** Colours of the theme as a canvas takes them, with light-dark() resolved. Of a lane: two shades that alternate by name, and a dim one. */
let palette = null;
function colours() {
  if (palette) return palette;
  const probe = el("i"), resolve = css => { probe.style.color = css; return getComputedStyle(probe).color; };
  document.body.append(probe);
  palette = { font: `12px ${getComputedStyle(document.body).fontFamily}` };
  for (const name of ["surface", "sunken", "text", "muted", "line", "on-fill", "warning"]) palette[name] = resolve(`var(--${name})`);
  for (const name of [...COLOURS.values(), "other"]) {
    palette[name] = ["var(--shade) 0%", "var(--shade) 17%", "var(--surface) 76%"].map(part => resolve(`color-mix(in srgb, var(--${name}), ${part})`));
  }
  probe.remove();
  return palette;
}
const shades = new Map(); // name → 0 or 1
function shadeOf(name) {
  if (!shades.has(name)) shades.set(name, [...String(name)].reduce((hash, letter) => (hash * 31 + letter.codePointAt(0)) >>> 0, 7) % 2);
  return shades.get(name);
}

/** Vertical lines at multiples of 1, 2 or 5, about one per 110 pixels; with their times if there is an axis. */
function drawGrid(g, width, height, axis) {
  const c = colours(), raw = (view.to - view.from) * 110 / Math.max(width, 220), base = 10 ** Math.floor(Math.log10(raw));
  const step = base * [1, 2, 5, 10].find(factor => factor * base >= raw * 0.999);
  const [unit, per] = view.to >= 1000 ? ["s", 1000] : view.to >= 2 ? ["ms", 1] : ["µs", 0.001];
  const decimals = Math.max(0, -Math.floor(Math.log10(step / per) + 1e-9));
  for (let at = Math.ceil(view.from / step - 1e-6); at * step <= view.to; at++) {
    const x = Math.round((at * step - view.from) / (view.to - view.from) * width);
    g.fillStyle = c.line;
    g.fillRect(x, axis ? AXIS - 5 : 0, 1, height);
    if (!axis) continue;
    const text = `${(at * step / per).toFixed(decimals)}${SPACE}${unit}`, wide = g.measureText(text).width;
    g.fillStyle = c.muted;
    if (x + wide / 2 < width) g.fillText(text, Math.max(3, x - wide / 2), AXIS / 2 - 2);
  }
}

function drawTimeline(g, width, height) {
  const c = colours(), scale = width / (view.to - view.from), x = ms => (ms - view.from) * scale, any = spansOf.has(selected);
  const widths = new Map(), widthOf = name => widths.get(name) ?? widths.set(name, g.measureText(name).width).get(name);
  g.fillStyle = c.sunken;
  g.fillRect(0, 0, width, AXIS - 1);
  drawGrid(g, width, height, true);
  for (const lane of lanes.values()) {
    g.fillStyle = c.line;
    g.fillRect(0, lane.top, width, 1);
    for (const row of lane.rows) {
      // Those of the selected operator last. Of spans below a pixel one is drawn per pixel.
      for (const lit of any ? [false, true] : [true]) {
        let painted = -1;
        for (const span of row) {
          if (any && (span.node === selected) !== lit) continue;
          const start = x(span.start_ms), end = x(span.start_ms + span.ms), small = end - start < 1.5;
          if (start > width) break;
          if (end < 0 || (small && Math.floor(start) === painted)) continue;
          if (small) painted = Math.floor(start);
          const left = Math.max(start, -2), wide = Math.max(Math.min(end, width + 2) - left - (small ? 0 : 0.6), any && lit ? 2 : 1);
          const top = lane.top + LANE_GAP / 2 + span.row * ROW;
          g.fillStyle = c[lane.colour][lit ? shadeOf(span.name) : 2];
          g.fillRect(left, top, wide, ROW - 2);
          if (!lit || wide < 28) continue;
          const name = String(span.name), room = Math.floor((wide - 8) / widthOf(name) * name.length);
          g.fillStyle = c["on-fill"];
          const text = room < name.length ? `${name.slice(0, room - 2)}…` : name;
          if (room >= Math.min(name.length, 4)) g.fillText(text, Math.max(left, 0) + 4, top + ROW / 2 - 0.5);
        }
      }
    }
  }
  if (!hovered) return;
  g.strokeStyle = c.text;
  g.lineWidth = 2;
  g.strokeRect(x(hovered.start_ms), lanes.get(hovered.lane).top + LANE_GAP / 2 + hovered.row * ROW, Math.max(hovered.ms * scale, 2), ROW - 2);
}

// From the time of a sample its bytes are reserved. The limit is drawn if the peak is at least half of it.
const samples = [...profile.memory?.samples ?? []].sort((a, b) => a[0] - b[0]), limit = profile.memory?.limit_bytes;
const peak = samples.reduce((most, sample) => sample[1] > most[1] ? sample : most, [0, 0]);
const limitNear = limit > 0 && peak[1] >= limit / 2;
const memoryTop = Math.max(limitNear ? limit : 0, peak[1], 1) * 1.16, memoryStep = 2 ** Math.ceil(Math.log2(memoryTop / 4.5));
const memoryAt = ms => samples.findLast(([at]) => at <= ms)?.[1] ?? 0;
const memoryWhere = profile.memory?.device === "host" ? "the CPU backend" : profile.memory?.device;
const memorySentence = `Peak ${bytes(peak[1])} at ${time(peak[0])}${limit > 0 ? `: ${percent(peak[1] / limit)} of the limit of ${bytes(limit)}` : ""}.`;

function drawMemory(g, width, height) {
  const c = colours(), x = ms => (ms - view.from) / (view.to - view.from) * width, y = value => (height - 1) * (1 - value / memoryTop);
  drawGrid(g, width, height, false);
  g.fillStyle = c.line;
  for (let mark = memoryStep; mark < memoryTop; mark += memoryStep) g.fillRect(0, Math.round(y(mark)), width, 1);

  const line = new Path2D(), end = x(Math.min(view.to, whole)) + 1;
  let before = memoryAt(view.from);
  line.moveTo(-1, y(before));
  for (const [at, value] of samples) {
    if (at <= view.from) continue;
    if (at > view.to) break;
    line.lineTo(x(at), y(before));
    line.lineTo(x(at), y(value));
    before = value;
  }
  line.lineTo(end, y(before));
  const area = new Path2D(line);
  area.lineTo(end, height);
  area.lineTo(-1, height);
  g.fillStyle = c.kernels[2];
  g.fill(area);
  g.strokeStyle = c.kernels[0];
  g.lineWidth = 1.5;
  g.stroke(line);

  const tag = (text, left, middle) => {
    const wide = g.measureText(text).width;
    left = Math.max(4, Math.min(left, width - wide - 6));
    g.fillStyle = c.surface;
    g.fillRect(left - 3, middle - 8, wide + 6, 16);
    g.fillStyle = c.text;
    g.fillText(text, left, middle);
  };
  if (limitNear) {
    g.setLineDash([6, 4]);
    g.strokeStyle = c.warning;
    g.strokeRect(-9, y(limit), width + 18, height);
    g.setLineDash([]);
    tag(`limit ${bytes(limit)}`, 4, Math.max(9, y(limit) - 10));
  }
  if (peak[1] > 0 && peak[0] >= view.from && peak[0] <= view.to) {
    g.fillStyle = c.text;
    g.fillRect(x(peak[0]) - 2.5, y(peak[1]) - 2.5, 5, 5);
    tag(`peak ${bytes(peak[1])}`, x(peak[0]) + 8, y(peak[1]) + (limitNear ? 12 : -9));
  }
}

let drawRequested = false;
function requestDraw() {
  if (!drawRequested) requestAnimationFrame(drawCharts);
  drawRequested = true;
}
function drawCharts() {
  drawRequested = false;
  const printing = root.classList.contains("printing"), dots = printing ? 2.5 : devicePixelRatio || 1;
  for (const { wrapper, canvas, height, draw } of plots) {
    const width = printing ? PRINT_WIDTH : wrapper.clientWidth, g = canvas.getContext("2d");
    canvas.width = Math.round(width * dots);
    canvas.height = Math.round(height * dots);
    canvas.style.height = `${height}px`;
    canvas.style.width = printing ? `${width}px` : "";
    g.scale(dots, dots);
    g.font = colours().font;
    g.textBaseline = "middle";
    if (width > 1) draw(g, width, height);
  }
  if (plots.length) $("window").style.cssText = `left:${100 * view.from / whole}%;width:${100 * (view.to - view.from) / whole}%`;
}

