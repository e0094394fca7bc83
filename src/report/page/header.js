// ------------------------ Header

const KEYWORDS = new Set(("select from where group by order having limit offset join inner left right full outer semi anti cross on using as and or not in exists " +
  "between like is null case when then else end with union all distinct intersect except asc desc interval date cast over partition values").split(" "));
const TOKENS = /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"[^"]*"|[A-Za-z_]\w*|\d[\d.]*|\s+|[\s\S]/g;

/** SQL with its keywords, literals and comments marked. */
function highlighted(sql) {
  return el("code", ...sql.match(TOKENS).map(token => {
    const kind = /^(--|\/\*)/.test(token) ? "comment" : /^['\d]/.test(token) ? "literal" : KEYWORDS.has(token.toLowerCase()) ? "keyword" : "";
    return kind ? el(`span.${kind}`, token) : token;
  }));
}

/** Names with values, without those that have no value. */
const facts = (pairs, classes = "") => el(`div.facts${classes}`, ...pairs.filter(([, value]) => known(value) && value !== NONE && value !== "")
  .map(([name, value]) => el("div", el("span", name), el("span", value))));

function drawHeader() {
  const { device } = profile, engine = profile.engine ?? {}, summary = profile.summary ?? {};
  document.title = `${profile.title || "Query"}: profile`;
  $("title").textContent = profile.title || "Query profile";
  const date = profile.created?.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");
  const versions = [engine.bowtie && `bowtie ${engine.bowtie}`, engine.datafusion && `DataFusion ${engine.datafusion}`, date];
  $("versions").textContent = versions.filter(Boolean).join(" · ");
  $("summary").textContent = summary.text ?? "";
  $("device").textContent = !device ? "No device: nothing was offloaded." :
    [device.name === "host" ? "CPU backend" : device.name, device.card, known(device.memory_bytes) && `${bytes(device.memory_bytes)} of memory`,
      known(device.budget_bytes) && `at most ${bytes(device.budget_bytes)} reserved`].filter(Boolean).join(" · ");

  const figure = (name, value, under) => el("div", el("dt", name), el("dd", value, el("small", under)));
  const size = (count, size) => count > 0 && known(size) ? bytes(size) : "";
  $("figures").append(figure("Execution", time(profile.execution_ms)), figure("Planning", time(profile.planning_ms)),
    figure("Result rows", rows(profile.rows), size(1, profile.bytes)),
    figure("Offloaded", `${rows(summary.offloaded)} of ${rows(summary.operators)}`, "operators"),
    figure("Uploads", rows(summary.uploads), size(summary.uploads, summary.upload_bytes)),
    figure("Downloads", rows(summary.downloads), size(summary.downloads, summary.download_bytes)));

  const times = [["This run", profile.execution_ms], ["Estimated for this plan", summary.estimated_ms], ["Estimated for DataFusion", summary.datafusion_ms]]
    .filter(([, ms]) => known(ms));
  const longest = Math.max(...times.map(([, ms]) => ms));
  $("comparison").hidden = times.length < 2 || !longest;
  for (const [name, ms] of times) {
    $("comparison").append(el("span", name), el(name === "This run" ? "i.run" : "i", { style: `width:${100 * ms / longest}%` }), el("b.number", time(ms)));
  }

  const fold = (name, note, content) => $("folds").append(el("details.card", el("summary", name, el("small", note)), content));
  if (profile.notes?.length) $("folds").append(el("div.card", { id: "notes" }, el("h3", "Notes"), el("ul", ...profile.notes.map(note => el("li", note)))));
  if (profile.sql) {
    const line = profile.sql.replace(/--.*/g, "").replace(/\s+/g, " ").trim();
    fold("SQL", line.length > 110 ? `${line.slice(0, 110)}…` : line, el("pre", { id: "sql" }, highlighted(profile.sql)));
  }
  if (profile.options?.length) {
    const list = facts(profile.options.map(([name, value]) => [el("code", name), el("code", String(value))]), ".columned");
    list.id = "options";
    fold("Options", counted(profile.options.length, "option"), list);
  }
}

