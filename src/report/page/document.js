// ------------------------ Text and numbers

const $ = id => document.getElementById(id);
const known = value => value !== null && value !== undefined;

/** An element of a tag with classes, `div.pair`. Attributes, if any, come first; strings become text nodes; empty children are left out. */
function el(tag, ...children) {
  const [name, ...classes] = tag.split("."), element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  if (children[0]?.constructor === Object) {
    for (const [key, value] of Object.entries(children.shift())) {
      if (typeof value === "function") element.addEventListener(key, value);
      else if (known(value)) element.setAttribute(key, value);
    }
  }
  element.append(...children.filter(child => known(child) && child !== ""));
  return element;
}

const NONE = "–", SPACE = "\u00a0", THIN = "\u202f";
const rows = number => known(number) ? Math.round(number).toString().replace(/\B(?=(\d{3})+(?!\d))/g, THIN) : NONE;
const counted = (number, noun) => `${rows(number)} ${noun}${number === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;

function bytes(number) {
  if (!known(number)) return NONE;
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  for (; number >= 1023.95 && unit < 5; unit++) number /= 1024;
  return (unit ? number.toFixed(1) : rows(number)) + SPACE + units[unit];
}

/** Three significant digits in µs, ms or s. */
function time(ms) {
  if (!known(ms)) return NONE;
  if (ms === 0) return `0${SPACE}ms`;
  const [value, unit] = ms < 0.9995 ? [ms * 1000, "µs"] : ms < 999.5 ? [ms, "ms"] : [ms / 1000, "s"];
  return (value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : rows(value)) + SPACE + unit;
}

const percent = share => !known(share) ? "" : share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;
const rate = (size, ms) => size > 0 && ms > 0 ? `${bytes(size / ms * 1000)}/s` : NONE;

// ------------------------ Document

let profile;
try {
  profile = JSON.parse($("profile").textContent);
} catch (error) {
  $("summary").textContent = `This page has no profile that can be read: ${error.message}.`;
  for (const part of ["plan", "charts", "sums", "figures", "comparison"]) $(part).hidden = true;
  return;
}
const nodes = profile.nodes ?? [], spans = profile.timeline?.spans ?? [];
const byId = new Map(nodes.map(node => [node.id, node]));
const childrenOf = new Map(nodes.map(node => [node.id, []]));
const roots = nodes.filter(node => !byId.has(node.parent));
for (const node of nodes) childrenOf.get(node.parent)?.push(node);
const spansOf = Map.groupBy(spans.filter(span => byId.has(span.node)), span => span.node); // of nodes that have any
const sumOf = list => list.reduce((sum, span) => sum + span.ms, 0);

let selected = null; // id of a node
const label = node => `#${node.id} ${node.name}`;
const placeOf = node => node.runs_on === "datafusion" ? ["DataFusion", "plain"] : node.runs_on === "host" ? ["CPU backend", "cpu"] : [node.runs_on, "gpu"];
const badge = node => el(`span.badge.cut.${placeOf(node)[1]}`, placeOf(node)[0]);
const decisionOf = node => node.decision === "datafusion" ? "" : node.decision;

/** By which factor above 10 the rows differ from the estimate, and how: as a mark and in words. */
function misestimate(node) {
  if (!known(node.rows) || !known(node.estimated_rows)) return null;
  const factor = Math.max(node.rows, 1) / Math.max(node.estimated_rows, 1), times = Math.max(factor, 1 / factor);
  if (times <= 10) return null;
  return { times, mark: `${factor > 1 ? "▲" : "▼"}${THIN}${rows(times)}×`, words: `${rows(times)} times ${factor > 1 ? "more" : "fewer"} than estimated` };
}

// ------------------------ Tooltip, shared by tree and charts

const tip = $("tip");
let tipTimer = 0;
/** Shows lines below a place, or above `top` if that is given. */
function showTip(lines, x, y, top) {
  hideTip();
  tip.replaceChildren(...lines.filter(Boolean).map(line => typeof line === "string" ? el("p", line) : line));
  if (!tip.firstChild) return;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect(), above = (top ?? y - 24) - height - 4;
  tip.style.left = `${Math.max(6, Math.min(x, innerWidth - width - 8))}px`;
  tip.style.top = `${(known(top) || y + height > innerHeight) && above > 4 ? above : y}px`;
}
function hideTip() { clearTimeout(tipTimer); tip.hidden = true; }
function hideTipSoon() { clearTimeout(tipTimer); tipTimer = setTimeout(hideTip, 150); }
tip.addEventListener("pointerenter", () => clearTimeout(tipTimer));
tip.addEventListener("pointerleave", hideTipSoon);
addEventListener("scroll", hideTip, true);

