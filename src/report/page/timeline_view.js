// ------------------------ Charts: zoom, pan, pointer

function setView(from, to) {
  const length = Math.min(Math.max(to - from, Math.min(whole, 0.0005)), whole);
  from = Math.max(0, Math.min(from + (to - from - length) / 2, whole - length));
  view = { from, to: from + length };
  hideTip();
  drawStatus();
  requestDraw();
}
/** Zooms by a factor around a place of the view, 0 to 1. */
function zoom(factor, place = 0.5) {
  const length = view.to - view.from, at = view.from + place * length;
  setView(at - place * length / factor, at + (1 - place) * length / factor);
}
function pan(part) {
  const shift = part * (view.to - view.from);
  setView(view.from + shift, view.to + shift);
}
function zoomToSelected() {
  const own = spansOf.get(selected), from = Math.min(...own.map(span => span.start_ms)), to = Math.max(...own.map(span => span.start_ms + span.ms));
  setView(from - (to - from) * 0.04, to + (to - from) * 0.04);
}
function chartKey(event) {
  const larger = () => zoom(1.6);
  const action = {
    "+": larger, "=": larger, "-": () => zoom(1 / 1.6), 0: () => setView(0, whole), Escape: dismiss,
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), Home: () => pan(-1e9), End: () => pan(1e9),
  }[event.key];
  if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  action();
}

/** The span at a place of the timeline, or the nearest one within 3 pixels. */
function spanAt(x, y, width) {
  const lane = [...lanes.values()].find(lane => y >= lane.top && y < lane.top + lane.height), per = (view.to - view.from) / width, ms = view.from + x * per;
  let best = null, nearest = 3 * per;
  for (const span of lane?.rows[Math.floor((y - lane.top - LANE_GAP / 2) / ROW)] ?? []) {
    const away = Math.max(span.start_ms - ms, ms - span.start_ms - span.ms, 0);
    if (away < nearest) [best, nearest] = [span, away];
  }
  return best;
}
function tipOfSpan(span) {
  return [el("b", String(span.name)), `${time(span.ms)}, from ${time(span.start_ms)}`,
    known(span.bytes) ? `${bytes(span.bytes)}, ${rate(span.bytes, span.ms)}` : "", span.detail !== byId.get(span.node)?.name && span.detail, byId.has(span.node) ? `of ${label(byId.get(span.node))}` : ""];
}

/** A chart beside its labels. `spanIn(x, y, width)` gives the span at a place, `linesOf(span, ms)` the tooltip. */
function addChart(id, name, height, labels, draw, spanIn, linesOf) {
  const canvas = el("canvas", { role: "img", "aria-label": name }), cursor = el("div.cursor", { hidden: "" });
  const help = `${name} Plus and minus zoom, arrow keys pan, 0 shows the whole query.`;
  const wrapper = el("div.plot", { tabindex: 0, role: "group", "aria-label": help }, canvas, cursor);
  $("charts-card").append(el("div.chart", { id }, el("div.labels", { style: `height:${height}px` }, ...labels), wrapper));
  plots.push({ wrapper, canvas, cursor, height, draw });
  const place = event => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top, box.width]; };
  const on = (type, listener, options) => wrapper.addEventListener(type, listener, options);

  let drag = null;
  on("pointerdown", event => {
    if (event.button !== 0) return;
    drag = { x: event.clientX, view, moved: false };
    wrapper.setPointerCapture(event.pointerId);
  });
  on("pointermove", event => {
    const [x, y, width] = place(event), shift = drag ? drag.x - event.clientX : 0;
    if (drag && (drag.moved ||= Math.abs(shift) > 3)) {
      wrapper.classList.add("dragging");
      const ms = shift / width * (drag.view.to - drag.view.from);
      return setView(drag.view.from + ms, drag.view.to + ms);
    }
    for (const { cursor } of plots) { cursor.hidden = false; cursor.style.left = `${x}px`; }
    const span = spanIn(x, y, width);
    if (span !== hovered) { hovered = span; requestDraw(); }
    showTip(linesOf(span, view.from + x / width * (view.to - view.from)), event.clientX + 14, event.clientY + 16);
  });
  on("pointerup", event => {
    const clicked = drag && !drag.moved, span = spanIn(...place(event));
    drag = null;
    wrapper.classList.remove("dragging");
    if (clicked) select(byId.has(span?.node) && span.node !== selected ? span.node : null, true);
  });
  on("pointercancel", () => { drag = null; wrapper.classList.remove("dragging"); });
  on("pointerleave", () => {
    for (const { cursor } of plots) cursor.hidden = true;
    if (hovered) { hovered = null; requestDraw(); }
    hideTip();
  });
  on("wheel", event => {
    const [x, , width] = place(event), sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !event.metaKey && !sideways) return; // the page scrolls
    event.preventDefault();
    if (sideways) pan((event.deltaX || event.deltaY) / width); else zoom(Math.exp(-event.deltaY * 0.004), x / width);
  }, { passive: false });
  on("keydown", chartKey);
  new ResizeObserver(requestDraw).observe(wrapper);
}

function drawStatus() {
  if (!plots.length) return;
  const node = byId.get(selected), own = spansOf.get(selected);
  const shown = view.from > 0 || view.to < whole ? `Shown: ${time(view.from)} to ${time(view.to)} of ${time(whole)}.` : `Shown: all ${time(whole)}.`;
  const highlighted = own ? ` Highlighted: ${counted(own.length, "span")} of ${label(node)}, ${time(sumOf(own))}.` : node ? ` ${label(node)} has no spans.` : "";
  $("status").textContent = shown + highlighted;
}

function setUpCharts() {
  const card = $("charts-card"), dropped = profile.timeline?.dropped ?? 0;
  $("sums").hidden = !spans.length;
  if (!spans.length && !samples.length) {
    $("zoom").hidden = $("charts-help").hidden = true;
    card.append(el("p.empty", { id: "no-charts" }, profile.device ? "There is no timeline, and no memory of the device is shown: no spans were recorded."
      : "There is no timeline, and no memory of a device is shown: no operator was offloaded, so DataFusion ran the whole query. The reasons are in the plan."));
    return;
  }
  whole = Math.max(profile.timeline?.duration_ms ?? 0, samples.at(-1)?.[0] ?? 0, 1e-6);
  const height = spans.length ? packLanes() : 0;
  view = { from: 0, to: whole };
  if (spans.length) {
    $("charts-note").textContent = counted(spans.length, "span") + (dropped > 0 ? `; ${rows(dropped)} more were not kept, for want of room.` : ".");
    const labels = [...lanes.values()].map(lane => el("div", { style: `top:${lane.top}px;height:${lane.height}px`, "data-lane": lane.id },
      el("i", { style: `background:var(--${lane.colour})` }), el("b.cut", lane.title),
      el("span.muted", lane.spans.length ? `${time(lane.busy)} · ${percent(lane.busy / whole)}` : "no spans")));
    addChart("timeline", `Timeline of ${counted(spans.length, "span")}. The tables below have the same spans.`, height, labels, drawTimeline,
      spanAt, span => span ? tipOfSpan(span) : []);
  }
  if (samples.length) {
    const ticks = [];
    for (let mark = 0; mark < memoryTop; mark += memoryStep) {
      const top = Math.min((MEMORY_HEIGHT - 1) * (1 - mark / memoryTop), MEMORY_HEIGHT - 9);
      ticks.push(el("div.tick", { style: `top:${top}px` }, bytes(mark)));
    }
    card.append(el("div.subheading", el("h3", `Memory of ${memoryWhere}`), el("span.muted", { id: "memory-note" }, memorySentence)));
    addChart("memory", `Reserved memory of ${memoryWhere} over time. ${memorySentence}`, MEMORY_HEIGHT, ticks, drawMemory,
      () => null, (_, ms) => [`${bytes(memoryAt(ms))} reserved at ${time(ms)}`]);
  }
  card.append(el("div.window", { "aria-hidden": "true" }, el("i", { id: "window" })), el("p", { id: "status", role: "status" }));
  const actions = { in: () => zoom(2), out: () => zoom(0.5), all: () => setView(0, whole), node: zoomToSelected };
  for (const name in actions) $(`zoom-${name}`).addEventListener("click", actions[name]);
  drawStatus();
}

