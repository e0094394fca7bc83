// ------------------------ Panel of the selected operator

/** Selects a node, or none. `reveal` shows its row in the tree; the page is not scrolled. */
function select(id, reveal = false) {
  if (known(selected)) rowOf.get(selected).ariaSelected = "false";
  selected = id;
  const row = rowOf.get(id);
  if (row) row.ariaSelected = "true";
  if (row && reveal) {
    for (let node = byId.get(byId.get(id).parent); node; node = byId.get(node.parent)) folded.delete(node.id);
    updateFolds();
    setTabStop(row);
    const card = $("tree-card"), box = row.getBoundingClientRect(), frame = card.getBoundingClientRect();
    if (box.top < frame.top + 30 || box.bottom > frame.bottom) card.scrollTop += box.top - frame.top - frame.height / 2;
  }
  drawPanel();
  $("zoom-node").disabled = !spansOf.has(id);
  drawStatus();
  requestDraw();
  spanPage = 0;
  if ($("spans").open) drawSpanTable();
}

const button = (text, click, attributes) => el("button", { type: "button", click, ...attributes }, text);
function nodeLink(node) {
  const link = button(label(node), () => { select(node.id, true); focusRow(rowOf.get(node.id)); });
  link.className = "link";
  return link;
}

function drawPanel() {
  const panel = $("panel"), node = byId.get(selected);
  panel.classList.toggle("idle", !node);
  panel.scrollTop = 0;
  panel.replaceChildren(...(node ? panelOf(node) : panelOfAll()).filter(Boolean));
}

/** Shown while no operator is selected: where the time went, and which estimates were far off. */
function panelOfAll() {
  const longest = nodes.filter(node => node.compute_ms > 0).sort((a, b) => b.compute_ms - a.compute_ms).slice(0, 6);
  const wrong = nodes.filter(misestimate).sort((a, b) => misestimate(b).times - misestimate(a).times).slice(0, 6);
  return [el("h3", "Where the time went"),
    longest.length ? facts(longest.map(node => [nodeLink(node), el("span", time(node.compute_ms), el("span.percent", percent(node.share)))]))
      : el("p.muted", "No operator has a time."),
    wrong.length && el("h4", "Rows far from the estimate"), wrong.length && facts(wrong.map(node => [nodeLink(node), misestimate(node).mark]))];
}

function panelOf(node) {
  const own = spansOf.get(node.id) ?? [];
  return [
    el("div.pair", el("h3", label(node)), button("Close", () => { select(null); focusRow(rowOf.get(node.id)); }, { "aria-label": "Close the details" })),
    el("p", badge(node), " ", el("span.muted", decisionOf(node))),
    node.reason && el("p", { id: "reason" }, node.reason),
    node.detail && el("code.full", node.detail),
    facts([["Strategy", node.strategy], ["Replaces", node.replaces],
      ["Rows", rows(node.rows)], ["Estimated rows", rows(node.estimated_rows)], ["Difference", misestimate(node)?.words], ["Bytes", bytes(node.bytes)], ["Batches", rows(node.batches)], ["Time", time(node.compute_ms)], ["Share of all operators", percent(node.share)],
      ["Time of kernels", time(node.device_ms)], ["Share of all kernels", cardShare(node)], ["Sent to the device", bytes(node.sent_bytes)], ["Received from the device", bytes(node.received_bytes)],
      ["Resident on the device", bytes(node.resident_bytes)], ["Spilled", bytes(node.spilled_bytes)], ["Peak of device memory", bytes(node.peak_device_bytes)],
      ["Spans", own.length ? `${rows(own.length)}, ${time(sumOf(own))}` : ""]], ".columned"),
    node.metrics?.length > 0 && el("h4", "Metrics"),
    node.metrics?.length > 0 && facts(node.metrics.map(([name, value]) => [el("code", name), String(value)]), ".columned"),
  ];
}

