// ------------------------ Tables: sums and spans

const swatch = lane => el("span.swatch", { style: `background:var(--${lane.colour})` });
/** A table; names of columns of numbers begin with a #. */
function table(names, ...bodies) {
  const heads = names.map(name => el(name[0] === "#" ? "th.number" : "th", { scope: "col" }, name.replace("#", "")));
  return el("table", el("thead", el("tr", ...heads)), ...bodies);
}

function sums(list) {
  const sum = { count: list.length, total: sumOf(list), longest: 0, bytes: null };
  for (const span of list) {
    sum.longest = Math.max(sum.longest, span.ms);
    if (known(span.bytes)) sum.bytes += span.bytes;
  }
  return sum;
}
function drawSums() {
  const line = (tag, name, sum, of) => el(tag, el("th", { scope: "row" }, ...name), ...[rows(sum.count), time(sum.total)].map(text => el("td.number", text)),
    el("td.share", of > 0 ? el("span.meter", { title: percent(sum.total / of) }, el("i", { style: `width:${100 * sum.total / of}%` })) : null),
    ...[time(sum.total / sum.count), time(sum.longest), bytes(sum.bytes), rate(sum.bytes, sum.total)].map(text => el("td.number", text)));
  const bodies = [...lanes.values()].filter(lane => lane.spans.length).map(lane => {
    const all = sums(lane.spans), byName = Map.groupBy(lane.spans, span => span.name);
    const named = [...byName].map(([name, list]) => [name, sums(list)]).sort((a, b) => b[1].total - a[1].total);
    return el("tbody", line("tr.total", [swatch(lane), lane.title], all, 0), ...named.map(([name, sum]) => line("tr", [el("code", String(name))], sum, all.total)));
  });
  $("sums-card").append(table(["Lane and name", "#Count", "#Total", "Of the lane", "#Mean", "#Longest", "#Bytes", "#Rate"], ...bodies));
}

const PAGE = 200;
let spanPage = 0;
/** Spans in pages, in order of time; those of the selected operator if there is one. */
function drawSpanTable() {
  const node = byId.get(selected), list = [...node ? spansOf.get(selected) ?? [] : spans].sort((a, b) => a.start_ms - b.start_ms);
  const pages = Math.max(1, Math.ceil(list.length / PAGE));
  const turn = (name, by) => button(name, () => { spanPage += by; drawSpanTable(); }, { disabled: spanPage + by < 0 || spanPage + by >= pages ? "" : null });
  const lines = list.slice(spanPage * PAGE, (spanPage + 1) * PAGE).map(span => el("tr", el("td.number", time(span.start_ms)), el("td.number", time(span.ms)),
    el("td", swatch(lanes.get(span.lane)), lanes.get(span.lane).title), el("td", el("code", String(span.name))),
    el("td", byId.has(span.node) ? nodeLink(byId.get(span.node)) : NONE), el("td.number", bytes(span.bytes)), el("td", span.detail)));
  $("spans-table").replaceChildren(
    el("div.pager", turn("Earlier", -1), turn("Later", 1),
      el("span.muted", `${counted(list.length, "span")}${node ? ` of ${label(node)}` : ""}, page ${rows(spanPage + 1)} of ${rows(pages)}`)),
    el("div.wide", table(["#Start", "#Duration", "Lane", "Name", "Operator", "#Bytes", "Detail"], el("tbody", ...lines))));
}

