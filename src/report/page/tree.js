// ------------------------ Tree of operators

const folded = new Set(); // ids of collapsed nodes
const rowOf = new Map();  // id → element
const nodeOf = new Map(); // element → node
let tabStop = null;       // the row in the tab order
const TRAFFIC = [["sent", "sent_bytes"], ["received", "received_bytes"], ["resident", "resident_bytes"], ["spilled", "spilled_bytes"]];
const sizeBelow = node => childrenOf.get(node.id).reduce((sum, child) => sum + 1 + sizeBelow(child), 0);

/** The kernels' time of all operators, and of one its share. */
const cardTime = nodes.reduce((sum, node) => sum + (node.device_ms ?? 0), 0);
const cardShare = node => known(node.device_ms) && cardTime > 0 ? percent(node.device_ms / cardTime) : "";

/** What a screen reader says of a row. */
const spoken = node => [node.name, `runs on ${placeOf(node)[0]}`, known(node.rows) && counted(node.rows, "row"),
  known(node.estimated_rows) && `estimated ${rows(node.estimated_rows)}`, misestimate(node)?.words, known(node.compute_ms) && time(node.compute_ms), percent(node.share)].filter(Boolean).join(", ");

/** The cells of a row. `rails` says of each level between the root and the node whether its line goes on; `last` is null for a root. */
function cells(node, rails, last, below) {
  const off = misestimate(node), under = text => el("div.under.cut", text);
  return [
    el("span.id.number", String(node.id)),
    el("div.operator", ...rails.map(on => el(on ? "span.rail.line" : "span.rail")), known(last) ? el(`span.rail.branch.${last ? "last" : "line"}`) : null,
      el(below ? "span.twisty" : "span.twisty.leaf"),
      el("div.what",
        el("div.name", el("b.cut", node.name), node.strategy ? el("span.tag.cut", node.strategy) : null, below ? el("span.tag.inside", `+${below}`) : null),
        el("div.detail.cut", node.detail))),
    el("div", badge(node), under(decisionOf(node))),
    el("div.number", el("div.pair", off ? el("span.off", off.mark) : el("span"), el("span", rows(node.rows))),
      under(known(node.estimated_rows) ? `est. ${rows(node.estimated_rows)}` : "")),
    el("div.number", bytes(node.bytes), under(known(node.batches) ? counted(node.batches, "batch") : "")),
    el("div.number", el("div.pair", el("span.muted", percent(node.share)), el("span", time(node.compute_ms))),
      known(node.share) ? el("span.meter", el("i", { style: `width:${100 * Math.min(node.share, 1)}%` })) : null),
    el("div.number", known(node.device_ms) ? time(node.device_ms) : "", under(cardShare(node))),
    el("div.traffic", ...TRAFFIC.filter(([, key]) => node[key] > 0).map(([name, key]) => el("div.pair", el("span.muted", name), el("span", bytes(node[key]))))),
    el("div.print-only", el("p", { id: `why-${node.id}` }, [node.reason, node.replaces && `replaces ${node.replaces}`].filter(Boolean).join("; ")),
      el("p.muted", (node.metrics ?? []).map(([name, value]) => `${name}=${value}`).join(", "))),
  ];
}

/** Adds rows of siblings, each with what is below it. */
function addRows(siblings, level, rails) {
  siblings.forEach((node, at) => {
    const below = sizeBelow(node), last = at === siblings.length - 1;
    const row = el(`div.columns.row.${placeOf(node)[1]}`, {
      role: "treeitem", id: `node-${node.id}`, tabindex: -1, "aria-selected": "false", "aria-level": level, "aria-setsize": siblings.length, "aria-posinset": at + 1,
      "aria-expanded": below ? "true" : null, "aria-label": spoken(node), "aria-describedby": `why-${node.id}`,
    }, ...cells(node, rails, level > 1 ? last : null, below));
    rowOf.set(node.id, row);
    nodeOf.set(row, node);
    $("tree").append(row);
    addRows(childrenOf.get(node.id), level + 1, level > 1 ? [...rails, !last] : rails);
  });
}

function updateFolds() {
  for (const [id, row] of rowOf) {
    const above = rowOf.get(byId.get(id).parent);
    row.classList.toggle("folded", Boolean(above) && (folded.has(byId.get(id).parent) || above.classList.contains("folded")));
    if (row.ariaExpanded) row.ariaExpanded = String(!folded.has(id));
  }
  let row = tabStop; // of a hidden row, the nearest one above that is shown
  while (row.classList.contains("folded")) row = rowOf.get(nodeOf.get(row).parent);
  setTabStop(row);
}
function setFolded(id, fold) {
  if (fold) folded.add(id); else folded.delete(id);
  updateFolds();
}
function setTabStop(row) {
  if (tabStop) tabStop.tabIndex = -1;
  tabStop = row;
  row.tabIndex = 0;
}
function focusRow(row) {
  if (!row) return;
  setTabStop(row);
  row.focus();
}

function treeKey(event) {
  const row = event.target, node = nodeOf.get(row);
  if (!node || event.ctrlKey || event.altKey || event.metaKey) return;
  const shown = [...rowOf.values()].filter(row => !row.classList.contains("folded")), at = shown.indexOf(row);
  const children = childrenOf.get(node.id), open = children.length && !folded.has(node.id), toggle = () => select(selected === node.id ? null : node.id);
  const action = {
    ArrowDown: () => focusRow(shown[at + 1]), ArrowUp: () => focusRow(shown[at - 1]), Home: () => focusRow(shown[0]), End: () => focusRow(shown.at(-1)),
    ArrowRight: () => open ? focusRow(rowOf.get(children[0].id)) : setFolded(node.id, false),
    ArrowLeft: () => open ? setFolded(node.id, true) : focusRow(rowOf.get(node.parent)),
    "*": () => (childrenOf.get(node.parent) ?? roots).forEach(sibling => setFolded(sibling.id, false)),
    Enter: toggle, " ": toggle, Escape: dismiss,
  }[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}
/** Hides the tooltip; if there is none, ends the selection. */
function dismiss() {
  if (tip.hidden) select(null); else hideTip();
}

/** The reason, and the detail if the row shortens it. */
function tipOf(row) {
  const node = nodeOf.get(row), detail = row.querySelector(".detail");
  return [node.reason, detail.scrollWidth > detail.clientWidth ? el("p.mono", node.detail) : null];
}

function drawTree() {
  if (!nodes.length) {
    $("tree-card").replaceChildren(el("p.empty", "The profile has no operators."));
    $("panel").hidden = $("expand").hidden = $("collapse").hidden = $("plan-help").hidden = true;
    return;
  }
  const tree = $("tree"), off = nodes.filter(misestimate).length;
  tree.style.setProperty("--depth", nodes.reduce((most, node) => Math.max(most, node.depth), 1));
  addRows(roots, 1, []);
  $("tree-card").classList.toggle("no-device", !profile.device);
  setTabStop(rowOf.get(roots[0].id));
  $("tree-card").classList.toggle("scroll", nodes.length > 30);
  $("plan-note").textContent = `${counted(nodes.length, "operator")}${off ? `, ${rows(off)} with more than 10 times as many or as few rows as estimated` : ""}.`;

  tree.addEventListener("keydown", treeKey);
  tree.addEventListener("click", event => {
    const row = event.target.closest(".row"), { id } = nodeOf.get(row);
    hideTip();
    setTabStop(row);
    if (event.target.matches(".twisty:not(.leaf)")) setFolded(id, !folded.has(id));
    else if (!String(getSelection())) select(selected === id ? null : id);
  });
  tree.addEventListener("focusin", event => {
    const row = event.target;
    // In the next frame, after the tree has scrolled to the row.
    if (row.matches(":focus-visible")) requestAnimationFrame(() => {
      const box = row.getBoundingClientRect();
      if (document.activeElement === row) showTip(tipOf(row), row.querySelector(".what").getBoundingClientRect().left, box.bottom + 2, box.top);
    });
  });
  tree.addEventListener("focusout", hideTip);
  tree.addEventListener("pointerover", event => {
    const row = event.target.closest(".row");
    if (!row || event.pointerType === "touch") return;
    clearTimeout(tipTimer);
    // Beside the pointer, not below it: the way to the next row stays free.
    tipTimer = setTimeout(() => showTip(tipOf(row), event.clientX + 16, row.getBoundingClientRect().bottom - 6), 250);
  });
  tree.addEventListener("pointerleave", hideTipSoon);
  $("expand").addEventListener("click", () => { folded.clear(); updateFolds(); });
  $("collapse").addEventListener("click", () => { for (const [id, row] of rowOf) if (row.ariaExpanded) folded.add(id); updateFolds(); });
}

