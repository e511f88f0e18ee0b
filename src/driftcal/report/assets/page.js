// The page: it draws the recorded numbers that the reader has chosen. It averages over shifts; nothing else is computed.
(() => {
  const { html, lines, bars, reliability, histogram, swatch, isNumber } = Charts;
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = id => document.getElementById(id);
  const POOLED = "all", MEAN = "mean";
  const METRIC_TEXT = {
    ece: ["Calibration error (ECE)", "lower is better"], accuracy: ["Accuracy", "share of correct predictions"],
    confidence: ["Mean confidence", "mean over all predictions"], calibration_gap: ["Calibration gap (confidence − accuracy)", "0 is calibrated, above 0 over-confident"],
    entropy: ["Entropy", "0 is one class, higher is more uniform"], nll: ["NLL", "lower is better"], brier: ["Brier score", "lower is better"],
    mce: ["Maximum calibration error (MCE)", "lower is better"], debiased_ece: ["Debiased calibration error", "lower is better"],
  };
  const metricName = metric => (METRIC_TEXT[metric] || [metric])[0];
  const number = (value, digits = 3) => isNumber(value) ? value.toFixed(digits).replace("-", "−") : "–";
  const pair = range => range && isNumber(range[0]) && isNumber(range[1]) ? `[${number(range[0])},\u00a0${number(range[1])}]` : "";

  const index = new Map(), clean = new Map();
  for (const row of data.rows) {
    index.set([row.g, row.c, row.s, row.l].join(), row);
    if (row.l === 0 && !clean.has(`${row.g},${row.c}`)) clean.set(`${row.g},${row.c}`, row);
  }
  const find = (c, s, l, g = state.group) => index.get([g, c, s, l].join()) || (l === 0 ? clean.get(`${g},${c}`) : undefined);
  const value = (row, metric) => row ? row.v[data.metrics.indexOf(metric)] : undefined;
  const range = (row, metric) => row ? row.i[data.metrics.indexOf(metric)] : undefined;

  const state = {
    group: 0, shift: data.shifts.length > 1 ? MEAN : 0, metric: "ece", shown: new Set(data.shown),
    calibrator: data.featured, one: worstShift(), level: POOLED, sort: ["mean_ece", 1],
  };
  if (!data.summary[0].length) state.group = Math.max(0, data.summary.findIndex(list => list.length));

  function worstShift() {
    const line = data.summary.flat().find(entry => entry.calibrator === data.featured);
    return Math.max(0, data.shifts.findIndex(shift => line && shift.name === line.worst_shift));
  }
  const chosen = () => data.calibrators.map((c, i) => ({ ...c, index: i })).filter(c => state.shown.has(c.index));
  const shiftTitle = name => (data.shifts.find(shift => shift.name === name) || { title: name }).title;
  const levelLabel = (shift, level) => shift.labels[shift.levels.indexOf(level)] ?? String(level);
  const levelName = (shift, level) => { const label = levelLabel(shift, level); return /^[\d.]+$/.test(label) ? `level ${label}` : label; };
  const topLevel = shift => shift.levels[shift.levels.length - 1];

  function options(select, entries, current, change) {
    select.replaceChildren(...entries.map(([key, text]) => html("option", { value: key, text, selected: String(key) === String(current) })));
    select.onchange = () => change(select.value);
  }

  // ---- table ----
  // key, heading, group of headings, +1 where lower is better and -1 where higher is
  const COLUMNS = [
    ["label", "Calibrator", "", 0], ["in_domain_ece", "in domain", "ECE", 1], ["mean_ece", "under shift", "ECE", 1], ["worst_ece", "worst shift", "ECE", 1],
    ["in_domain_to_ts", "in domain", "ECE ÷ TS", 1], ["under_shift_to_ts", "under shift", "ECE ÷ TS", 1], ["under_shift_to_best_p", "under shift", "÷ best -P", 1],
    ["in_domain_accuracy", "in domain", "Accuracy", -1], ["mean_accuracy", "under shift", "Accuracy", -1], ["mean_nll", "under shift", "NLL", 1], ["mean_brier", "under shift", "Brier", 1],
  ];
  const RATIOS = ["in_domain_to_ts", "under_shift_to_ts", "under_shift_to_best_p"];
  const WITHOUT_SHIFT = [
    ["label", "Calibrator", "", 0], ["in_domain_ece", "ECE", "", 1], ["in_domain_to_ts", "ECE ÷ TS", "", 1], ["in_domain_accuracy", "Accuracy", "", -1],
    ["mean_nll", "NLL", "", 1], ["mean_brier", "Brier", "", 1],
  ];
  const columns = () => data.in_domain_only ? WITHOUT_SHIFT : COLUMNS.filter(([name]) => !RATIOS.includes(name) || data.summary.flat().some(entry => isNumber(entry[name])));
  const tuning = c => c.style === 0 ? "uncalibrated" : `${c.style > 1 ? `shift: ${c.tuned_on}` : c.tuned_on}; ${c.form}${c.keeps_accuracy ? "" : "; may change predictions"}`;
  function drawTable() {
    const entries = data.summary[state.group].map(entry => ({ ...entry, ...data.calibrators[entry.calibrator] }));
    const [key, way] = state.sort;
    entries.sort((a, b) => way * (typeof a[key] === "string" ? a[key].localeCompare(b[key]) : a[key] - b[key]));
    const best = {}, shown = (name, value) => number(value, RATIOS.includes(name) ? 2 : 3), list = columns();
    const differs = name => new Set(entries.map(e => shown(name, e[name]))).size > 1; // nothing is marked when all tie
    for (const [name, , , sense] of list) if (sense && !RATIOS.includes(name) && differs(name)) best[name] = shown(name, sense * Math.min(...entries.map(e => sense * e[name]).filter(isNumber)));
    const small = {
      label: e => [tuning(e)], in_domain_ece: e => [pair(e.in_domain_interval), `null ECE ${number(e.in_domain_null_ece)}`],
      mean_ece: e => [`null ECE ${number(e.mean_null_ece)}`], worst_ece: e => [pair(e.worst_interval), shiftTitle(e.worst_shift)],
    };
    const cell = (entry, [name, , , sense]) => {
      const isBest = sense && shown(name, entry[name]) === best[name];
      return html("td", {}, html("span", { class: isBest ? "best" : null, text: sense ? shown(name, entry[name]) : entry[name] }, isBest ? html("span", { class: "visually-hidden", text: " best" }) : null),
        ...(small[name] ? small[name](entry).filter(Boolean).map(text => html("small", { text, class: /^[[]|^null ECE/.test(text) ? "whole" : null })) : []));
    };
    const groups = list.map(c => c[2]).filter((g, i, all) => g !== all[i - 1]);
    const top = groups.map(g => html("th", { scope: "colgroup", colspan: list.filter(c => c[2] === g).length, text: g }));
    const head = list.map(([name, text, group]) => html("th", { scope: "col", "aria-sort": name === key ? (way > 0 ? "ascending" : "descending") : null },
      html("button", { type: "button", text: text + (name === key ? (way > 0 ? " ↑" : " ↓") : ""), "data-key": name, "aria-label": `Sort by ${group} ${text}`, onclick: () => sortBy(name) })));
    by("summary").replaceChildren(html("caption", { class: "visually-hidden", text: data.in_domain_only ? "Calibrators" : "Calibrators in domain and under shift" }), html("thead", {}, html("tr", { class: "groups" }, ...top), html("tr", {}, ...head)),
      html("tbody", {}, ...entries.map(entry => html("tr", { class: entry.calibrator === data.featured ? "chosen" : null }, ...list.map(column => cell(entry, column))))));
  }
  function sortBy(name) {
    state.sort = [name, name === state.sort[0] ? -state.sort[1] : COLUMNS.find(c => c[0] === name)[3] || 1];
    drawTable();
    by("summary").querySelector(`[data-key=${name}]`).focus();
  }

  function drawTrade() {
    const entries = data.summary[state.group].filter(e => !data.in_domain_only && isNumber(e.mean_ece) && isNumber(e.in_domain_ece));
    by("trade").hidden = !entries.length;
    if (!entries.length) return;
    lines(by("trade"), {
      title: "ECE under shift against ECE in domain", note: "Lower left is best. Hollow: tuned on clean samples. Filled: tuned on perturbed samples. A thin line joins the two of a method. The axes need not begin at 0.",
      label: "Scatter chart: ECE in domain against mean ECE under shift, one point per calibrator", joined: false, tall: 380,
      xLabel: "ECE in domain", yLabel: "mean ECE under shift",
      links: entries.flatMap(e => entries.filter(o => data.calibrators[e.calibrator].style === 1 && data.calibrators[o.calibrator].style > 1 && data.calibrators[o.calibrator].method === data.calibrators[e.calibrator].method)
        .map(o => ({ colour: data.calibrators[e.calibrator].colour, from: [e.in_domain_ece, e.mean_ece], to: [o.in_domain_ece, o.mean_ece] }))),
      series: entries.map(e => ({ ...data.calibrators[e.calibrator], points: [{ x: e.in_domain_ece, y: e.mean_ece,
        lines: [{ name: "in domain", value: number(e.in_domain_ece), extra: pair(e.in_domain_interval) }, { name: "under shift", value: number(e.mean_ece), extra: `null ECE ${number(e.mean_null_ece)}` }] }] })),
      table: { head: ["Calibrator", "ECE in domain", "Mean ECE under shift"], body: entries.map(e => [data.calibrators[e.calibrator].label, number(e.in_domain_ece), number(e.mean_ece)]) },
    });
  }

  // ---- against level ----
  function pointsOf(c, metric) {
    if (state.shift !== MEAN) {
      const shift = data.shifts[state.shift];
      return shift.levels.map((level, i) => {
        const row = find(c, state.shift, level), interval = range(row, metric);
        const nullEce = metric === "ece" && row ? `null ECE ${number(row.e0)}` : "";
        return { x: i, y: value(row, metric), low: interval?.[0], high: interval?.[1], value: number(value(row, metric)), extra: [pair(interval), nullEce].filter(Boolean).join(" ") };
      });
    }
    return sharedLevels().map((level, i) => {
      const values = data.shifts.map((_, s) => value(find(c, s, level), metric)).filter(isNumber);
      const mean = values.length ? values.reduce((a, b) => a + b, 0) / values.length : undefined;
      return { x: i, y: mean, value: number(mean), extra: values.length > 1 && level !== 0 ? `shifts ${number(Math.min(...values))} to ${number(Math.max(...values))}` : "" };
    });
  }
  const sharedLevels = () => data.shifts.length ? data.shifts[0].levels.filter(level => data.shifts.every(s => s.levels.includes(level))) : [];

  function drawLines() {
    const mean = state.shift === MEAN, shift = data.shifts[state.shift], metric = state.metric;
    const levels = mean ? sharedLevels() : shift ? shift.levels : [];
    const label = level => mean ? String(level) : levelLabel(shift, level);
    const series = chosen().map(c => ({ ...c, points: pointsOf(c.index, metric) })).filter(s => s.points.some(p => isNumber(p.y)));
    by("lines").hidden = !series.length;
    if (!series.length) return;
    const where = mean ? `mean over ${data.shifts.length} shifts` : shift.both;
    lines(by("lines"), {
      title: `${metricName(metric)} against the level of shift`, note: `${where}; ${(METRIC_TEXT[metric] || ["", ""])[1]}. ${mean ? "" : "Shading: 95 % interval."}`,
      label: `Line chart: ${metricName(metric)} by level, ${where}, for ${series.map(s => s.label).join(", ")}`,
      series, xs: levels.map((level, i) => ({ at: i, label: label(level) })), xLabel: mean ? "level" : shift.title, yLabel: metricName(metric),
      high: metric === "accuracy" || metric === "confidence" ? 1 : undefined, titleOf: i => mean ? `Level ${label(levels[i])}` : `${shift.title}: ${levelName(shift, levels[i])}`,
      table: { head: ["Level", ...series.map(s => s.label)], body: levels.map((level, i) => [label(level), ...series.map(s => [s.points[i].value, s.points[i].extra].filter(Boolean).join(" "))]) },
    });
  }

  function barsOf(name, find, series) {
    const metric = state.metric;
    return { label: name, bars: series.map(c => { const row = find(c), r = range(row, metric); return { series: c, y: value(row, metric), low: r?.[0], high: r?.[1], value: number(value(row, metric)), extra: pair(r) }; }) };
  }
  function drawBars() {
    const series = chosen(), rows = data.shifts.map((shift, s) => barsOf(shift.title, c => find(c.index, s, POOLED), series)).filter(row => row.bars.some(b => isNumber(b.y)));
    show(by("bars"), `${metricName(state.metric)} of each shift`, "All levels of a shift pooled. Thin lines: 95 % interval.", "Shift", rows, series);
    const groups = data.groups.slice(1).map((name, g) => ({ label: name, bars: series.map(c => {
      const line = data.summary[g + 1].find(e => e.calibrator === c.index);
      return { series: c, y: line?.mean_ece, value: number(line?.mean_ece), extra: line ? `in domain ${number(line.in_domain_ece)}` : "" };
    }) })).filter(row => row.bars.some(b => isNumber(b.y)));
    groups.sort((a, b) => Math.max(...b.bars.map(x => x.y || 0)) - Math.max(...a.bars.map(x => x.y || 0)));
    const most = 40;
    show(by("groups"), "ECE under shift of each group", groups.length > most ? `The ${most} groups with the largest error of ${groups.length}; the table has all.` : "Mean over the shifts, largest error first.", "Group", groups, series, most, "mean ECE under shift");
  }
  function show(host, title, note, kind, rows, series, most = 60, xLabel = metricName(state.metric)) {
    host.hidden = !rows.length || !series.length;
    if (host.hidden) return;
    bars(host, { title, note, label: `Bar chart: ${title}, for ${series.map(s => s.label).join(", ")}`, rows: rows.slice(0, most), xLabel,
      table: { head: [kind, ...series.map(s => s.label)], body: rows.map(row => [row.label, ...row.bars.map(b => [b.value, b.extra].filter(Boolean).join(" "))]) } });
  }

  // ---- reliability and distribution ----
  const binsOf = row => row ? row.b.map(([i, w, c, o]) => ({ low: i / data.bins, high: (i + 1) / data.bins, weight: w, confidence: c / w, outcome: o / w })) : [];
  const binTable = bins => ({ head: ["Bin", "Samples", "Confidence", "Accuracy"], body: bins.map(b => [`${b.low.toFixed(2)} to ${b.high.toFixed(2)}`, b.weight.toLocaleString("en"), number(b.confidence), number(b.outcome)]) });

  function drawReliability() {
    const shift = data.shifts[state.one], name = data.calibrators[state.calibrator].label;
    const panels = [["clean", find(state.calibrator, state.one, 0), data.in_domain_only ? "These samples" : "In domain"],
      ["shifted", shift && find(state.calibrator, state.one, state.level), shift ? `${shift.title}, ${state.level === POOLED ? "all levels" : levelName(shift, state.level)}` : ""]];
    for (const [id, row, where] of panels) {
      const bins = binsOf(row);
      by(id).hidden = !bins.length || (id === "shifted" && data.in_domain_only);
      if (!bins.length) continue;
      const calibrationGap = value(row, "calibration_gap"), ece = value(row, "ece");
      const note = [html("span", { class: `key k-${calibrationGap > 0 ? "over" : "under"}` }), html("span", { text: `${calibrationGap > 0 ? "over" : "under"}-confident by ${number(Math.abs(calibrationGap))} on average. ECE ${number(ece)}, null ECE ${number(row.e0)}. ${row.n.toLocaleString("en")} samples.` })];
      reliability(by(id), { title: `${where}: ${name}`, note, label: `Reliability diagram, ${where}, ${name}: ECE ${number(ece)}, confidence ${number(value(row, "confidence"))}, accuracy ${number(value(row, "accuracy"))}`, bins, table: binTable(bins) });
    }
  }

  function drawHistograms() {
    const host = by("histograms"), shift = data.shifts[state.one];
    host.replaceChildren();
    if (!shift) return;
    const level = topLevel(shift), entries = chosen().map(c => ({ series: c, row: find(c.index, state.one, level) })).filter(e => e.row && e.row.b.length);
    by("distribution").hidden = !entries.length || data.in_domain_only;
    by("distribution-lead").textContent = `${shift.both} at ${levelName(shift, level)}: the distribution of the confidence. In a calibrated model the two lines, mean confidence and accuracy, meet.`;
    const bins = entries.map(e => binsOf(e.row));
    const most = Math.max(0.05, ...bins.map(list => { const total = list.reduce((s, b) => s + b.weight, 0); return Math.max(...list.map(b => b.weight / total)); }));
    entries.forEach(({ series, row }, i) => {
      const figure = html("figure", { class: "panel" });
      host.append(figure);
      histogram(figure, { title: series.label, note: series.style === 0 ? "no calibration" : `tuned on ${series.tuned_on}, ${series.form}`, series, bins: bins[i], most, confidence: value(row, "confidence"), accuracy: value(row, "accuracy"),
        label: `Histogram of confidence, ${series.label}, ${shift.title} at ${levelName(shift, level)}: confidence ${number(value(row, "confidence"))}, accuracy ${number(value(row, "accuracy"))}`, table: binTable(bins[i]) });
    });
  }

  function drawTuning() {
    const levels = (data.perturbation?.levels || []).filter(level => isNumber(level.epsilon) && isNumber(level.accuracy));
    by("tuning").hidden = !levels.length;
    if (!levels.length) return;
    const isTable = data.perturbation.solver === "table", gaussian = data.perturbation.shift === "gaussian";
    const noise = gaussian ? "gaussian noise" : data.perturbation.shift || "noise", sentence = text => text && text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
    const passes = isNumber(data.perturbation.passes) ? `It took ${number(data.perturbation.passes, 1).replace(/\.0$/, "")} passes of the model over the validation data.` : "";
    const how = isTable ? `The calibrators tuned on shift were fitted on all levels of ${noise} together.` : `Algorithm 1 finds levels of ${noise} at which accuracy falls in even steps from clean to chance. The calibrators tuned on shift were fitted on all of them together.`;
    by("tuning-lead").textContent = [how, passes, ...(data.perturbation.notes || []).map(sentence)].filter(Boolean).join(" ");
    const error = level => isNumber(level.standard_error) ? 1.96 * level.standard_error : undefined;
    const strength = level => String(Number(level.epsilon.toPrecision(3)));
    const targets = levels.map((level, i) => ({ ...level, position: i })).filter(level => isNumber(level.target) && !isTable);
    lines(by("tuning-chart"), {
      title: "Accuracy at each perturbation level", note: `${targets.length ? "Hollow squares: the target accuracy. " : ""}Filled circles: the reached accuracy with its 95 % interval.`, label: `Line chart: ${levels.length} perturbation levels, accuracy ${number(levels[0].accuracy)} down to ${number(levels.at(-1).accuracy)}`,
      whiskers: true, low: 0, high: 1, xLabel: gaussian ? "ε, variance of the noise, level by level" : "level", yLabel: "accuracy", xs: levels.map((s, i) => ({ at: i, label: strength(s) })), titleOf: i => `${gaussian ? "ε =" : "level"} ${strength(levels[i])}`,
      series: [{ label: "target", colour: 2, style: 1, line: false, size: 6.5, points: targets.map(s => ({ x: s.position, y: s.target, value: number(s.target) })) },
        { label: "reached", colour: 1, style: 2, points: levels.map((s, i) => ({ x: i, y: s.accuracy, low: isNumber(error(s)) ? Math.max(0, s.accuracy - error(s)) : undefined, high: isNumber(error(s)) ? Math.min(1, s.accuracy + error(s)) : undefined, value: number(s.accuracy), extra: isNumber(error(s)) ? `± ${number(error(s))}` : "" })) }].filter(s => s.points.length),
      table: { head: ["ε", "Target", "Reached", "Standard error"], body: levels.map(s => [String(Number(s.epsilon.toPrecision(4))), number(s.target), number(s.accuracy), number(s.standard_error, 4)]) },
    });
  }

  // ---- controls ----
  function drawChips() {
    by("chips").replaceChildren(...data.calibrators.map((c, i) => html("label", { class: "chip" },
      html("input", { type: "checkbox", checked: state.shown.has(i), onchange: event => { event.target.checked ? state.shown.add(i) : state.shown.delete(i); drawChosen(); } }), swatch(c), html("span", { text: c.label }))));
    const pick = (text, test) => html("button", { type: "button", text, onclick: () => { state.shown = new Set(data.calibrators.map((c, i) => i).filter(i => test(data.calibrators[i], i))); drawChips(); drawChosen(); } });
    by("quick").replaceChildren(pick("The main ones", (c, i) => data.shown.includes(i)), pick("All", () => true), pick("Tuned on shift", c => c.style >= 2 || c.style === 0), pick("Tuned on clean samples", c => c.style < 2));
  }
  function drawLevels() {
    const shift = data.shifts[state.one];
    if (!shift) return;
    if (state.level !== POOLED && !shift.levels.includes(state.level)) state.level = topLevel(shift);
    options(by("level"), [...shift.levels.filter(l => l !== 0).map(l => [l, levelName(shift, l)]), [POOLED, "all levels pooled"]], state.level, key => { state.level = key === POOLED ? POOLED : Number(key); drawReliability(); });
  }
  function drawControls() {
    options(by("shift"), [...(data.shifts.length > 1 && sharedLevels().length > 1 ? [[MEAN, "mean over shifts"]] : []), ...data.shifts.map((s, i) => [i, s.both])], state.shift, key => { state.shift = key === MEAN ? MEAN : Number(key); drawLines(); });
    options(by("metric"), data.metrics.map(m => [m, metricName(m)]), state.metric, key => { state.metric = key; drawLines(); drawBars(); });
    options(by("calibrator"), data.calibrators.map((c, i) => [i, c.label]), state.calibrator, key => { state.calibrator = Number(key); drawReliability(); });
    options(by("shift-one"), data.shifts.map((s, i) => [i, s.both]), state.one, key => { state.one = Number(key); drawLevels(); drawReliability(); drawHistograms(); });
    options(by("group"), data.groups.map((name, i) => [i, name === null ? "all data" : name]).filter(([i]) => data.summary[i].length), state.group, key => { state.group = Number(key); drawAll(); });
    by("group-field").hidden = data.groups.length < 2;
    drawLevels();
    drawChips();
  }
  function drawChosen() { drawLines(); drawBars(); drawHistograms(); }
  function drawAll() { drawTable(); drawTrade(); drawChosen(); drawReliability(); }

  // ---- theme, copying, printing ----
  const root = document.documentElement, theme = by("theme");
  const savedTheme = { get() { try { return localStorage.getItem("driftcal-theme"); } catch { return null; } }, set(v) { try { localStorage.setItem("driftcal-theme", v); } catch { /* private mode */ } } };
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const label = () => { theme.textContent = dark() ? "Light" : "Dark"; theme.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`); };
  if (["light", "dark"].includes(savedTheme.get())) root.dataset.theme = savedTheme.get();
  theme.hidden = false;
  theme.onclick = () => { root.dataset.theme = dark() ? "light" : "dark"; savedTheme.set(root.dataset.theme); label(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();

  const copy = by("copy");
  if (copy) {
    copy.hidden = false;
    copy.onclick = async () => {
      const text = by("command");
      getSelection().selectAllChildren(text);
      let done = false;
      try { await navigator.clipboard.writeText(text.textContent); done = true; } catch { try { done = document.execCommand("copy"); } catch { /* selected: the reader can copy */ } }
      copy.textContent = done ? "Copied" : "Selected";
      setTimeout(() => { copy.textContent = "Copy"; }, 1600);
    };
  }
  const repaint = width => document.querySelectorAll("figure").forEach(f => f.repaint && !f.hidden && f.repaint(width(f)));
  addEventListener("beforeprint", () => repaint(f => f.closest(".pair") ? 320 : 660));
  addEventListener("afterprint", () => repaint(f => f.querySelector(".plot").clientWidth));

  if (!data.summary[state.group].length) return; // nothing was measured
  by("app").hidden = false;
  if (data.in_domain_only) for (const hidden of document.querySelectorAll("[data-shift]")) hidden.hidden = true;
  drawControls();
  drawAll();
  drawTuning();
})();
